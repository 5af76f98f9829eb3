"""Tags that keep applied snapshots, in catalogs that may be written and in one that may not."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import support_oracle as oracle
from support_harness import Harness
from support_lake import Lake

pytestmark = pytest.mark.spark

TAG = "icdc-people"
SPENT = "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1"
"""What expires every snapshot but the newest, and those that a tag or a branch keeps."""


def entry(table: str) -> dict[str, Any]:
    return {"name": table, "identifierColumns": ["id"], "index": "people"}


def tagged(lake: Lake, table: str) -> dict[str, int]:
    """The tags of the table."""
    found = lake.sql(f"select name, snapshot_id from {table}.refs where type = 'TAG'")
    return {row[0]: row[1] for row in found}


@pytest.fixture
def table(lake: Lake) -> str:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'one'), (2, 'two')")
    return name


def test_an_applied_snapshot_outlives_its_expiration_and_the_status_says_so(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    harness = Harness(spark, clean_indices, tmp_path, [entry(table)])
    status = harness.sync()
    assert (status.snapshot_pinned, status.pin_message) == (True, None)
    applied = lake.head(table)
    assert tagged(lake, f"lake.{table}")[TAG] == applied

    lake.sql(f"insert into lake.{table} values (3, 'three')")
    lake.sql(f"delete from lake.{table} where id = 1")
    lake.sql(f"call lake.system.expire_snapshots(table => '{table}', {SPENT})")
    assert lake.table(table).snapshot(applied) is not None
    assert harness.sync().snapshot_pinned
    assert tagged(lake, f"lake.{table}")[TAG] == lake.head(table)
    assert set(oracle.indexed(clean_indices, "people")) == {"2", "3"}


def test_no_tag_is_made_where_none_is_wanted(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    never = {"pinSnapshots": "Never"}
    harness = Harness(spark, clean_indices, tmp_path, [entry(table)], changelog=never)
    assert harness.sync().snapshot_pinned is None
    assert tagged(lake, f"lake.{table}") == {}


@pytest.fixture
def writable(spark: SparkSession, tmp_path: Path) -> Path:
    """The database of a catalog `books` with one table, `books.db.people`."""
    database = tmp_path / "catalog.db"
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{database}",
        ".warehouse": str(tmp_path / "warehouse"),
        ".cache-enabled": "false",
    }
    for key, value in properties.items():
        spark.conf.set(f"spark.sql.catalog.books{key}", value)
    spark.sql("create namespace books.db")
    spark.sql("create table books.db.people (id int, name string) using iceberg")
    spark.sql("insert into books.db.people values (1, 'one')")
    return database


def only_read(database: Path) -> dict[str, Any]:
    """`spec.catalog` of that catalog, through a connection that may not write."""
    uri = f"jdbc:sqlite:file:{database}?mode=ro"
    warehouse = str(database.with_name("warehouse"))
    return {"name": "books", "properties": {"type": "jdbc", "uri": uri, "warehouse": warehouse}}


def test_a_table_in_a_catalog_that_may_only_be_read_is_followed_without_that_guarantee(
    spark: SparkSession, lake: Lake, writable: Path, clean_indices: str, tmp_path: Path
) -> None:
    catalog = only_read(writable)
    harness = Harness(spark, clean_indices, tmp_path, [entry("db.people")], catalog=catalog)
    status = harness.sync()
    assert status.snapshot_pinned is False
    assert status.pin_message
    assert "readonly" in status.pin_message
    spark.sql("insert into books.db.people values (2, 'two')")
    assert harness.sync().snapshot_pinned is False
    assert set(oracle.indexed(clean_indices, "people")) == {"1", "2"}
    assert tagged(lake, "books.db.people") == {}

    # Where the guarantee is asked for, the batch waits for it and says so.
    spark.sql("insert into books.db.people values (3, 'three')")
    harness.resource["spec"]["changelog"] = {"pinSnapshots": "Always"}
    status = harness.stalled()
    assert status.message
    assert "readonly" in status.message
    assert set(oracle.indexed(clean_indices, "people")) == {"1", "2"}
