"""What one commit costs where a run is started for it, from a cold start of its JVM.

`make bench-cold`. Prints one JSON object, or with `--table` Markdown. A table of 20 columns is
exported; then each round changes 1 % of its rows and deletes 0.1 %, by two copy-on-write commits,
and `icdc run --once` applies them; after that another one finds nothing to do, and `icdc preview`
shows five documents. Rounds are made for each choice of `--java-options` in turn, on the same table
and index.

CPU is that of `icdc` and of all processes below it, by parts (cpu_parts.py);
OpenSearch is not counted.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from cpu_parts import PARTS, CpuParts
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.changelog import CATALOG, start_session
from icdc_testing.bench.changelog_ranges import make_two_commits
from icdc_testing.bench.machine import describe_machine, print_runs
from icdc_testing.lake.lake import COPY_ON_WRITE, Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

TABLE = "cold"
NAME = "cold"
FIRST = 11
"""Of the hundredths of the rows that are changed, one in each round; the table was made with 3."""


@dataclass(frozen=True)
class RunCost:
    """What one command took."""

    seconds: float
    """Of the clock."""
    cpu: Mapping[str, float]
    """Of processors, by parts."""


class ColdRuns:
    """A pipeline over one table, applied by one `icdc run --once` after another."""

    def __init__(self, lake: Lake, url: str, folder: Path) -> None:
        self._lake, self._url, self._folder = lake, url, folder
        entry = {"name": f"db.{TABLE}", "index": NAME, "identifierColumns": ["id"]}
        self._harness = Harness(lake.session, url, folder, [entry], name=NAME)

    def commit(self, number: int) -> str:
        """Change 1 % of the rows, delete 0.1 %; return the id of the snapshot."""
        name = f"{CATALOG}.db.{TABLE}"
        self._lake.sql(f"update {name} set s1 = concat('{number} ', id) where id % 100 = {number}")
        self._lake.sql(f"delete from {name} where id % 1000 = {100 + number}")
        return str(self._lake.read_head(f"db.{TABLE}"))

    def run(self, java_options: str) -> RunCost:
        """Apply what there is; return what it took."""
        return self._call(java_options, "run", "--once", "--state-dir", str(self._folder / "state"))

    def preview(self, java_options: str) -> RunCost:
        """Show some documents; return what it took."""
        return self._call(java_options, "preview")

    def _call(self, java_options: str, command: str, *arguments: str) -> RunCost:
        resource = self._harness.resource
        conf = {"spark.driver.extraJavaOptions": java_options} if java_options else {}
        spark = {"driver": {"memory": "1g"}, "executor": {"instances": 1, "cores": 2}, "conf": conf}
        file = self._folder / "pipeline.json"
        file.write_text(json.dumps({**resource, "spec": {**resource["spec"], "spark": spark}}))
        icdc = Path(sys.executable).with_name("icdc")
        since = time.monotonic()
        with (self._folder / "icdc.log").open("ab") as log:
            process = subprocess.Popen(
                [str(icdc), command, "-f", str(file), *arguments], stdout=log, stderr=log
            )
            cpu = CpuParts(process.pid)
            while process.poll() is None:
                cpu.read()
                time.sleep(0.1)
        seconds = time.monotonic() - since
        assert process.returncode == 0, (self._folder / "icdc.log").read_text()
        return RunCost(seconds, cpu.sum_seconds())

    def require_applied(self, snapshot: str) -> None:
        """Fail where the state document names another snapshot."""
        assert oracle.read_applied(self._url, NAME) == snapshot


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--java-options", action="append", help="such as =-Xint; default: none; may be repeated"
    )
    parser.add_argument("--table", action="store_true", help="print Markdown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as folder:
        result = _measure(Path(folder), options)
    print_runs(result, as_table=options.table)
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    choices = options.java_options or [""]
    costs: dict[tuple[str, str], list[RunCost]] = defaultdict(list)
    spark = start_session(folder, memory="1500m")
    make_two_commits(spark, options.rows, mode=COPY_ON_WRITE, table=TABLE)
    with OpenSearchNode(folder / "opensearch") as node:
        runs = ColdRuns(Lake(spark), node.url, folder)
        runs.run("")
        numbers = count(FIRST)
        for _ in range(options.rounds):
            for choice in choices:
                snapshot = runs.commit(next(numbers))
                costs[choice, "two commits"].append(runs.run(choice))
                runs.require_applied(snapshot)
                costs[choice, "nothing new"].append(runs.run(choice))
                costs[choice, "a preview"].append(runs.preview(choice))
    spark.stop()
    return {
        **describe_machine("pyspark"),
        "rows": options.rows,
        "rounds": options.rounds,
        "runs": [
            {"java_options": choice or "-", "run": what, **_summarise(measured)}
            for (choice, what), measured in costs.items()
        ],
    }


def _summarise(costs: list[RunCost]) -> dict[str, float]:
    """Return the medians."""
    return {
        "seconds": round(statistics.median(cost.seconds for cost in costs), 1),
        "cpu_seconds": round(statistics.median(sum(cost.cpu.values()) for cost in costs), 1),
        **{part: round(statistics.median(cost.cpu[part] for cost in costs), 1) for part in PARTS},
    }


if __name__ == "__main__":
    sys.exit(main())
