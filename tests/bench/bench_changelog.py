"""What it costs to know what changed, beside `create_changelog_view`. `make bench-changelog`.

From two snapshot ids to the last line handed to a null sink, all ways of one range in turn, in one
process of two cores, after a round on a small table that nobody counts. Prints one JSON object, or
with `--table` Markdown, each range as soon as it is measured. Bounded in rows and rounds.
"""

import argparse
import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icdc_spark.diff.changes import Strategy, choose
from icdc_spark.diff.plan import ChangePlan
from support_bench_machine import machine
from support_changelog_bench import CATALOG, Cost, Meter, Range, Ways, session

FILES = 8
_COW, _MOR = "copy-on-write", "merge-on-read"
VIEW, VIEW_UPDATES = "view, default", "view, compute_updates"
PLAN = "plan that leaves nothing to read"
FLOOR = "native engine, one process"
TEXTS, NUMBERS, COUNTS = 10, 5, 4
"""Columns beside `id`: texts of 24 characters, doubles, integers."""

Way = Callable[[Range], tuple[int, int]]


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--memory", default="4g", help="heap of the one JVM")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    parser.add_argument("--scenarios", nargs="*", default=list(SCENARIOS), choices=SCENARIOS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        spark = session(Path(name), memory=options.memory)
        try:
            measured = _measured(spark, options)
        finally:
            spark.stop()
    result = {**machine("pyspark"), "rounds": options.rounds, "ranges": measured}
    sys.stdout.write((_words(result) if options.table else json.dumps(result, indent=1)) + "\n")
    return 0


