"""SIGKILL of a driver, a process, while it repairs one table and follows another."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import QUESTION_VARIABLE, RunQuestion, RunReport
from icdc_api.status.pipeline_status import TableState
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.processes import ChildRuns, KilledProcess
from icdc_testing.tables.fields import derive
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def create_tables(lake: Lake) -> dict[str, str]:
    """Return two tables with rows, by the aliases of their indices."""
    lake.sql("create namespace if not exists lake.db")
    tables: dict[str, str] = {}
    for alias in ("orders", "users"):
        tables[alias] = lake.create("id int, name string")
        lake.sql(f"insert into lake.{tables[alias]} values (1, 'a'), (2, 'b')")
    return tables


def is_streaming(report: RunReport | None) -> bool:
    """Whether every table is followed, by a run that can be asked."""
    if report is None or not report.takes_questions:
        return False
    return all(table.state is TableState.STREAMING for table in report.tables)


def test_a_repair_in_which_the_driver_was_killed_is_repeated_by_the_next_run(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    runs: ChildRuns,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question = tmp_path / "question.json"
    monkeypatch.setenv(QUESTION_VARIABLE, str(question))
    tables = create_tables(lake)
    entries: list[dict[str, Any]] = [
        {"name": name, "identifierColumns": ["id"], "index": alias}
        for alias, name in tables.items()
    ]
    # The one that is repaired has documents like its rows, but made by an expression, and routed.
    entries[0] |= {"routing": ["id"], "fields": ["*", derive("name", "lower(name)")]}
    pipeline = Harness(spark, proxy.url, tmp_path, entries)
    driver = runs.start(pipeline.make_request(continuous=True))

    wait_until(lambda: is_streaming(driver.read_report()), "both are followed", seconds=300)
    edited = f"{clean_indices}/orders-000001/_doc"
    oracle.request(f"{edited}/1?routing=1", "PUT", {"id": 1, "name": "edited"})
    # The first asks whether the account sees the whole index, and writes nothing.
    held = proxy.hold("orders-000001/_bulk", body='"index"')
    RunQuestion(id="a", mode=RunMode.REPAIR, tables=(tables["orders"],)).write(question)
    held.wait()
    lake.sql(f"insert into lake.{tables['users']} values (3, 'c')")
    wait_until(lambda: "3" in oracle.read_index(clean_indices, "users"), "the other one goes on")
    driver.kill(KilledProcess.DRIVER_PYTHON)
    driver.wait_dead()
    held.release()
    state = oracle.request(f"{clean_indices}/icdc-state/_doc/orders")["_source"]
    assert state["intent"]["kind"] == "Repair"

    # As the operator does: a run that replicates, then the repair as a run of its own.
    assert pipeline.run().outcome is None
    again = pipeline.run(RunMode.REPAIR, tables=(tables["orders"],))
    assert again.outcome is None
    assert again.result is not None
    for alias, name in tables.items():
        oracle.assert_equal(
            oracle.read_index(clean_indices, alias),
            oracle.read_expected(spark, f"lake.{name}", ["id"]),
        )
