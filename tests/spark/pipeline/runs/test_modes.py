"""The modes of a pipeline, what a raised nonce does, and tables without a key."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_spark.replication.context import TableContext
from icdc_testing.lake.lake import MERGE_ON_READ, Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.scenarios import list_operations, put, select_writes
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(lake: Lake) -> Lake:
    lake.sql("create namespace if not exists lake.db")
    return lake


def create_table(lake: Lake, commits: int, **how: Any) -> str:
    """Return a table with one row more per commit."""
    name = lake.create("id int, name string", **how)
    for number in range(1, commits + 1):
        insert(lake, name, number)
    return name


def insert(lake: Lake, name: str, number: int) -> None:
    lake.sql(f"insert into lake.{name} values ({number}, 'n{number}')")


def put_row(number: int) -> Any:
    return put(str(number), id=number, name=f"n{number}")


def make_entry(name: str, index: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "identifierColumns": ["id"], "index": index, **more}


def list_snapshots(lake: Lake, name: str) -> list[Any]:
    return lake.sql(
        "select snapshot_id, date_format(committed_at, \"yyyy-MM-dd'T'HH:mm:ss.SSS'Z'\") as at "
        f"from lake.{name}.snapshots order by committed_at"
    )


def run_once(harness: Harness) -> dict[str, TableStatus]:
    report = harness.run()
    assert report.outcome is None, report.outcome
    return {table.index: table for table in report.tables}


def test_stream_only_begins_where_it_is_told_and_writes_no_row_before(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, tmp_path: Path
) -> None:
    name = create_table(lake, 3)
    chain = list_snapshots(lake, name)
    starts: dict[str, Any] = {
        "by-default": None,
        "latest": {"position": "Latest"},
        "earliest": {"position": "Earliest"},
        "by-snapshot": {"snapshotId": chain[1][0]},
        "by-time": {"timestamp": chain[1][1]},
        "too-early": {"timestamp": "2001-01-01T00:00:00Z"},
        "unknown": {"snapshotId": 77},
    }
    first = {
        "earliest": [put_row(2), put_row(3)],
        "by-snapshot": [put_row(3)],
        "by-time": [put_row(3)],
    }
    stalled = {
        "too-early": f"Table {name}: no retained snapshot is as old as startFrom.timestamp "
        "2001-01-01 00:00:00+00:00.",
        "unknown": f"Table {name}: startFrom.snapshotId 77 is not, or no longer, a snapshot of the "
        "table.",
    }
    harnesses = {
        index: Harness(
            spark,
            proxy.url,
            tmp_path,
            [make_entry(name, index, **({"startFrom": start} if start else {}))],
            name=index,
            mode="StreamOnly",
        )
        for index, start in starts.items()
    }
    for index, harness in harnesses.items():
        status = run_once(harness)[index]
        assert list_operations(select_writes(proxy.list_writes(), index)) == first.get(index, []), (
            index
        )
        assert status.reason == ("Gap" if index in stalled else None), status.message
        assert status.message == stalled.get(index)
        # Else an Event would say that nothing, or the rows before the start, were exported.
        assert status.export is None
    insert(lake, name, 4)
    for index in ("latest", "by-snapshot"):
        proxy.clear()
        assert run_once(harnesses[index])[index].state == "Streaming"
        assert list_operations(select_writes(proxy.list_writes(), index)) == [put_row(4)]


def test_the_snapshot_at_which_stream_only_began_may_expire(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path
) -> None:
    name = create_table(lake, 2)
    first = list_snapshots(lake, name)[0]
    start = {"snapshotId": first["snapshot_id"]}
    entry = make_entry(name, "things", startFrom=start)
    harness = Harness(spark, clean_indices, tmp_path, [entry], mode="StreamOnly")
    harness.sync()
    insert(lake, name, 3)
    lake.sql(
        f"call lake.system.expire_snapshots(table => '{name}', retain_last => 1, "
        "older_than => timestamp '2100-01-01 00:00:00')"
    )
    assert first not in list_snapshots(lake, name)
    harness.sync()
    assert set(oracle.read_index(clean_indices, "things")) == {"2", "3"}


def test_an_export_is_complete_for_good_until_another_one_is_asked_for(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    one, other = create_table(lake, 2), create_table(lake, 1)
    harness = Harness(
        spark,
        proxy.url,
        tmp_path,
        [make_entry(one, "one"), make_entry(other, "other")],
        mode="ExportOnly",
        changelog={"pinSnapshots": "Never"},
    )
    assert {table.state for table in run_once(harness).values()} == {"Complete"}
    assert list_operations(select_writes(proxy.list_writes(), "one")) == [put_row(1), put_row(2)]

    insert(lake, one, 3)
    lake.sql(
        f"call lake.system.expire_snapshots(table => '{one}', "
        "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1)"
    )
    proxy.clear()
    assert {table.state for table in run_once(harness).values()} == {"Complete"}
    assert select_writes(proxy.list_writes(), "one") == []

    harness.resource["spec"]["resync"] = {"nonce": 1, "tables": [one]}
    assert {table.state for table in run_once(harness).values()} == {"Complete"}
    again = select_writes(proxy.list_writes(), "one")
    assert list_operations(again) == [put_row(1), put_row(2), put_row(3)]
    assert {write.index for write in again} == {"one-000002"}
    assert select_writes(proxy.list_writes(), "other") == []

    # The same nonce once more asks for nothing; the index of before is kept beside.
    proxy.clear()
    run_once(harness)
    assert select_writes(proxy.list_writes(), "one") == []
    listed = oracle.request(f"{clean_indices}/_alias/one")
    assert list(listed) == ["one-000002"]
    assert oracle.request(f"{clean_indices}/one-000001/_count")["count"] == 2


def list_appended(proxy: FaultProxy, index: str) -> list[Any]:
    """Return the documents written since the last look, each under an id of its own."""
    writes = select_writes(proxy.list_writes(), index)
    proxy.clear()
    assert len({write.id for write in writes}) == len(writes)
    done = list_operations(writes)
    return sorted((op, document["id"]) for op, _, document in done if document is not None)


def test_an_append_only_table_brings_each_appended_row_once(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    events = create_table(lake, 2)
    bad = create_table(lake, 2, mode=MERGE_ON_READ)
    harness = Harness(
        spark,
        proxy.url,
        tmp_path,
        [
            {"name": events, "index": "events", "appendOnly": True},
            {"name": bad, "index": "bad", "appendOnly": True},
        ],
    )

    assert [table.reason for table in run_once(harness).values()] == [None, None]
    assert list_appended(proxy, "events") == [("index", 1), ("index", 2)]

    # A compaction in the range, and an equal row, which is another event.
    insert(lake, events, 2)
    lake.sql(
        f"call lake.system.rewrite_data_files(table => '{events}', "
        "options => map('rewrite-all','true'))"
    )
    insert(lake, events, 3)
    lake.sql(f"delete from lake.{bad} where id = 1")
    by_table = run_once(harness)
    deletion = list_snapshots(lake, bad)[-1][0]
    assert by_table["events"].reason is None
    assert (by_table["bad"].state, by_table["bad"].reason) == ("Stalled", "NotAppendOnly")
    assert by_table["bad"].message == (
        f"{bad}: snapshot {deletion} has the operation delete, although the table is declared "
        "appendOnly"
    )
    assert select_writes(proxy.list_writes(), "bad") == []
    assert list_appended(proxy, "events") == [("index", 2), ("index", 3)]
    rows = [document["id"] for document in oracle.read_index(clean_indices, "events").values()]
    assert sorted(rows) == [1, 2, 2, 3]

    lake.sql(
        f"call lake.system.rewrite_data_files(table => '{events}', "
        "options => map('rewrite-all','true'))"
    )
    applied = run_once(harness)["events"].applied_snapshot_id
    assert applied == str(list_snapshots(lake, events)[-1][0])
    assert list_appended(proxy, "events") == []


def set_window(harness: Harness, *, opens_in: int) -> str:
    """Let exports write for two hours of each day, from so many hours from now on."""
    start = datetime.now(tz=UTC) + timedelta(hours=opens_in)
    text = f"{start:%H:%M}-{start + timedelta(hours=2):%H:%M}"
    harness.resource["spec"]["sink"]["opensearch"]["limits"] = {"exportWindow": text}
    return f"waiting for the export window {text} UTC"


def list_writes(proxy: FaultProxy) -> list[Any]:
    return list_operations(select_writes(proxy.list_writes(), "windowed"))


def test_exports_write_in_their_window_alone_and_changes_at_any_time(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = create_table(lake, 2)
    harness = Harness(spark, proxy.url, tmp_path, [make_entry(name, "windowed")])
    message = set_window(harness, opens_in=3)
    table = harness.sync()
    assert (table.state, table.export_waits, table.message) == (
        TableState.EXPORTING,
        True,
        message,
    )
    assert list_writes(proxy) == []
    # It closes before the first chunk is written: what is open waits as well.
    set_window(harness, opens_in=-1)
    with monkeypatch.context() as patch:
        answers = iter([True, False])
        patch.setattr(TableContext, "may_export", lambda _: next(answers, False))
        table = harness.sync()
    assert (table.state, table.export_waits) == (TableState.EXPORTING, True)
    assert table.export is not None
    assert (table.export.chunks_done, table.export.chunks_total) == (0, 1)
    assert list_writes(proxy) == []
    table = harness.sync()
    assert (table.state, table.export_waits) == (TableState.STREAMING, None)
    assert list_writes(proxy) == [put_row(1), put_row(2)]
    # A re-export waits, and meanwhile the table is followed.
    set_window(harness, opens_in=3)
    harness.resource["spec"]["resync"] = {"nonce": 1}
    insert(lake, name, 3)
    proxy.clear()
    table = harness.sync()
    assert (table.state, table.export_waits) == (TableState.STREAMING, True)
    assert list_writes(proxy) == [put_row(3)]
    set_window(harness, opens_in=-1)
    proxy.clear()
    assert harness.sync().export_waits is None
    assert list_writes(proxy) == [put_row(1), put_row(2), put_row(3)]


def test_a_table_that_has_no_snapshot_yet_is_caught_up(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path
) -> None:
    entry = make_entry(create_table(lake, commits=0), "empty")
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    harness.sync()
    status = harness.sync()
    assert (status.state, status.applied_snapshot_id) == (TableState.STREAMING, None)
    assert (status.snapshots_behind, status.lag_seconds) == (0, 0)
