"""How much memory a batch of the changelog takes where the data grows. `make bench-memory`.

The same share of the rows of a smaller and of a larger table is changed, and every strategy finds
it, in one JVM of two cores with little memory, which is driver and executor. Prints one JSON
object, or with `--table` Markdown. Bounded in rows.
"""

import argparse
import functools
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from icdc_spark.diff.strategies import Strategy
from icdc_testing.bench.changelog import CATALOG, Range, Ways, start_session
from icdc_testing.bench.changelog_ranges import make_two_commits
from icdc_testing.bench.machine import describe_machine
from icdc_testing.lake.lake import COPY_ON_WRITE
from memory_peaks import MemoryMeter, Peaks

STRATEGIES = (Strategy.ONE_READ, Strategy.TWO_READS, Strategy.LINEAGE)
ROWS_OF_A_FILE = 250_000
"""The files of the larger table are more, not larger: a reader holds a row group of a file."""
CLUSTER = {"spark.sql.shuffle.partitions": "200"}
"""Spark's default, with which pipelines on a cluster run."""


def main() -> int:
    """Measure and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 8_000_000])
    parser.add_argument("--memory", default="1g", help="heap of the one JVM")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        measured = _measure(Path(name), options)
    result = {**describe_machine("pyspark"), "heap": options.memory, "peaks_mb": measured}
    sys.stdout.write(
        _format_markdown(result) if options.table else json.dumps(result, indent=1) + "\n"
    )
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, dict[int, Any]]:
    gc_log = folder / "gc.log"
    logging = {"spark.driver.extraJavaOptions": f"-Xlog:gc:file={gc_log}"}
    spark = start_session(folder, memory=options.memory, more={**CLUSTER, **logging})
    try:
        ways, meter = Ways(spark), MemoryMeter(spark, gc_log)
        by_strategy: dict[str, dict[int, Any]] = {strategy.value: {} for strategy in STRATEGIES}
        for rows in options.rows:
            table, files = f"rows{rows}", max(1, rows // ROWS_OF_A_FILE)
            where = make_two_commits(spark, rows, mode=COPY_ON_WRITE, table=table, files=files)
            for strategy in STRATEGIES:
                peaks = _measure_peaks(meter, ways, where, strategy)
                sys.stderr.write(f"{rows}, {strategy}: {peaks}\n")
                by_strategy[strategy.value][rows] = asdict(peaks)
            spark.sql(f"drop table {CATALOG}.{where.table} purge")
    finally:
        spark.stop()
    return by_strategy


def _measure_peaks(meter: MemoryMeter, ways: Ways, where: Range, strategy: Strategy) -> Peaks:
    return meter.measure(functools.partial(ways.compute_changelog, where, strategy))


def _format_markdown(result: Mapping[str, Any]) -> str:
    names = ("execution", "spilled", "heap", "worker")
    lines = [
        f"| strategy | rows | {' | '.join(names)} |",
        "|---|---|" + "---|" * len(names),
    ]
    for strategy, sizes in result["peaks_mb"].items():
        for rows, peaks in sizes.items():
            shown = " | ".join(f"{peaks[name]:.0f}" for name in names)
            lines.append(f"| `{strategy}` | {rows:,} | {shown} |")
    about = ", ".join(f"{key} {value}" for key, value in result.items() if key != "peaks_mb")
    return "\n".join([*lines, "", about, ""])


if __name__ == "__main__":
    raise SystemExit(main())
