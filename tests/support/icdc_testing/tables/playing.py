"""Play many scenarios at once: tables of one pipeline that change step by step.

A run of the application costs seconds however few rows there are, so the tables of a test module
go through the same runs together.
"""

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.scenarios import Document, Scenario, ScenarioStep, ScenarioTable
from icdc_testing.target import oracle

SQL_THREADS = 4
_NUMBERS = itertools.count()

Stages = dict[str, ScenarioTable]
"""The stages of the scenarios, by alias."""


def play_scenarios(
    scenarios: Sequence[Scenario], spark: SparkSession, url: str, folder: Path, **spec: Any
) -> Stages:
    """Take the scenarios through as many runs as the longest of them has steps."""
    namespace = f"scenarios{next(_NUMBERS)}"
    for catalog in {scenario.catalog for scenario in scenarios}:
        spark.sql(f"create namespace {catalog}.{namespace}")
    stages = [ScenarioTable(spark, url, namespace, scenario) for scenario in scenarios]
    with FaultProxy(url) as proxy, ThreadPoolExecutor(SQL_THREADS) as pool:
        list(pool.map(lambda stage: stage.create() if stage.scenario.create else None, stages))
        for number in range(max(len(scenario.steps) for scenario in scenarios)):
            acting = [(stage, _find_step(stage, number)) for stage in stages]
            # Statements of different tables run at once; those of one table stay in order.
            list(pool.map(lambda pair: pair[0].act(pair[1]) if pair[1] else None, acting))
            _run(spark, proxy, folder, acting, spec)
    return {stage.scenario.alias: stage for stage in stages}


def _find_step(stage: ScenarioTable, number: int) -> ScenarioStep | None:
    steps = stage.scenario.steps
    return steps[number] if number < len(steps) else None


def _run(
    spark: SparkSession,
    proxy: FaultProxy,
    folder: Path,
    acting: Sequence[tuple[ScenarioTable, ScenarioStep | None]],
    spec: Mapping[str, Any],
) -> None:
    entries = []
    # A scenario that is over is taken out of the spec, so that it costs no time.
    taking_part = [(stage, step) for stage, step in acting if step is not None]
    for stage, step in taking_part:
        scenario = stage.scenario
        stage.entry = {
            "name": stage.name,
            "index": scenario.alias,
            **({} if scenario.append_only else {"identifierColumns": list(scenario.key)}),
            **scenario.entry,
            **step.entry,
        }
        if not step.absent:
            entries.append({k: v for k, v in stage.entry.items() if v is not None})
    # From here on the proxy records the writes of this run alone.
    proxy.clear()
    report = Harness(spark, proxy.url, folder, entries, name="scenarios", **spec).run()
    assert report.outcome is None, report.outcome
    statuses = {status.name: status for status in report.tables}
    with ThreadPoolExecutor(SQL_THREADS) as pool:
        # The proxy records all tables; `settle` picks the writes of one.
        for stage, _ in taking_part:
            stage.writes = proxy.list_writes()
        list(pool.map(lambda p: p[0].settle(p[1], statuses.get(p[0].name)), taking_part))


def assert_played(stage: ScenarioTable) -> None:
    """Assert that steps wrote exactly their operations, and left the index as the oracle says."""
    before: dict[str, Document] = {}
    for number, (step, outcome) in enumerate(
        zip(stage.scenario.steps, stage.outcomes, strict=True)
    ):
        where = f"{stage.scenario.alias}, step {number}"
        status = outcome.status
        assert (status is None) == step.absent, where
        if status is not None:
            assert status.reason == step.reason, f"{where}: {status.reason}: {status.message}"
            expected = stage.fill_names(step.message) if step.message else None
            matches = step.message_part in (status.message or "") if step.message_part else False
            assert matches or status.message == expected, f"{where}: {status.message}"
        expected_writes = sorted(step.writes, key=lambda op: (op[1], op[0]))
        assert outcome.writes == expected_writes, where
        into = {f"{stage.scenario.alias}-{step.into:06d}"} if step.writes else set()
        assert outcome.into == into, where
        documents = before if outcome.expected is None else outcome.expected
        if not stage.scenario.append_only:
            oracle.assert_equal(outcome.indexed, documents)
        before = outcome.indexed
        if outcome.problem is not None:
            raise AssertionError(where) from outcome.problem
