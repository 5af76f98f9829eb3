"""What it costs to know what changed, beside `create_changelog_view`. `make bench-changelog`.

From two snapshot ids to the last line handed to a null sink, all ways of one range in turn, in one
process of two cores, after rounds on a small table that nobody counts. Prints one JSON object, or
with `--table` Markdown, each range as soon as it is measured. Bounded in rows and rounds.

With `--fields` the ways are the application's own, each with the columns as they are, with twenty
expressions of the same columns, with one that takes a millisecond and whose calls are counted, and
with two of the columns alone.
"""

import argparse
import functools
import json
import os
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

from icdc_api.spec.indices.fields import FieldEntry
from icdc_cli.embedded.jars import fetch_jars
from icdc_spark.diff.change_plan import ChangePlan
from icdc_spark.diff.strategies import Strategy, choose_strategy
from icdc_testing.bench.changelog import CATALOG, Cost, Meter, Range, Ways, start_session
from icdc_testing.bench.changelog_ranges import (
    COUNTS,
    NUMBERS,
    TEXTS,
    make_compaction,
    make_rewriting,
    make_ten_commits,
    make_two_commits,
    make_upserts,
)
from icdc_testing.bench.machine import describe_machine
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ
from icdc_testing.tables.fields import derive, parse_fields, take
from slow_function import NAME, SlowFunction

VIEW, VIEW_UPDATES = "view, default", "view, compute_updates"
PLAN = "plan that leaves nothing to read"
FLOOR = "native engine, one process"
IDS = "reading all ids once, with older deletes"

WARM_ROUNDS = 25

TWENTY_EXPRESSIONS = parse_fields(
    derive("id", "id + 1"),
    *(derive(f"s{at}", f"upper(concat(s{at}, '-'))") for at in range(TEXTS)),
    *(derive(f"d{at}", f"round(d{at} * 1.21, 2)") for at in range(NUMBERS)),
    *(derive(f"i{at}", f"coalesce(i{at}, 0) + 1") for at in range(COUNTS)),
)
SLOW_EXPRESSION = parse_fields("*", derive("s0", f"{NAME}(s0)"))
TWO_COLUMNS = parse_fields(take("id", "id"), take("s0", "s0"))

