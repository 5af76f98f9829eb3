"""How soon commits are applied by a run that lingers, beside a run that is started for each.

`make bench-lingering`. Prints one JSON object, or with `--table` Markdown. Two equal tables get the
same commits in turn, every `--interval` seconds:

    started      an application is started when the commit is done, and ends by itself: as with
                 `lingerSeconds: 0`, without the time that an operator and a cluster take
    lingering    one application polls every second, and ends by itself after the last commit

Time runs from the end of the commit to the state document that says it is applied.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from icdc_api.spec.pipeline import Pipeline
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_cli.local import application
from icdc_cli.local.runs import LocalRuns
from icdc_testing.bench.changelog import CATALOG, start_session
from icdc_testing.bench.machine import describe_machine, print_runs
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import wait_until

WAYS = ("started", "lingering")
ROWS = 100_000
CHANGED = 100
MAX_WAIT_SECONDS = 300.0


class PolledTable:
    """A table that was exported, and the applications that follow it."""

    def __init__(self, lake: Lake, url: str, folder: Path, name: str) -> None:
        self._lake, self._url, self._name = lake, url, name
        self.table = lake.create("id bigint, name string, amount int")
        lake.session.range(ROWS).selectExpr(
            "id", "concat('name ', id) as name", "cast(id % 100 as int) as amount"
        ).writeTo(f"{CATALOG}.{self.table}").append()
        entry = {"name": self.table, "index": name, "identifierColumns": ["id"]}
        self._harness = Harness(lake.session, url, folder, [entry], name=name)
        assert self._harness.run().outcome is None
        self._spark = Pipeline.model_validate(self._harness.resource).spec.spark
        self._runs = LocalRuns(folder / name, application.find_installed())
        self._count = 0

    def start(self, linger_seconds: int | None = None) -> None:
        """Start an application."""
        self._count += 1
        name = f"run-{self._count}"
        request = self._harness.make_request(
            linger_seconds=linger_seconds, report_path=str(self._runs.build_report_path(name))
        )
        self._runs.create(name, request, self._spark)

    def commit(self, number: int) -> str:
        """Change some rows; return the id of the snapshot."""
        self._lake.sql(
            f"update {CATALOG}.{self.table} set amount = {1000 + number} where id < {CHANGED}"
        )
        return str(self._lake.read_head(self.table))

    def wait_until_applied(self, snapshot: str) -> None:
        """Wait until the state document says that the snapshot is applied."""
        wait_until(
            lambda: oracle.read_applied(self._url, self._name) == snapshot,
            f"{snapshot} is applied",
            seconds=MAX_WAIT_SECONDS,
            pause=0.01,
        )

    def wait_until_ended(self) -> None:
        """Wait until no application runs; none may have failed."""

        def has_ended() -> bool:
            return not any(run.live for run in self._runs.observe())

        wait_until(has_ended, "the run has ended", seconds=MAX_WAIT_SECONDS)
        failures = [run.failure for run in self._runs.observe() if run.failure is not None]
        assert not failures, failures

    def close(self) -> None:
        """End what still runs."""
        self._runs.close()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=8)
    parser.add_argument("--interval", type=float, default=60.0, help="seconds between two commits")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as folder:
        result = _measure(Path(folder), options)
    print_runs(result, as_table=options.table)
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    spark = start_session(folder, memory="1g")
    lake = Lake(spark)
    latencies: dict[str, list[float]] = {way: [] for way in WAYS}
    with OpenSearchNode(folder / "opensearch") as node:
        started, lingering = (PolledTable(lake, node.url, folder, way) for way in WAYS)
        try:
            lingering.start(linger_seconds=int(60 + 2 * options.interval))
            for number in range(options.commits):
                begun = time.monotonic()
                for table, way in ((started, "started"), (lingering, "lingering")):
                    snapshot = table.commit(number)
                    since = time.monotonic()
                    if table is started:
                        table.start()
                    table.wait_until_applied(snapshot)
                    latencies[way].append(time.monotonic() - since)
                    if table is started:
                        table.wait_until_ended()
                time.sleep(max(0.0, options.interval - (time.monotonic() - begun)))
            lingering.wait_until_ended()
        finally:
            for table in (started, lingering):
                table.close()
            spark.stop()
    return {
        **describe_machine("pyspark"),
        "rows": ROWS,
        "changed": CHANGED,
        "commits": options.commits,
        "interval": options.interval,
        "runs": [
            {
                "way": way,
                "median_seconds": round(statistics.median(latencies[way]), 1),
                "slowest_seconds": round(max(latencies[way]), 1),
            }
            for way in WAYS
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
