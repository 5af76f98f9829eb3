"""Whether anything grows with the number of batches. `make soak-state`.

A Continuous run in processes of its own follows tables that change without end (each round is one
batch of every table). Sampled are what is stored for the pipeline and what the run takes of the
machine; each figure is judged by the slope of a line through its samples. Those of the first
batches are left out (`--settled`): until then Spark retains every query.
At the end the run is killed, rows are committed, and the time is taken in which another run applies
them. Prints Markdown; ends by 1 if a figure grows, or the other run needs more than 5 s beyond the
start of its JVM. `--csv` names a file for the samples.
"""

import argparse
import csv
import sys
import tempfile
import time
from pathlib import Path

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.machine import describe_machine
from icdc_testing.bench.state_growth import ChangingTables, Growth, Trend, measure_trend

RECOVERY_SECONDS = 5.0
FEWEST = 5
"""Samples from which a slope is judged."""


def main() -> int:
    """Play, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2000, help="batches of each table")
    parser.add_argument("--minutes", type=float, default=600.0, help="end earlier")
    parser.add_argument("--samples", type=float, default=20.0, help="seconds between two")
    parser.add_argument("--settled", type=int, default=200, help="batches that are not judged")
    parser.add_argument("--csv", type=Path, help="file for the samples")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-soak-") as name:
        folder = Path(name)
        (folder / "runs").mkdir()
        tables = ChangingTables(folder / "lake", options.tables)
        try:
            with OpenSearchNode(folder / "opensearch") as node:
                growth = Growth(tables, node.url, folder / "runs")
                _go_on(growth, options)
                started, recovered = _restart(growth)
        finally:
            tables.close()
    if options.csv:
        _write(options.csv, growth.samples)
    trends = _judge(growth.samples, options.settled)
    _print(trends, growth.samples, (started, recovered))
    grows = any(trend.grows for trend in trends.values())
    return 1 if grows or recovered > RECOVERY_SECONDS else 0


def _go_on(growth: Growth, options: argparse.Namespace) -> None:
    deadline = time.monotonic() + options.minutes * 60
    with growth.follow(epoch=1) as run:
        due = 0.0
        for _ in range(options.rounds):
            growth.advance()
            now = time.monotonic()
            if now >= due:
                growth.sample(run)
                due = now + options.samples
                sys.stderr.write(f"{growth.samples[-1]}\n")
            if now >= deadline:
                break
        growth.sample(run)


def _restart(growth: Growth) -> tuple[float, float]:
    """Return the seconds until another run has its JVM, and from then until all is applied."""
    since = time.monotonic()
    with growth.follow(epoch=2) as run:
        run.await_session()
        started = time.monotonic()
        growth.advance()
        return started - since, time.monotonic() - started


def _judge(samples: list[dict[str, float]], after: int) -> dict[str, Trend]:
    settled = [sample for sample in samples if sample["batches"] > after]
    if len(settled) < FEWEST:
        raise SystemExit(f"{len(settled)} samples after {after} batches, {FEWEST} are needed")
    batches = [sample["batches"] for sample in settled]
    figures = [name for name in samples[0] if name not in ("at", "batches")]
    return {name: measure_trend(batches, [sample[name] for sample in settled]) for name in figures}


def _write(path: Path, samples: list[dict[str, float]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(samples[0]))
        writer.writeheader()
        writer.writerows(samples)


def _print(
    trends: dict[str, Trend], samples: list[dict[str, float]], restart: tuple[float, float]
) -> None:
    lines = [
        "| figure | first | last | slope of 1,000 batches | |",
        "|---|---|---|---|---|",
    ]
    for name, one in trends.items():
        verdict = "GROWS" if one.grows else "flat"
        slope = f"{one.slope:.3g} ± {one.margin:.2g}"
        label = name.replace("_", " ")
        lines.append(f"| {label} | {one.first:.0f} | {one.last:.0f} | {slope} | {verdict} |")
    seconds = samples[-1]["at"] - samples[0]["at"]
    lines += [
        "",
        f"{samples[-1]['batches']:.0f} batches, {len(samples)} samples, {seconds / 60:.1f} minutes",
        f"another run: its JVM after {restart[0]:.1f} s, all applied {restart[1]:.1f} s later",
        ", ".join(f"{key} {value}" for key, value in describe_machine("pyspark").items()),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
