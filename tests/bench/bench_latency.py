"""How long a small commit to a large table takes to be in the index. `make bench-latency`.

Prints one JSON object, or with `--table` Markdown. Each kind of table (copy-on-write and
merge-on-read of format 2 and 3) is followed by a warm Continuous run with a poll interval of one
second; then ten rows are appended, or ten rows of one data file are merged, again and again. Time
runs from the end of the commit to the state document that says it is applied, which is written
after the last acknowledged write; so up to a second of it is waiting for the next poll. The phases
show where the rest goes. Kinds take turns round by round.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.bench.changelog import CATALOG, start_session
from icdc_testing.bench.machine import describe_machine
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import wait_until
from phases import Phases, compute_medians

TABLES = {
    "cow_v2": (COPY_ON_WRITE, 2),
    "mor_v2": (MERGE_ON_READ, 2),
    "cow_v3": (COPY_ON_WRITE, 3),
    "mor_v3": (MERGE_ON_READ, 3),
}
COMMITS = ("append", "merge")
CHANGED = 10
WARM_UP = 3
"""Commits of each kind that are not counted."""


class FollowedTable:
    """A table of `rows` rows in `files` files, and a run that follows it until closed."""

    def __init__(
        self, lake: Lake, url: str, folder: Path, name: str, rows: int, files: int
    ) -> None:
        self._lake, self._url, self.name, self._rows = lake, url, name, rows
        self._numbers = itertools.count()
        mode, version = TABLES[name]
        self._table = lake.create(
            "id bigint, name string, amount int, price double, at timestamp",
            mode=mode,
            version=version,
        )
        spark = lake.session
        spark.range(0, rows, 1, files).selectExpr(
            "id",
            "concat('name ', id) as name",
            "cast(id % 100 as int) as amount",
            "id * 1.5D as price",
            "timestamp_seconds(id) as at",
        ).writeTo(f"{CATALOG}.{self._table}").append()
        table = {"name": self._table, "index": name, "identifierColumns": ["id"]}
        harness = Harness(spark, url, folder, [table], name=name.replace("_", "-"))
        assert harness.run().outcome is None
        self._application = PipelineRun(harness.make_request(continuous=True), spark)
        self._thread = threading.Thread(target=self._application.run)
        self._thread.start()

    def commit(self, what: str) -> float:
        """Change ten rows; seconds from the end of the commit until it is applied."""
        number = next(self._numbers)
        if what == "append":
            first = self._rows + CHANGED * number
            rows = f"range({first}, {first + CHANGED})"
            self._lake.sql(
                f"insert into {CATALOG}.{self._table} "
                f"select id, 'new', 1, 1D, timestamp_seconds(id) from {rows}"
            )
        else:
            first = CHANGED * number % (self._rows // 20)
            self._lake.sql(
                f"merge into {CATALOG}.{self._table} t using (select id as k from "
                f"range({first}, {first + CHANGED})) s on t.id = s.k "
                f"when matched then update set amount = {1000 + number}"
            )
        since = time.monotonic()
        head = str(self._lake.read_head(self._table))
        wait_until(
            lambda: oracle.read_applied(self._url, self.name) == head,
            f"{head} is applied",
            pause=0.01,
        )
        return time.monotonic() - since

    def close(self) -> None:
        """End the run."""
        self._application.stop.set()
        self._thread.join()


def main() -> int:
    """Measure and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as folder:
        result = _measure(Path(folder), options)
    text = _format_markdown(result) if options.table else json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    spark = start_session(folder, memory="4g")
    lake, phases = Lake(spark), Phases()
    latencies: dict[tuple[str, str], list[float]] = {}
    spent: dict[tuple[str, str], list[dict[str, float]]] = {}
    followed: list[FollowedTable] = []
    with OpenSearchNode(folder / "opensearch") as node, phases.time_phases():
        try:
            for name in TABLES:
                made = FollowedTable(lake, node.url, folder, name, options.rows, options.files)
                followed.append(made)
            for number in range(WARM_UP + options.rounds):
                for table, what in itertools.product(followed, COMMITS):
                    phases.take()
                    latency = table.commit(what)
                    if number >= WARM_UP:
                        latencies.setdefault((table.name, what), []).append(latency)
                        spent.setdefault((table.name, what), []).append(phases.take())
        finally:
            for commit in followed:
                commit.close()
            spark.stop()
    return {
        **describe_machine("pyspark"),
        "rows": options.rows,
        "files": options.files,
        "rounds": options.rounds,
        "commits": [
            {
                "table": name,
                "commit": what,
                "p50": statistics.median(seconds),
                "p95": statistics.quantiles(seconds, n=20)[-1],
                "phases": compute_medians(spent[name, what]),
            }
            for (name, what), seconds in latencies.items()
        ],
    }


def _format_markdown(result: dict[str, Any]) -> str:
    phases = list(result["commits"][0]["phases"])
    lines = [
        f"| table | commit | p50 s | p95 s | {' | '.join(phases)} |",
        f"|---|---|---|---|{'---|' * len(phases)}",
    ]
    for commit in result["commits"]:
        shown = " | ".join(f"{commit['phases'][phase]:.2f}" for phase in phases)
        lines.append(
            f"| {commit['table']} | {commit['commit']} | {commit['p50']:.2f} | {commit['p95']:.2f} "
            f"| {shown} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
