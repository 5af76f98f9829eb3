"""Tags that keep applied snapshots, in catalogs that may be written and in one that may not."""

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle
from icdc_testing.target.node_calls import clean_indices as clean

pytestmark = pytest.mark.spark

DAY_MS = 86_400_000
SPENT = "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1"
"""What expires every snapshot but the newest, and those that a tag or a branch keeps."""


def make_entry(table: str) -> dict[str, Any]:
    return {"name": table, "identifierColumns": ["id"], "index": "people"}


def read_tags(lake: Lake, table: str) -> dict[str, int]:
    """Return the tags of the table."""
    rows = lake.sql(f"select name, snapshot_id from {table}.refs where type = 'TAG'")
    return {row[0]: row[1] for row in rows}


def read_tag(url: str, owner: str = "default/test", alias: str = "people") -> str:
    """Return the tag of a pipeline whose progress is in the node at `url`."""
    uuid = oracle.request(f"{url}/icdc-state/_settings/index.uuid")
    ((_, settings),) = uuid.items()
    key = hashlib.sha256(f"{settings['settings']['index']['uuid']}\n{owner}".encode()).hexdigest()
    return f"icdc-{alias}-{key[:10]}"


def compute_days_left(lake: Lake, table: str, tag: str) -> float:
    """Until an expiration takes the tag away: Iceberg counts from the commit of the snapshot."""
    (row,) = lake.sql(
        "select max_reference_age_in_ms, unix_millis(current_timestamp()) - "
        f"unix_millis(committed_at) from lake.{table}.refs r join lake.{table}.snapshots s "
        f"on r.snapshot_id = s.snapshot_id where name = '{tag}'"
    )
    return float((row[0] - row[1]) / DAY_MS)


def set_days(lake: Lake, table: str, tag: str, days: float) -> None:
    """As if the tag had been set some time ago."""
    (row,) = lake.sql(
        "select unix_millis(current_timestamp()) - unix_millis(committed_at) from "
        f"lake.{table}.refs r join lake.{table}.snapshots s on r.snapshot_id = s.snapshot_id "
        f"where name = '{tag}'"
    )
    age = max(1, int(row[0] + days * DAY_MS))
    lake.load_table(table).java.manageSnapshots().setMaxRefAgeMs(tag, age).commit()


def count_commits(lake: Lake, table: str) -> int:
    """Count the metadata files that were written for the table."""
    return len(lake.sql(f"select file from lake.{table}.metadata_log_entries"))


@pytest.fixture
def table(lake: Lake) -> str:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'one'), (2, 'two')")
    return name


