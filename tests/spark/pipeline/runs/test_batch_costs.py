"""What is reported of a table while it is exported and followed, and what each batch took."""

import logging
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableState
from icdc_spark.opensearch.bulk.target import DEFAULT_MAX_BYTES
from icdc_spark.opensearch.bulk.worker_memory import compute_limit
from icdc_spark.reporting.reporter import TableReporter
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Status
from icdc_testing.runs.harness import Harness

pytestmark = pytest.mark.spark

BODY = "_bulk"


def test_the_cost_of_each_batch_is_reported_and_logged_in_one_line(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a'), (2, 'b'), (3, 'c')")
    first = str(lake.read_head(name))
    entry = {"name": name, "index": "some", "identifierColumns": ["id"]}
    harness = Harness(spark, proxy.url, tmp_path, [entry])
    with caplog.at_level(logging.INFO, "icdc_spark.replication.progress"):
        export = harness.sync().last_batch
        assert export is not None
        assert (export.from_snapshot_id, export.to_snapshot_id) == (None, first)
        assert (export.upserted, export.deleted, export.refused) == (3, 0, 0)
        assert export.requests == len(proxy.list_requests(BODY)) > 0
        # Without the guard, which goes with each request.
        assert 0 < export.request_bytes < sum(len(seen.body) for seen in proxy.list_requests(BODY))
        assert (export.retries, export.throttled) == (0, 0)
        assert export.files_bytes > 0
        assert export.waiting_millis > 0
        assert list_lines(caplog) == [f"{name}: snapshot {first}"]

        lake.sql(
            f"merge into lake.{name} t using (select 1 as id) s on t.id = s.id "
            "when matched then update set name = 'A'"
        )
        lake.sql(f"delete from lake.{name} where id = 2")
        proxy.clear()
        proxy.add(Status(429), path=BODY)
        report, last = harness.run(), str(lake.read_head(name))
        (batch,) = (table.last_batch for table in report.tables)
        assert batch is not None
        assert (batch.from_snapshot_id, batch.to_snapshot_id) == (first, last)
        assert (batch.upserted, batch.deleted, batch.refused) == (1, 1, 0)
        assert (batch.retries, batch.throttled) == (1, 1)
        assert batch.requests == len(proxy.list_requests(BODY))
        assert batch.at > export.at
        assert list_lines(caplog)[1:] == [f"{name}: snapshot {first} to {last}"]
        assert "1 documents written, 1 deleted, 0 rows refused" in caplog.messages[-1]
        assert "1 repeated, 1 throttled" in caplog.messages[-1]

        assert_within_limits(report)

        # Nothing to do: the last batch stays the last one that there was.
        assert harness.sync().last_batch in (None, batch)
        assert len(list_lines(caplog)) == 2


def assert_within_limits(report: RunReport) -> None:
    """Of what has a limit a run says how much it used, once for all tables."""
    most = {used.kind: used for used in report.resources or ()}
    assert most.keys() >= {"state_document", "state_index", "bulk_requests"}
    assert all(0 < used.used < used.limit for used in most.values())
    assert most["bulk_requests"].limit == compute_limit(2, DEFAULT_MAX_BYTES, None)


def test_no_report_shows_a_table_as_exported_and_exporting_at_a_time(
    spark: SparkSession,
    lake: Lake,
    clean_indices: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = lake.create("id int")
    lake.sql(f"insert into lake.{name} values (1)")
    entry = {"name": name, "index": "some", "identifierColumns": ["id"]}
    shown, change = list[tuple[TableState, str | None]](), TableReporter.set

    def note(self: TableReporter, **changes: object) -> None:
        change(self, **changes)
        shown.append((self.status.state, self.status.applied_snapshot_id))

    monkeypatch.setattr(TableReporter, "set", note)
    Harness(spark, clean_indices, tmp_path, [entry]).sync()
    assert (TableState.EXPORTING, None) in shown
    assert {state for state, applied in shown if applied} == {TableState.STREAMING}


def test_numbers_that_json_does_not_have_are_counted_in_the_batch_that_writes_them(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path
) -> None:
    name = lake.create("id int, d double, l array<float>")
    lake.sql(
        f"insert into lake.{name} values (1, double('NaN'), null), (2, 1.5, array(1.0)), "
        "(3, double('-Infinity'), array(float('NaN'), 1.0, float('Infinity')))"
    )
    entry = {"name": name, "index": "some", "identifierColumns": ["id"]}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    export = harness.sync().last_batch
    assert export is not None
    assert (export.upserted, export.non_finite) == (3, 4)
    lake.sql(f"insert into lake.{name} values (4, double('NaN'), null), (5, 0.5, null)")
    appended = harness.sync().last_batch
    assert appended is not None
    assert (appended.upserted, appended.non_finite) == (2, 1)
    lake.sql(f"update lake.{name} set d = double('Infinity') where id = 5")
    assert (batch := harness.sync().last_batch) is not None
    assert (batch.upserted, batch.non_finite) == (1, 1)
    lake.sql(f"update lake.{name} set d = 2.5 where id = 5")
    assert (finite := harness.sync().last_batch) is not None
    assert (finite.upserted, finite.non_finite) == (1, None)


def list_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the beginning of each line about a batch, up to its snapshots."""
    matches = (
        re.match(r".*?: snapshot -?\d+( to -?\d+)?(?= in )", text) for text in caplog.messages
    )
    return [match[0] for match in matches if match]
