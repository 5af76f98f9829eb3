"""What many tables in one run take of the machine, and from each other. `make bench-tables`.

For each number of tables a Continuous run of its own, in processes as `icdc run` starts them, with
two cores and the default heap of a driver, and a fresh OpenSearch node. Prints one JSON object, or
with `--table` Markdown. All tables are exported first; measured is after they have caught up, a
minute of idling later, while the run goes on polling at its default interval.

With `--faults` (`make bench-isolation`) instead: ten tables in one run, of which one misbehaves.
Measured are the documents written for the nine others, and the time until these have applied a
batch each, beside the same tables in which nothing is wrong; with and without take turns.
"""

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.machine import describe_machine, print_runs
from icdc_testing.bench.many_tables import FollowedTables, make_tables
from isolation import measure_isolation


def main() -> int:
    """Measure and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--rows", type=int, default=100, help="of each table")
    parser.add_argument("--heap", default="1g", help="of the one JVM")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds without work")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    parser.add_argument("--faults", action="store_true", help="one of ten tables misbehaves")
    parser.add_argument("--changed", type=int, default=5_000, help="rows of a batch, with --faults")
    parser.add_argument("--rounds", type=int, default=3, help="of each fault, with --faults")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        folder = Path(name)
        if options.faults:
            result = measure_isolation(folder, rows=options.changed, rounds=options.rounds)
            print_runs(result, as_table=options.table)
            return 0
        catalog = make_tables(folder / "lake", max(options.tables), rows=options.rows)
        runs = []
        for count in options.tables:
            runs.append(_measure(folder / f"of-{count}", catalog, count, options))
            sys.stderr.write(f"{runs[-1]}\n")
    result = {**describe_machine("pyspark", "pyiceberg"), "rows": options.rows, "runs": runs}
    print_runs(result, as_table=options.table)
    return 0


def _measure(
    folder: Path, catalog: dict[str, str], count: int, options: argparse.Namespace
) -> dict[str, Any]:
    (folder / "runs").mkdir(parents=True)
    with (
        OpenSearchNode(folder / "opensearch") as node,
        FollowedTables(folder / "runs", node.url, catalog, count, heap=options.heap) as run,
    ):
        first, all_of_them = run.catch_up()
        cpu = run.measure_idle_cpu(options.idle)
        taken = {key: round(value) for key, value in asdict(run.take()).items()}
    return {
        "tables": count,
        "first_caught_up_seconds": round(first, 1),
        "caught_up_seconds": round(all_of_them, 1),
        "idle_cpu_seconds_per_minute": round(cpu, 2),
        **taken,
    }


if __name__ == "__main__":
    raise SystemExit(main())
