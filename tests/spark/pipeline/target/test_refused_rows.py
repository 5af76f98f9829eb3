"""Dead letters of whole pipelines: they are shown without values, and sent again once mended."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_spark.protocol.state_document import Intent, IntentKind
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.long_values import LONG, UNLIMITED, mend
from icdc_testing.tables.scenarios import list_operations, select_writes
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark


def ask(harness: Harness, mode: RunMode, **details: Any) -> dict[str, Any]:
    """Return the entry of the only table."""
    report = harness.run(mode, **details)
    assert report.outcome is None, report.outcome
    assert report.result is not None
    (entry,) = report.result["tables"]
    answer: dict[str, Any] = entry
    return answer


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'a'), (2,'{LONG}'), (3,'{LONG}'), (4,'d')")
    return name


@pytest.fixture
def harness(spark: SparkSession, proxy: FaultProxy, table: str, tmp_path: Path) -> Harness:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    return Harness(spark, proxy.url, tmp_path, [entry | {"mapping": {"name": UNLIMITED}}])


FAILING = {
    "fields": [
        {"name": "id", "from": "id"},
        {"name": "name", "expression": "if(length(name) > 99, raise_error('long'), name)"},
    ]
}


@pytest.mark.parametrize("at_once", [False, True], ids=["in-two-batches", "in-one-batch"])
@pytest.mark.parametrize("entry", [{}, FAILING], ids=["by-the-index", "by-an-expression"])
def test_a_refused_second_row_of_a_key_does_not_cost_the_first_its_document(
    harness: Harness,
    table: str,
    lake: Lake,
    clean_indices: str,
    entry: dict[str, Any],
    *,
    at_once: bool,
) -> None:
    harness.resource["spec"]["tables"][0] |= entry
    if at_once:
        lake.sql(f"delete from lake.{table} where id = 1")
    harness.sync()
    first = "(1, 'a'), " if at_once else ""
    lake.sql(f"insert into lake.{table} values {first}(1, '{LONG}'), (5, 'e')")
    harness.sync()
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
    lake.sql(f"delete from lake.{table} where id = 1 and name <> 'a'")
    harness.sync()
    assert oracle.read_index(clean_indices, "things")["1"] == {"id": 1, "name": "a"}
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_refused_rows_are_listed_without_values_unless_asked_for(
    harness: Harness, table: str, lake: Lake
) -> None:
    assert ask(harness, RunMode.DEAD_LETTERS) == {
        "name": table,
        "index": "things",
        "count": 0,
        "letters": [],
    }
    harness.sync()
    answer = ask(harness, RunMode.DEAD_LETTERS)
    assert answer["count"] == 2
    assert "secret" not in str(answer)
    first, second = answer["letters"]
    assert (first["id"], second["id"]) == ("2", "3")
    assert first | {"at": "", "documentBytes": 0} == {
        "id": "2",
        "reason": 'Document contains at least one immense term in field="name"',
        "errorType": "illegal_argument_exception",
        "table": table,
        "snapshotId": str(lake.read_head(table)),
        "ordinal": 1,
        "at": "",
        "documentBytes": 0,
    }
    (shown,) = ask(harness, RunMode.DEAD_LETTERS, ids=["3"], documents=True)["letters"]
    assert LONG in shown["document"]
    other = ask(harness, RunMode.DEAD_LETTERS, ids=["4"])
    assert (other["letters"], other["count"]) == ([], 2)


def test_rows_are_sent_again_once_the_cause_was_mended(
    harness: Harness, table: str, lake: Lake, proxy: FaultProxy, clean_indices: str
) -> None:
    assert ask(harness, RunMode.REPLAY)["reason"] == "Gap"
    harness.sync()
    assert ask(harness, RunMode.REPLAY) == {
        "name": table,
        "index": "things",
        "resent": 2,
        "left": 2,
        "samples": ["2", "3"],
    }
    assert set(oracle.read_index(clean_indices, "things")) == {"1", "4"}
    for mode in (RunMode.VERIFY, RunMode.REPAIR):
        entry = ask(harness, mode)
        assert (entry["equal"], entry["refused"], entry["repaired"]) == (True, 2, None), mode
    oracle.request(f"{clean_indices}/things-000001/_doc/4", "DELETE")
    entry = ask(harness, RunMode.REPAIR)
    assert (entry["missing"]["samples"], entry["refused"], entry["repaired"]) == (["4"], 2, 1)

    mend(clean_indices, "things-000001")
    proxy.clear()
    answer = ask(harness, RunMode.REPLAY, ids=["2", "77"])
    assert (answer["resent"], answer["left"]) == (1, 0)
    ((_, written, _),) = list_operations(select_writes(proxy.list_writes(), "things"))
    assert written == "2"
    assert ask(harness, RunMode.DEAD_LETTERS)["count"] == 1
    report = harness.run(RunMode.REPLAY)
    assert report.result is not None
    (answer,) = report.result["tables"]
    assert (answer["resent"], answer["left"]) == (1, 0)
    # What the status says of dead letters comes from here.
    (reported,) = report.tables
    assert (reported.dead_letters, reported.applied_snapshot_id) == (0, str(lake.read_head(table)))
    assert ask(harness, RunMode.REPLAY)["message"] == "there is no such dead letter"
    assert harness.inspect(RunMode.VERIFY)["equal"] is True

    # The pipeline goes on, and counts none any more.
    lake.sql(f"update lake.{table} set name = 'x' where id = 2")
    assert harness.sync().dead_letters == 0
    assert oracle.read_index(clean_indices, "things")["2"] == {"id": 2, "name": "x"}


def test_rows_are_not_sent_again_while_something_else_comes_first(
    harness: Harness, clean_indices: str
) -> None:
    harness.sync()
    mend(clean_indices, "things-000001")
    entry = harness.resource["spec"]["tables"][0]
    harness.resource["spec"]["tables"][0] = entry | {"rowFilter": "id < 9"}
    answer = ask(harness, RunMode.REPLAY)
    assert answer["reason"] == "IncompatibleSchema"
    assert "the next run exports the table anew (documents differ: " in answer["message"]

    harness.resource["spec"]["tables"][0] = entry
    store = StateStore(Connection(hosts=(clean_indices,)))
    stored = store.load("things")
    assert stored is not None
    assert stored.document.applied is not None
    applied = stored.document.applied.snapshot_id
    intent = Intent(
        kind=IntentKind.REPAIR,
        from_=applied,
        to=applied,
        ordinal=9,
        index=stored.document.index or "",
        index_uuid=stored.document.index_uuid or "",
    )
    store.replace(stored, stored.document.with_intent(intent, now="2026-11-24T10:00:00Z"))
    store.close()
    answer = ask(harness, RunMode.REPLAY)
    assert (answer["reason"], answer["left"]) == ("BatchUnderWay", 2)
    harness.sync()
    assert ask(harness, RunMode.REPLAY)["left"] == 0


def test_a_refused_event_that_a_compaction_moved_stays_known(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    entry = {"name": table, "appendOnly": True, "index": "things", "mapping": {"name": UNLIMITED}}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    harness.sync()
    lake.compact(table)
    harness.sync()
    mend(clean_indices, "things-000001")
    assert ask(harness, RunMode.REPLAY)["left"] == 2
    assert harness.inspect(RunMode.REPAIR)["missing"]["count"] == 2
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
