"""Verify finds every difference between index and table, repair mends those and nothing else.

Neither verify nor plan changes anything.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_spark.readers import whole_snapshot
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.scenarios import list_operations, put, remove, select_writes
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

NONE = {"count": 0, "samples": []}


def make_samples(*ids: str) -> dict[str, Any]:
    return {"count": len(ids), "samples": list(ids)}


@pytest.fixture
def table(lake: Lake) -> str:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'a'), (2,'b'), (3,'c'), (4,'d')")
    return name


def read_state(url: str) -> dict[str, Any]:
    """Return the state document with its version, so that a rewrite of the same would show."""
    return oracle.request(f"{url}/icdc-state/_doc/things")


def edit(url: str) -> None:
    """Make one document missing, one extra, two different."""
    # The alias takes no writes: whoever edits must name the physical index.
    here = f"{url}/things-000001/_doc"
    oracle.request(f"{here}/1", "PUT", {"id": 1, "name": "edited"})
    oracle.request(f"{here}/2", "DELETE")
    oracle.request(f"{here}/9", "PUT", {"id": 9, "name": "extra"})
    # A number as text is another document, though OpenSearch would search it alike.
    oracle.request(f"{here}/4", "PUT", {"id": "4", "name": "d"})


def test_edits_by_somebody_else_are_found_and_mended(
    spark: SparkSession, proxy: FaultProxy, clean_indices: str, table: str, tmp_path: Path
) -> None:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, proxy.url, tmp_path, [entry])
    assert harness.inspect(RunMode.VERIFY) == {
        "name": table,
        "index": "things",
        "reason": "Gap",
        "message": f"Table {table} was never exported: there is nothing to verify.",
    }
    assert proxy.list_writes() == []
    harness.sync()
    edit(clean_indices)
    before = read_state(clean_indices)
    proxy.clear()
    assert harness.inspect(RunMode.VERIFY) == {
        "name": table,
        "index": "things",
        "snapshotId": before["_source"]["applied"]["snapshotId"],
        "documents": 4,
        "rows": 4,
        "equal": False,
        "missing": make_samples("2"),
        "extra": make_samples("9"),
        "different": make_samples("1", "4"),
        "refused": 0,
        "repaired": None,
    }
    assert (proxy.list_writes(), read_state(clean_indices)) == ([], before)

    assert harness.inspect(RunMode.REPAIR)["repaired"] == 4
    assert list_operations(select_writes(proxy.list_writes(), "things")) == [
        put("1", id=1, name="a"),
        put("2", id=2, name="b"),
        put("4", id=4, name="d"),
        remove("9"),
    ]
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
    oracle.assert_equal(
        oracle.read_index(clean_indices, "things"),
        oracle.read_expected(spark, f"lake.{table}", ["id"]),
    )
    # The pipeline goes on from where it was.
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")
    proxy.clear()
    harness.sync()
    writes = select_writes(proxy.list_writes(), "things")
    assert list_operations(writes) == [put("1", id=1, name="x")]


def test_a_table_that_is_read_in_parts_is_compared_and_mended_as_one_that_is_read_at_once(
    spark: SparkSession,
    clean_indices: str,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark.sql(f"insert into lake.{table} values (5, 'e'), (6, 'f')")
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    harness.sync()
    edit(clean_indices)
    at_once = harness.inspect(RunMode.VERIFY)
    assert (at_once["rows"], at_once["different"]) == (6, make_samples("1", "4"))
    monkeypatch.setattr(whole_snapshot, "PART_FILES", 1)
    assert harness.inspect(RunMode.VERIFY) == at_once
    assert harness.inspect(RunMode.REPAIR) == at_once | {"repaired": 4}
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_what_the_pipeline_writes_meanwhile_is_no_difference(
    spark: SparkSession, proxy: FaultProxy, clean_indices: str, table: str, tmp_path: Path
) -> None:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    compared = Harness(spark, proxy.url, tmp_path, [entry])
    followed = Harness(spark, clean_indices, tmp_path, [entry])
    followed.sync()
    held = proxy.hold("things-000001/_search/point_in_time")
    with ThreadPoolExecutor() as pool:
        comparison = pool.submit(compared.inspect, RunMode.VERIFY)
        held.wait()
        spark.sql(f"update lake.{table} set name = 'x' where id = 1")
        spark.sql(f"delete from lake.{table} where id = 2")
        applied = followed.sync().applied_snapshot_id
        held.release()
        answer = comparison.result()
    assert (answer["equal"], answer["snapshotId"], answer["documents"]) == (True, applied, 3)


def test_a_document_that_somebody_edited_is_overwritten_by_the_next_change_of_its_row(
    spark: SparkSession, proxy: FaultProxy, clean_indices: str, table: str, tmp_path: Path
) -> None:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, proxy.url, tmp_path, [entry])
    harness.sync()
    for _ in range(3):
        oracle.request(f"{clean_indices}/things-000001/_doc/1", "PUT", {"id": 1, "name": "edited"})
    spark.sql(f"update lake.{table} set name = 'x' where id = 1")

    harness.sync()

    oracle.assert_equal(
        oracle.read_index(clean_indices, "things"),
        oracle.read_expected(spark, f"lake.{table}", ["id"]),
    )


NOTHING_TO_DO: dict[str, Any] = {
    "index": "things",
    "mode": "Idle",
    "fromSnapshotId": None,
    "toSnapshotId": None,
    "why": "",
    "mappingChanges": [],
    "filesAdded": 0,
    "filesRemoved": 0,
    "filesWithNewDeletes": 0,
    "rows": 0,
    "tableRows": None,
    "strategy": None,
    "cheaper": None,
}


def plan_without_effect(harness: Harness, proxy: FaultProxy, table: str) -> dict[str, Any]:
    """Return the plan, after a check that nothing at all was changed by making it."""
    names = ("DELETE", "PUT", "POST")
    refs = f"select name, snapshot_id from lake.{table}.refs order by name"
    before = harness.spark.sql(refs).collect()
    proxy.clear()
    plan = harness.inspect(RunMode.PLAN)
    assert [seen for seen in proxy.list_requests() if seen.method in names] == []
    assert harness.spark.sql(refs).collect() == before
    size, whole = plan.pop("bytes"), plan.pop("tableBytes")
    assert (whole is not None) == (plan["mode"] == "Changelog")
    assert (size > 0) == (plan["rows"] > 0)
    cost, export_cost = plan.pop("estimate"), plan.pop("exportEstimate")
    assert (cost is not None) == (plan["rows"] > 0)
    assert (export_cost is not None) == (plan["mode"] == "Changelog")
    return plan


def test_a_plan_says_what_the_next_run_would_do_and_does_nothing(
    spark: SparkSession, proxy: FaultProxy, clean_indices: str, table: str, tmp_path: Path
) -> None:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, proxy.url, tmp_path, [entry])

    def plan() -> dict[str, Any]:
        return plan_without_effect(harness, proxy, table)

    def read_head() -> str:
        main = f"select snapshot_id from lake.{table}.refs where name = 'main'"
        return str(spark.sql(main).collect()[0][0])

    nothing = NOTHING_TO_DO | {"name": table}
    first = read_head()
    files = spark.sql(f"select * from lake.{table}.files").count()
    assert plan() == nothing | {
        "mode": "Export",
        "toSnapshotId": first,
        "why": "the table was never exported",
        "filesAdded": files,
        "rows": 4,
    }
    assert oracle.request(f"{clean_indices}/_mapping?expand_wildcards=all") == {}
    harness.sync()
    assert plan() == nothing

    spark.sql(f"alter table lake.{table} add column age int")
    spark.sql(f"insert into lake.{table} values (5, 'e', 5)")
    assert plan() == nothing | {
        "mode": "Changelog",
        "fromSnapshotId": first,
        "toSnapshotId": read_head(),
        "mappingChanges": ["age"],
        "filesAdded": 1,
        "rows": 1,
        "tableRows": 5,
        "strategy": "Append",
    }
    harness.sync()
    assert plan() == nothing


def test_tables_with_equal_keys_or_without_keys_verify_too(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake.sql("create namespace if not exists lake.db")
    duplicate_rows, events = lake.create("id int, name string"), lake.create("id int, name string")
    empty = lake.create("id int")
    for name in (duplicate_rows, events):
        for value in ("a", "b"):
            lake.sql(f"insert into lake.{name} values (1, '{value}'), (2, 'c')")
    harness = Harness(
        spark,
        proxy.url,
        tmp_path,
        [
            {"name": duplicate_rows, "identifierColumns": ["id"], "index": "twins"},
            {"name": events, "appendOnly": True, "index": "events"},
            {"name": empty, "identifierColumns": ["id"], "index": "empty"},
        ],
    )
    report = harness.run()
    duplicates = report.tables[0].duplicates
    assert duplicates is not None
    assert (duplicates.count, duplicates.samples) == (2, ("1", "2"))

    def run_mode(mode: RunMode) -> list[tuple[bool, int]]:
        result = harness.run(mode).result
        assert result is not None
        return [(entry["equal"], entry["documents"]) for entry in result["tables"]]

    assert run_mode(RunMode.VERIFY) == [(True, 2), (True, 4), (True, 0)]
    # From here on as tables of many files are read.
    monkeypatch.setattr(whole_snapshot, "PART_FILES", 1)
    assert run_mode(RunMode.VERIFY) == [(True, 2), (True, 4), (True, 0)]

    event = next(iter(oracle.read_index(clean_indices, "events")))
    oracle.request(f"{clean_indices}/events-000001/_doc/{event}", "DELETE")
    oracle.request(f"{clean_indices}/events-000001/_doc/mine", "PUT", {"id": 7, "name": "extra"})
    oracle.request(f"{clean_indices}/twins-000001/_doc/1", "DELETE")
    assert run_mode(RunMode.VERIFY) == [(False, 1), (False, 4), (True, 0)]
    assert run_mode(RunMode.REPAIR)[0] == (False, 1)
    assert run_mode(RunMode.VERIFY) == [(True, 2), (True, 4), (True, 0)]


def test_a_filter_by_the_time_of_the_run_is_told_by_plan_and_verify_too(
    spark: SparkSession, clean_indices: str, table: str, tmp_path: Path
) -> None:
    entry = {"name": table, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    harness.sync()
    harness.resource["spec"]["tables"][0]["rowFilter"] = "id < year(now())"
    for mode in (RunMode.PLAN, RunMode.VERIFY):
        assert harness.inspect(mode)["reason"] == "FilterInvalid", mode