def test_an_applied_snapshot_outlives_its_expiration_and_the_status_says_so(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    harness = Harness(spark, clean_indices, tmp_path, [make_entry(table)])
    status = harness.sync()
    assert (status.snapshot_pinned, status.pin_message) == (True, None)
    applied = lake.read_head(table)
    tag = read_tag(clean_indices)
    assert read_tags(lake, f"lake.{table}") == {tag: applied}

    lake.sql(f"insert into lake.{table} values (3, 'three')")
    lake.sql(f"delete from lake.{table} where id = 1")
    lake.sql(f"call lake.system.expire_snapshots(table => '{table}', {SPENT})")
    assert lake.load_table(table).find_snapshot(applied) is not None
    assert harness.sync().snapshot_pinned
    assert read_tags(lake, f"lake.{table}") == {tag: lake.read_head(table)}
    assert set(oracle.read_index(clean_indices, "people")) == {"2", "3"}


def test_pipelines_that_follow_one_table_keep_a_snapshot_each(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    production = Harness(spark, clean_indices, tmp_path, [make_entry(table)])
    production.sync()
    first, ours = lake.read_head(table), read_tag(clean_indices)
    lake.sql(f"insert into lake.{table} values (3, 'three')")
    # Another one beside it, and one of the very same names whose progress is elsewhere.
    beside = Harness(
        spark, clean_indices, tmp_path, [make_entry(table) | {"index": "staging"}], name="staging"
    )
    beside.sync()
    second, beside_tag = (
        lake.read_head(table),
        read_tag(clean_indices, "default/staging", "staging"),
    )
    lake.sql(f"insert into lake.{table} values (4, 'four')")
    clean(clean_indices)
    production.sync()
    elsewhere = read_tag(clean_indices)
    lake.sql(f"insert into lake.{table} values (5, 'five')")
    lake.sql(f"call lake.system.expire_snapshots(table => '{table}', {SPENT})")

    retained = read_tags(lake, f"lake.{table}")
    assert (retained[ours], retained[beside_tag]) == (first, second)
    assert len({ours, beside_tag, elsewhere}) == len(retained) == 3
    assert lake.load_table(table).snapshots.keys() == {*retained.values(), lake.read_head(table)}
    production.run(RunMode.DELETE)
    assert read_tags(lake, f"lake.{table}").keys() == {ours, beside_tag}


def test_a_tag_that_nobody_renews_expires_and_a_look_renews_it_in_time(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    harness = Harness(spark, clean_indices, tmp_path, [make_entry(table)])
    harness.sync()
    tag, applied = read_tag(clean_indices), lake.read_head(table)
    assert 29.9 < compute_days_left(lake, table, tag) <= 30
    set_days(lake, table, tag, 20.1)
    before = count_commits(lake, table)
    harness.sync()
    assert count_commits(lake, table) == before, "a look at an idle table commits nothing"
    set_days(lake, table, tag, 19.9)
    harness.sync()
    assert 29.9 < compute_days_left(lake, table, tag) <= 30

    set_days(lake, table, tag, -1)
    lake.sql(f"insert into lake.{table} values (3, 'three')")
    lake.sql(f"call lake.system.expire_snapshots(table => '{table}', {SPENT})")
    assert read_tags(lake, f"lake.{table}") == {}
    assert lake.load_table(table).find_snapshot(applied) is None


def test_a_planned_comparison_keeps_the_snapshot_of_a_table_that_no_other_run_reads(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    harness = Harness(spark, clean_indices, tmp_path, [make_entry(table)], mode="ExportOnly")
    harness.sync()
    tag = read_tag(clean_indices)
    set_days(lake, table, tag, 5)
    harness.sync()
    harness.run(RunMode.VERIFY)
    # Neither reads the table of its own accord, nor does a person's question change anything.
    assert 4.9 < compute_days_left(lake, table, tag) <= 5
    harness.run(RunMode.VERIFY, tables=[table])
    assert 29.9 < compute_days_left(lake, table, tag) <= 30


def test_tags_of_an_older_version_and_of_an_index_that_was_renamed_are_taken_away(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    head = lake.read_head(table)
    for name in ("icdc-people", "icdc-people-next", "icdc-others", "release"):
        lake.sql(f"alter table lake.{table} create tag `{name}` as of version {head}")
    harness = Harness(spark, clean_indices, tmp_path, [make_entry(table)])
    harness.sync()
    ours = read_tag(clean_indices)
    assert read_tags(lake, f"lake.{table}").keys() == {ours, "icdc-others", "release"}

    # A pipeline that was not upgraded yet sets its tag again: it is left alone from here on.
    lake.sql(f"alter table lake.{table} create tag `icdc-people` as of version {head}")
    harness.sync()
    assert "icdc-people" in read_tags(lake, f"lake.{table}")

    harness.resource["spec"]["tables"][0]["index"] = "persons"
    harness.sync()
    assert read_tags(lake, f"lake.{table}").keys() == {
        read_tag(clean_indices, alias="persons"),
        "icdc-people",
        "icdc-others",
        "release",
    }


def test_no_tag_is_made_where_none_is_wanted(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    never = {"pinSnapshots": "Never"}
    harness = Harness(spark, clean_indices, tmp_path, [make_entry(table)], changelog=never)
    assert harness.sync().snapshot_pinned is False
    assert read_tags(lake, f"lake.{table}") == {}


def test_tags_go_once_none_is_wanted(
    spark: SparkSession, lake: Lake, table: str, clean_indices: str, tmp_path: Path
) -> None:
    harness = Harness(spark, clean_indices, tmp_path, [make_entry(table)])
    assert harness.sync().snapshot_pinned
    lake.sql(f"alter table lake.{table} create tag release")
    never = {"pinSnapshots": "Never"}
    changed = Harness(spark, clean_indices, tmp_path, [make_entry(table)], changelog=never)
    assert changed.sync().snapshot_pinned is False
    assert read_tags(lake, f"lake.{table}").keys() == {"release"}


@pytest.fixture
def writable(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
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
    yield database
    # The session would go on with this very catalog under the same name.
    catalogs: Any = spark._jsparkSession.sessionState().catalogManager()
    catalogs.reset()


def make_catalog(database: Path, mode: str) -> dict[str, Any]:
    """`spec.catalog` of that catalog, through a connection that may write (`rw`) or not (`ro`)."""
    uri = f"jdbc:sqlite:file:{database}?mode={mode}"
    warehouse = str(database.with_name("warehouse"))
    return {"name": "books", "properties": {"type": "jdbc", "uri": uri, "warehouse": warehouse}}


def test_a_table_to_which_others_commit_all_the_time_is_tried_again(
    spark: SparkSession, lake: Lake, writable: Path, clean_indices: str, tmp_path: Path
) -> None:
    spark.sql("alter table books.db.people set tblproperties ('commit.retry.num-retries'='0')")
    others = sqlite3.connect(writable)
    # As when another commit comes first each time: the catalog's compare-and-set finds nothing.
    others.execute(
        "create trigger busy before update on iceberg_tables begin select raise(ignore); end"
    )
    always = {"pinSnapshots": "Always"}
    catalog = make_catalog(writable, "rw")
    harness = Harness(
        spark, clean_indices, tmp_path, [make_entry("db.people")], catalog=catalog, changelog=always
    )
    report = harness.run()
    assert report.outcome is not None
    assert (report.outcome.failure_class, report.outcome.retryable) == ("SourceUnavailable", True)
    others.execute("drop trigger busy")
    others.close()
    assert harness.sync().snapshot_pinned
    assert read_tags(lake, "books.db.people").keys() == {read_tag(clean_indices)}


def test_a_table_in_a_catalog_that_may_only_be_read_is_followed_without_that_guarantee(
    spark: SparkSession, lake: Lake, writable: Path, clean_indices: str, tmp_path: Path
) -> None:
    catalog = make_catalog(writable, "ro")
    harness = Harness(spark, clean_indices, tmp_path, [make_entry("db.people")], catalog=catalog)
    status = harness.sync()
    assert status.snapshot_pinned is False
    assert status.pin_message
    assert "readonly" in status.pin_message
    spark.sql("insert into books.db.people values (2, 'two')")
    assert harness.sync().snapshot_pinned is False
    assert set(oracle.read_index(clean_indices, "people")) == {"1", "2"}
    assert read_tags(lake, "books.db.people") == {}

    # Where the guarantee is asked for, the batch waits for it and says so.
    spark.sql("insert into books.db.people values (3, 'three')")
    harness.resource["spec"]["changelog"] = {"pinSnapshots": "Always"}
    status = harness.run_to_stall()
    assert status.message
    assert "readonly" in status.message
    assert set(oracle.read_index(clean_indices, "people")) == {"1", "2"}
