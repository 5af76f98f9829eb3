"""Columns of a table change while documents are made of them: what stalls, and what does not."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.fields import derive, take
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "changing"
INDEX = f"{ALIAS}-000001"
NAME, TWICE = take("who.name", "name"), derive("twice", "n * 2")
KEY = take("id", "id")


@pytest.fixture
def table(lake: Lake) -> str:
    name = lake.create("id int, name string, n int, m int")
    lake.sql(f"insert into lake.{name} values (1, 'a', 1, 10), (2, 'b', 2, 20)")
    return name


@pytest.fixture
def harness(spark: SparkSession, table: str, clean_indices: str, tmp_path: Path) -> Harness:
    entry = {"name": table, "index": ALIAS, "identifierColumns": ["id"], "routing": ["id"]}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    reshape(harness, KEY, NAME, TWICE)
    return harness


def reshape(harness: Harness, *fields: Any, **more: Any) -> None:
    harness.resource["spec"]["tables"][0] |= {"fields": list(fields), **more}


def block_writes(url: str, *, on: bool) -> None:
    oracle.request(f"{url}/{INDEX}/_settings", "PUT", {"index.blocks.write": on or None})


def test_a_dropped_column_stalls_with_the_expression_that_names_it_until_the_spec_is_mended(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    harness.sync()
    before = oracle.read_index(clean_indices, ALIAS)
    lake.sql(f"alter table lake.{table} drop column n")
    lake.sql(f"insert into lake.{table} values (3, 'c', 30)")
    status = harness.run_to_stall()
    assert status.reason == "FieldInvalid"
    assert "the expression `n * 2` of field `twice` cannot be evaluated" in str(status.message)
    assert oracle.read_index(clean_indices, ALIAS) == before
    reshape(harness, KEY, NAME, derive("twice", "m * 2"))
    harness.sync()
    assert oracle.read_index(clean_indices, ALIAS)["3"] == {
        "id": 3,
        "who": {"name": "c"},
        "twice": 60,
    }


def test_a_renamed_column_is_followed_before_and_after_the_next_snapshot(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    harness.sync()
    lake.sql(f"alter table lake.{table} rename column name to label")
    lake.sql(f"alter table lake.{table} rename column id to number")
    # No snapshot has the new names yet. An expression can be followed only from then on.
    key = {"identifierColumns": ["number"], "routing": ["number"]}
    reshape(harness, take("id", "number"), take("who.name", "label"), TWICE, **key)
    harness.sync()
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
    lake.sql(f"update lake.{table} set label = 'x' where number = 1")
    harness.sync()
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [INDEX]
    expected = {"id": 1, "who": {"name": "x"}, "twice": 2}
    assert oracle.read_index(clean_indices, ALIAS)["1"] == expected
    lake.sql(f"alter table lake.{table} rename column n to count")
    reshape(harness, take("id", "number"), derive("twice", "count * 2"), **key)
    status = harness.run_to_stall()
    assert "takes effect with the next snapshot" in str(status.message)


def test_columns_that_are_moved_in_the_table_change_no_document(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    reshape(harness, "*", derive("sum", "n + m"), derive("who.name", "upper(name)"))
    harness.sync()
    lake.sql(f"alter table lake.{table} alter column m first")
    lake.sql(f"alter table lake.{table} alter column id after name")
    lake.sql(f"update lake.{table} set n = 7 where id = 1")
    harness.sync()
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [INDEX]
    expected = {"id": 1, "name": "a", "n": 7, "m": 10, "sum": 17, "who": {"name": "A"}}
    assert oracle.read_index(clean_indices, ALIAS)["1"] == expected
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_a_batch_that_was_begun_before_a_column_was_renamed_is_finished_with_its_new_name(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    harness.sync()
    lake.sql(f"update lake.{table} set name = 'x' where id = 1")
    block_writes(clean_indices, on=True)
    assert harness.run_to_stall().reason == "TargetReadOnly"
    block_writes(clean_indices, on=False)
    lake.sql(f"alter table lake.{table} rename column name to label")
    lake.sql(f"update lake.{table} set label = 'y' where id = 2")
    reshape(harness, KEY, take("who.name", "label"), TWICE)
    harness.sync()
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [INDEX]
    documents = oracle.read_index(clean_indices, ALIAS)
    assert [documents[key]["who"]["name"] for key in "12"] == ["x", "y"]
    assert harness.inspect(RunMode.VERIFY)["equal"] is True

    # The text of an expression has the new name too, and another text is another document.
    lake.sql(f"update lake.{table} set n = 7 where id = 1")
    block_writes(clean_indices, on=True)
    assert harness.run_to_stall().reason == "TargetReadOnly"
    block_writes(clean_indices, on=False)
    lake.sql(f"alter table lake.{table} rename column n to count")
    lake.sql(f"update lake.{table} set count = 8 where id = 2")
    reshape(harness, KEY, take("who.name", "label"), derive("twice", "count * 2"))
    verdict = harness.inspect(RunMode.VERIFY)
    assert verdict["reason"] == "FieldInvalid", verdict
    assert "which has to be read first" in verdict["message"]
    harness.sync()
    assert list(oracle.request(f"{clean_indices}/_alias/{ALIAS}")) == [f"{ALIAS}-000002"]
    documents = oracle.read_index(clean_indices, ALIAS)
    assert [documents[key]["twice"] for key in "12"] == [14, 16]
