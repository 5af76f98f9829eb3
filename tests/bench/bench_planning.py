"""What planning costs in tables of many files. `make bench-planning`.

Prints one JSON object. Every case is planned by what is shipped and by its peer, Iceberg's own
listing of both snapshots, in turn, after a warm-up of each; of each the median, in seconds of the
clock and of the processor (JVM and Python together). The table is loaded anew before each, so that
no list of manifests is remembered. Tables are made of metadata alone, and but for one case they are
unpartitioned, so that nothing but manifests can be passed over. `shipped_first_seconds` is of the
first time, when no manifest of the table has been looked into. Code 1 where a goal is missed.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from icdc_spark.diff.change_plan import ChangePlan, compare_files, plan_changes
from icdc_spark.iceberg.changes.changed_files import SnapshotFiles
from icdc_spark.iceberg.scan.planning import list_files
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.bench.machine import describe_machine
from icdc_testing.bench.session import start_bench_session
from icdc_testing.waiting.process_cpu import sum_cpu_seconds
from planning_tables import ManyFiles, PlanningCase

MANIFESTS = 400
GOAL_SMALL_SECONDS = 0.3
GOAL_REWRITTEN_SECONDS = 3.0
GOAL_FILES = 10_000
"""The number of files that the goals are for."""

WARM_UP = 2

Plan = Callable[[IcebergTable, PlanningCase], ChangePlan]


def main() -> int:
    """Measure and prints; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1000, GOAL_FILES, 50_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as folder:
        session = start_bench_session("bench-planning", Path(folder))
        try:
            results = [
                _measure(case, options.rounds)
                for files in options.files
                for case in ManyFiles(session, Path(folder), files, MANIFESTS).make_cases(
                    growth_only=files != GOAL_FILES
                )
            ]
        finally:
            session.stop()
    sys.stdout.write(json.dumps({**describe_machine("pyspark"), "cases": results}, indent=1) + "\n")
    return 0 if all(result["within"] for result in results) else 1


def _plan_as_shipped(table: IcebergTable, case: PlanningCase) -> ChangePlan:
    return plan_changes(table, case.since, case.until, keys=case.keys)


def _compare_by_listing(table: IcebergTable, case: PlanningCase) -> ChangePlan:
    since, until = case.since, case.until
    return compare_files(
        table, since, until, SnapshotFiles(list_files(table, since), list_files(table, until))
    )


def _measure(case: PlanningCase, rounds: int) -> dict[str, Any]:
    planners: Mapping[str, Plan] = {"shipped": _plan_as_shipped, "listing": _compare_by_listing}
    wall: dict[str, list[float]] = {name: [] for name in planners}
    cpu: dict[str, list[float]] = {name: [] for name in planners}
    sizes, first = set(), 0.0
    for number in range(WARM_UP + rounds):
        for name, planner in planners.items():
            table = case.load()
            before, started = sum_cpu_seconds(), time.monotonic()
            plan = planner(table, case)
            took = time.monotonic() - started
            used = sum_cpu_seconds() - before
            sizes.add(_count_files(plan))
            first = first or took
            if number >= WARM_UP:
                wall[name].append(took)
                cpu[name].append(used)
    if len(sizes) != 1:
        raise SystemExit(f"{case.name}: the planners do not agree: {sizes}")
    seconds = {name: round(statistics.median(seconds), 3) for name, seconds in wall.items()}
    goal = GOAL_REWRITTEN_SECONDS if case.rewrites_all else GOAL_SMALL_SECONDS
    return {
        "case": case.name,
        "files": case.files,
        "manifests": case.manifests,
        "plan": dict(
            zip(
                ("added", "removed", "before", "after", "deletes by value"),
                sizes.pop(),
                strict=True,
            )
        ),
        "seconds": seconds,
        "shipped_first_seconds": round(first, 3),
        "seconds_spread": {name: [round(min(e), 3), round(max(e), 3)] for name, e in wall.items()},
        "cpu_seconds": {
            name: round(statistics.median(seconds), 2) for name, seconds in cpu.items()
        },
        "within": case.files > 1.1 * GOAL_FILES or seconds["shipped"] <= goal,
    }


def _count_files(plan: ChangePlan) -> tuple[int, ...]:
    return (
        plan.added.files,
        plan.removed.files,
        plan.shared_before.files,
        plan.shared_after.files,
        # By listing alone it is not known which of these tell the keys.
        plan.deleted_keys.files
        + sum(value_delete.deletes.files for value_delete in plan.value_deletes),
    )


if __name__ == "__main__":
    raise SystemExit(main())
