"""Comparing an index that was never exported, of which only changes were written."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import TableComparison
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark


def edit(url: str, number: int, body: dict[str, object] | None) -> None:
    where = f"{url}/things-000001/_doc/{number}"
    oracle.request(where, "DELETE") if body is None else oracle.request(where, "PUT", body)


def test_rows_from_before_the_start_are_neither_missing_nor_written_by_a_repair(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'old'), (2, 'old'), (3, 'old')")
    entry = {"name": name, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, clean_indices, tmp_path, [entry], mode="StreamOnly")
    harness.sync()
    lake.sql(f"insert into lake.{name} values (4, 'new'), (5, 'new')")
    lake.sql(f"update lake.{name} set name = 'x' where id = 1")
    harness.sync()
    assert set(oracle.read_index(clean_indices, "things")) == {"1", "4", "5"}

    answer = TableComparison.model_validate(harness.inspect(RunMode.VERIFY))
    assert (answer.equal, answer.rows, answer.documents, answer.missing.count) == (True, 3, 3, 0)
    assert "StreamOnly" in (answer.message or "")

    edit(clean_indices, 4, {"id": 4, "name": "edited"})
    edit(clean_indices, 9, {"id": 9, "name": "extra"})
    answer = TableComparison.model_validate(harness.inspect(RunMode.REPAIR))
    assert (answer.equal, answer.missing.count, answer.repaired) == (False, 0, 2)
    assert (answer.different.samples, answer.extra.samples) == (("4",), ("9",))
    documents = oracle.read_index(clean_indices, "things")
    assert {key: value["name"] for key, value in documents.items()} == {
        "1": "x",
        "4": "new",
        "5": "new",
    }
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_events_from_before_the_start_are_not_missing(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'old')")
    entry = {"name": name, "appendOnly": True, "index": "things"}
    harness = Harness(spark, clean_indices, tmp_path, [entry], mode="StreamOnly")
    harness.sync()
    lake.sql(f"insert into lake.{name} values (2, 'new')")
    harness.sync()
    assert harness.inspect(RunMode.REPAIR)["equal"] is True
    assert len(oracle.read_index(clean_indices, "things")) == 1
