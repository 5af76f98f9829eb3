"""What a look at tables costs that nobody has changed. `make bench-idle`.

Prints one JSON object, or with `--table` Markdown. Both that look are measured in turn, round after
round, in this process: the operator's reader of heads (threads of its own, one catalog), and the
tables of an application that goes on (one after the other, so that the times add up). CPU is that
of this process and its JVM; OpenSearch is not counted. The first look, which reads each file, is
told apart; then one that does not count, then the rounds. Opened metadata files are counted by
inotify, requests as the client logs them. Code 1 where an idle look opened a metadata file.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from file_opens import FileOpens
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.machine import describe_machine
from icdc_testing.bench.session import start_bench_session
from icdc_testing.waiting.process_cpu import sum_cpu_seconds
from idle_tables import ApplicationPolls, IdleTables, OperatorPolls, Requests


def main() -> int:
    """Measure and prints; 1 where a metadata file was read for nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--commits", type=int, default=50, help="of each table")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as folder:
        result = asyncio.run(_measure(Path(folder), options))
    text = _format_markdown(result) if options.table else json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    idle = [polling["idle"]["metadata_files_opened"] for polling in result["looks"].values()]
    return 1 if any(idle) else 0


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    tables = IdleTables(folder, count=options.tables, commits=options.commits)
    session = start_bench_session("bench-idle", folder)
    with OpenSearchNode(folder / "opensearch") as node, FileOpens([tables.folder]) as opens:
        pipeline = tables.make_pipeline(node.url)
        operator = OperatorPolls(pipeline)
        application = ApplicationPolls(session, pipeline, folder)
        application.settle()
        measure = _Measure(opens, lambda: sum_cpu_seconds() - sum_cpu_seconds(node.pid))
        try:
            first = {"operator": await measure.measure_operator(operator)}
            await measure.measure_operator(operator)
            measure.measure_application(application)
            rounds: dict[str, list[dict[str, float]]] = {"operator": [], "application": []}
            for _ in range(options.rounds):
                rounds["operator"].append(await measure.measure_operator(operator))
                rounds["application"].append(measure.measure_application(application))
            with Requests() as asked:
                application.poll()
        finally:
            application.close()
            operator.close()
            session.stop()
    polls = {who: {"idle": _compute_medians(polls)} for who, polls in rounds.items()}
    polls["operator"]["first"] = first["operator"]
    polls["operator"]["idle"]["opensearch_requests"] = 0
    polls["application"]["idle"]["opensearch_requests"] = len(asked)
    return {
        **describe_machine("pyspark", "pyiceberg"),
        "tables": options.tables,
        "metadata_bytes": tables.bytes,
        "rounds": options.rounds,
        "looks": polls,
    }


class _Measure:
    """Seconds of the clock and of processors, and opened files, of one look at all tables."""

    def __init__(self, opens: FileOpens, cpu: Callable[[], float]) -> None:
        self._opens = opens
        self._cpu = cpu

    async def measure_operator(self, polls: OperatorPolls) -> dict[str, float]:
        since = self._begin()
        await polls.poll()
        return self._end(since)

    def measure_application(self, polls: ApplicationPolls) -> dict[str, float]:
        since = self._begin()
        polls.poll()
        return self._end(since)

    def _begin(self) -> tuple[float, float]:
        self._opens.take()
        return self._cpu(), time.monotonic()

    def _end(self, since: tuple[float, float]) -> dict[str, float]:
        seconds, cpu = time.monotonic() - since[1], self._cpu() - since[0]
        opened = self._opens.take()
        files = sum(n for name, n in opened.items() if name.endswith(".metadata.json"))
        return {"seconds": seconds, "cpu_seconds": cpu, "metadata_files_opened": files}


def _compute_medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure over the rounds; of opened files the maximum."""
    medians = {
        key: round(statistics.median(round_[key] for round_ in rounds), 3)
        for key in ("seconds", "cpu_seconds")
    }
    return {**medians, "metadata_files_opened": max(e["metadata_files_opened"] for e in rounds)}


def _format_markdown(result: dict[str, Any]) -> str:
    lines = [
        "| who looks | s | CPU s | metadata files opened | requests to OpenSearch |",
        "|---|---|---|---|---|",
    ]
    for who, polls in result["looks"].items():
        for which, polling in polls.items():
            lines.append(
                f"| {who}, {which} | {polling['seconds']:.2f} | {polling['cpu_seconds']:.2f} "
                f"| {polling['metadata_files_opened']} | {polling.get('opensearch_requests', '')} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