Way = Callable[[Range], tuple[int, int]]
Choose = Callable[[Ways, ChangePlan], dict[str, Way]]
"""Returns the ways that are compared, by their names."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm-rounds", type=int, default=WARM_ROUNDS)
    parser.add_argument("--memory", default="4g", help="heap of the one JVM")
    parser.add_argument("--java-options", default="", help="such as =-XX:+UseG1GC")
    parser.add_argument("--table", action="store_true", help="print Markdown")
    parser.add_argument("--fields", action="store_true", help="compare expressions with columns")
    parser.add_argument("--scenarios", nargs="*", choices=SCENARIOS)
    parser.add_argument(
        "--strategies", nargs="*", type=Strategy, default=list(Strategy), help="of our own ways"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="icdc-bench-") as name:
        classes = Path(name, "classes")
        # Before the JVM starts, which takes what is no folder yet for a jar.
        classes.mkdir()
        more = {
            "spark.driver.extraJavaOptions": options.java_options,
            "spark.driver.extraClassPath": os.pathsep.join(
                map(str, [*fetch_jars("spark"), classes])
            ),
        }
        spark = start_session(Path(name), memory=options.memory, more=more)
        try:
            measured = _measure(spark, SlowFunction(spark, classes), options)
        finally:
            spark.stop()
    result = {**describe_machine("pyspark"), "rounds": options.rounds, "ranges": measured}
    sys.stdout.write(
        (_format_words(result) if options.table else json.dumps(result, indent=1)) + "\n"
    )
    return 0


def _measure(
    spark: SparkSession, slow: SlowFunction, options: argparse.Namespace
) -> dict[str, Any]:
    ways, meter = Ways(spark), Meter(spark, slow.count_calls)
    choose = functools.partial(
        _list_contenders_of_fields if options.fields else _list_contenders,
        strategies=options.strategies,
    )
    _warm(spark, ways, meter, options.warm_rounds, choose)
    by_strategy = {}
    for name in options.scenarios or (SCENARIOS_OF_FIELDS if options.fields else SCENARIOS):
        started = time.monotonic()
        where = SCENARIOS[name](spark, options.rows)
        made = round(time.monotonic() - started, 1)
        by_strategy[name] = {
            "rows": options.rows,
            "making_seconds": made,
            **_compare(ways, meter, where, options.rounds, choose),
        }
        spark.sql(f"drop table {CATALOG}.{where.table} purge")
        if options.table:
            sys.stdout.write(_format_markdown(name, by_strategy[name]) + "\n")
            sys.stdout.flush()
    return by_strategy


def _warm(spark: SparkSession, ways: Ways, meter: Meter, rounds: int, choose: Choose) -> None:
    """Load and compile what every way needs, as in an application that runs for long."""
    for table, mode in (("warm", COPY_ON_WRITE), ("warm_too", MERGE_ON_READ)):
        # Deletes are planned, and found, by other code than files that were written anew.
        where = make_two_commits(spark, 20_000, mode=mode, table=table)
        _compare(ways, meter, where, rounds, choose)


def _compare(ways: Ways, meter: Meter, where: Range, rounds: int, choose: Choose) -> dict[str, Any]:
    plan = ways.plan(where)
    contenders = choose(ways, plan)
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
        "chosen": PLAN if plan.is_empty else choose_strategy(plan).value,
        "ways": {name: _summarize(measured) for name, measured in costs.items() if measured},
        "refused": refused,
    }


def _list_contenders(
    ways: Ways, plan: ChangePlan, *, strategies: Sequence[Strategy]
) -> dict[str, Way]:
    views: dict[str, Way] = {
        VIEW: lambda where: ways.compute_view(where, updates=False),
        VIEW_UPDATES: lambda where: ways.compute_view(where, updates=True),
    }
    if plan.is_empty:
        return {**views, PLAN: lambda where: ways.compute_changelog(where, None)}
    strategies = _list_strategies(plan, strategies)
    by_value = plan.value_deletes or plan.deleted_keys.files
    without_deletes = plan.shared_before.files + plan.shared_after.files == 0
    floor: dict[str, Way] = {FLOOR: ways.compute_natively} if without_deletes else {}
    if without_deletes and plan.removed.files:
        floor |= {
            f"reads of {strategy.value} alone": functools.partial(
                ways.read_inputs, strategy=strategy
            )
            for strategy in strategies
            if strategy in (Strategy.TWO_READS, Strategy.LINEAGE)
        }
    return {
        **views,
        **({IDS: ways.read_ids} if by_value else floor),
        **{strategy.value: _make_changelog_way(ways, strategy) for strategy in strategies},
    }


def _list_strategies(plan: ChangePlan, wanted: Sequence[Strategy]) -> list[Strategy]:
    """Return those of the wanted strategies that are right for the plan."""
    strategies = [Strategy.ONE_READ, Strategy.TWO_READS]
    if plan.removed.files == 0:
        strategies.append(Strategy.STREAM)
    if plan.lineage_since is not None:
        strategies.append(Strategy.LINEAGE)
    return [strategy for strategy in strategies if strategy in wanted]


def _list_contenders_of_fields(
    ways: Ways, plan: ChangePlan, *, strategies: Sequence[Strategy]
) -> dict[str, Way]:
    return {
        f"{strategy.value}, {name}": _make_changelog_way(ways, strategy, shaped)
        for strategy in _list_strategies(plan, strategies)
        for name, shaped in (
            ("columns", ()),
            ("twenty expressions", TWENTY_EXPRESSIONS),
            ("a slow expression", SLOW_EXPRESSION),
            ("two columns", TWO_COLUMNS),
        )
    }


def _make_changelog_way(ways: Ways, strategy: Strategy, shaped: tuple[FieldEntry, ...] = ()) -> Way:
    return lambda where: ways.compute_changelog(where, strategy, shaped)


def _summarize(costs: Sequence[Cost]) -> dict[str, Any]:
    """Return medians, and the CPU seconds of every round."""
    rounds = [asdict(cost) for cost in costs]
    medians = {key: statistics.median(round_[key] for round_ in rounds) for key in rounds[0]}
    return {**medians, "every_cpu_seconds": [cost.cpu_seconds for cost in costs]}


SCENARIOS: Mapping[str, Callable[[SparkSession, int], Range]] = {
    COPY_ON_WRITE: functools.partial(make_two_commits, mode=COPY_ON_WRITE, table="cow"),
    MERGE_ON_READ: functools.partial(make_two_commits, mode=MERGE_ON_READ, table="mor"),
    "equality deletes": make_upserts,
    "compaction": make_compaction,
    "ten commits": make_ten_commits,
    "rewriting": make_rewriting,
}
"""How a range is made."""

SCENARIOS_OF_FIELDS = (COPY_ON_WRITE, MERGE_ON_READ, "rewriting")
"""Those that `--fields` measures unless `--scenarios` names others."""


def _format_markdown(name: str, measured: Mapping[str, Any]) -> str:
    lines = [
        f"### {name}, {measured['rows']:,} rows, made in {measured['making_seconds']} s",
        f"Chosen: {measured['chosen']}.",
        "| way | CPU s | of which tasks | wall s | shuffled MB | lines | MB written | slow calls |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for way, cost in measured["ways"].items():
        lines.append(
            f"| {way} | {cost['cpu_seconds']:.1f} | {cost['task_cpu_seconds']:.1f} | "
            f"{cost['wall_seconds']:.1f} | {cost['shuffled_mb']:.1f} | {cost['lines']:.0f} | "
            f"{cost['written_mb']:.1f} | {cost['calls']:.0f} |"
        )
    lines += [f"| {way} | refuses: {why} | | | | | | |" for way, why in measured["refused"].items()]
    return "\n".join([*lines, ""])


def _format_words(result: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in result.items() if key != "ranges")


if __name__ == "__main__":
    raise SystemExit(main())