def _measured(spark: SparkSession, options: argparse.Namespace) -> dict[str, Any]:
    ways, meter = Ways(spark), Meter(spark)
    _warm(spark, ways, meter)
    found = {}
    for name in options.scenarios:
        started = time.monotonic()
        make, share = SCENARIOS[name]
        where = make(spark, options.rows // share)
        made = round(time.monotonic() - started, 1)
        found[name] = {
            "rows": options.rows // share,
            "making_seconds": made,
            **_compared(ways, meter, where, options.rounds),
        }
        spark.sql(f"drop table {CATALOG}.{where.table} purge")
        if options.table:
            sys.stdout.write(_markdown(name, found[name]) + "\n")
            sys.stdout.flush()
    return found


def _warm(spark: SparkSession, ways: Ways, meter: Meter) -> None:
    """Loads and compiles what every way needs."""
    where = two_commits(spark, 20_000, mode=_COW, table="warm")
    _compared(ways, meter, where, rounds=1)


def _compared(ways: Ways, meter: Meter, where: Range, rounds: int) -> dict[str, Any]:
    plan = ways.plan(where)
    contenders = _contenders(ways, plan)
    costs: dict[str, list[Cost]] = {name: [] for name in contenders}
    refused: dict[str, str] = {}
    for _ in range(rounds):
        for name, way in contenders.items():
            if name in refused:
                continue
            try:
                cost = meter.measure(functools.partial(way, where))
            except PySparkException as error:
                refused[name] = str(error).splitlines()[0][:120]
            else:
                costs[name].append(cost)
                sys.stderr.write(f"{where.table}, {name}: {cost}\n")
    return {
        "chosen": PLAN if plan.is_empty else choose(plan).value,
        "ways": {name: _summary(found) for name, found in costs.items() if found},
        "refused": refused,
    }


def _contenders(ways: Ways, plan: ChangePlan) -> dict[str, Way]:
    views: dict[str, Way] = {
        VIEW: lambda where: ways.view(where, updates=False),
        VIEW_UPDATES: lambda where: ways.view(where, updates=True),
    }
    if plan.is_empty:
        return {**views, PLAN: lambda where: ways.changelog(where, None)}
    strategies = [Strategy.ONE_READ, Strategy.TWO_READS]
    if plan.removed.files == 0:
        strategies.append(Strategy.STREAM)
    if plan.lineage_since is not None:
        strategies.append(Strategy.LINEAGE)
    without_deletes = plan.deletes_before.files + plan.deletes_after.files == 0
    return {
        **views,
        **({FLOOR: ways.floor} if without_deletes else {}),
        **{strategy.value: _changelog(ways, strategy) for strategy in strategies},
    }


def _changelog(ways: Ways, strategy: Strategy) -> Way:
    return lambda where: ways.changelog(where, strategy)


def _summary(costs: Sequence[Cost]) -> dict[str, Any]:
    """Medians, and the CPU seconds of every round."""
    rounds = [asdict(cost) for cost in costs]
    medians = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
    return {**medians, "every_cpu_seconds": [cost.cpu_seconds for cost in costs]}


def two_commits(spark: SparkSession, rows: int, *, mode: str, table: str) -> Range:
    """1 % of the rows updated, then 0.1 % deleted."""
    name = _table(spark, rows, mode, table)
    since = _head(spark, name)
    spark.sql(f"update {CATALOG}.{name} set s0 = concat(s0, 'X') where id % 100 = 3")
    spark.sql(f"delete from {CATALOG}.{name} where id % 1000 = 5")
    return Range(table=name, since=since, until=_head(spark, name))


def ten_commits(spark: SparkSession, rows: int) -> Range:
    """Ten times another 1 % of the rows updated."""
    name = _table(spark, rows, _COW, "ten")
    since = _head(spark, name)
    for commit in range(10):
        spark.sql(f"update {CATALOG}.{name} set s1 = concat(s1, 'Y') where id % 100 = {commit}")
    return Range(table=name, since=since, until=_head(spark, name))


def compaction(spark: SparkSession, rows: int) -> Range:
    """All files written anew."""
    name = _table(spark, rows, _COW, "compacted")
    since = _head(spark, name)
    spark.sql(
        f"call {CATALOG}.system.rewrite_data_files(table => '{name}', "
        "options => map('rewrite-all', 'true'))"
    )
    return Range(table=name, since=since, until=_head(spark, name))


SCENARIOS: Mapping[str, tuple[Callable[[SparkSession, int], Range], int]] = {
    _COW: (lambda spark, rows: two_commits(spark, rows, mode=_COW, table="cow"), 1),
    _MOR: (lambda spark, rows: two_commits(spark, rows, mode=_MOR, table="mor"), 1),
    "compaction": (compaction, 1),
    # Making and viewing ten commits of all rows would take most of the time.
    "ten commits": (ten_commits, 8),
}
"""How a range is made, and what share of the rows it gets."""


def _table(spark: SparkSession, rows: int, mode: str, table: str) -> str:
    """A table of format 3 with 20 columns in eight files."""
    columns = {"id": "id"}
    for at in range(TEXTS):
        hashes = f"hex(xxhash64(id, {at})), hex(xxhash64({at}, id))"
        columns[f"s{at}"] = f"substring(lower(concat({hashes})), 1, 24)"
    columns |= {f"d{at}": f"cast(id * {at + 1} + 0.5 as double)" for at in range(NUMBERS)}
    columns |= {f"i{at}": f"cast(id % {at + 7} as int)" for at in range(COUNTS)}
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "delete", "merge"))
    rows_of = spark.range(0, rows, 1, FILES).selectExpr(
        *(f"{made} as {name}" for name, made in columns.items())
    )
    described = ", ".join(f"{name} {kind}" for name, kind in rows_of.dtypes)
    spark.sql(
        f"create table {CATALOG}.db.{table} ({described}) using iceberg tblproperties("
        f"'format-version' = '3', 'write.distribution-mode' = 'none', {modes})"
    )
    rows_of.writeTo(f"{CATALOG}.db.{table}").append()
    return f"db.{table}"


def _head(spark: SparkSession, name: str) -> int:
    (row,) = spark.sql(
        f"select snapshot_id from {CATALOG}.{name}.refs where name = 'main'"
    ).collect()
    return int(row["snapshot_id"])


def _markdown(name: str, found: Mapping[str, Any]) -> str:
    lines = [
        f"### {name}, {found['rows']:,} rows, made in {found['making_seconds']} s",
        f"Chosen: {found['chosen']}.",
        "| way | CPU s | of which tasks | wall s | shuffled MB | lines | MB written |",
        "|---|---|---|---|---|---|---|",
    ]
    for way, cost in found["ways"].items():
        lines.append(
            f"| {way} | {cost['cpu_seconds']:.1f} | {cost['task_cpu_seconds']:.1f} | "
            f"{cost['wall_seconds']:.1f} | {cost['shuffled_mb']:.1f} | {cost['lines']:.0f} | "
            f"{cost['written_mb']:.1f} |"
        )
    lines += [f"| {way} | refuses: {why} | | | | | |" for way, why in found["refused"].items()]
    return "\n".join([*lines, ""])


def _words(result: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in result.items() if key != "ranges")


if __name__ == "__main__":
    raise SystemExit(main())
