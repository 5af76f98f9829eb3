"""A cached table is equal to a table loaded anew, and reads no metadata file twice."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import TableNotFound
from icdc_spark.iceberg.jvm.session import create_table_session
from icdc_spark.iceberg.table import tags
from icdc_spark.iceberg.table.cached_table import CachedTable
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.iceberg.table.tags import Tag
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.lake.file_reads import count_bytes_read

pytestmark = pytest.mark.spark

CATALOG = "held"
NAME = "db.orders"
TABLE = f"{CATALOG}.{NAME}"
POLLS = {"jdbc": 1, "hadoop": 2}
"""Polls that read the metadata file although nobody changed the table: see `cached_table`."""


@dataclass(frozen=True)
class HeldWorld:
    """A catalog of some type in two sessions: one writes, the other follows."""

    writer: SparkSession
    follower: SparkSession
    settled: int

    def sql(self, statement: str) -> None:
        self.writer.sql(statement.format(t=TABLE, c=CATALOG, n=NAME)).collect()

    def make_cached(self) -> CachedTable:
        """Return a cached table, polled so often that its metadata file is not read again."""
        table = CachedTable(self.follower, CATALOG, NAME)
        for _ in range(self.settled):
            table.load()
        return table

    def load(self) -> IcebergTable:
        return IcebergTable.load(self.follower, CATALOG, NAME)


@pytest.fixture(params=sorted(POLLS))
def world(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> Iterator[HeldWorld]:
    properties = {"type": request.param, "warehouse": f"{tmp_path}/warehouse"}
    if request.param == "jdbc":
        sqlite3.connect(tmp_path / "catalog.db").close()
        properties["uri"] = f"jdbc:sqlite:{tmp_path}/catalog.db"
    writer, follower = (create_table_session(spark, CATALOG, properties) for _ in range(2))
    made = HeldWorld(writer, follower, POLLS[request.param])
    made.sql("create namespace {c}.db")
    create(made)
    yield made
    made.sql("drop table if exists {t}")


def create(world: HeldWorld) -> None:
    world.sql("create table {t} (id int, name string) using iceberg")
    world.sql("insert into {t} values (1, 'a')")


def insert(world: HeldWorld) -> None:
    world.sql("insert into {t} values (2, 'b')")


def roll_back(world: HeldWorld) -> None:
    first = read_head(world)
    insert(world)
    world.load().java.manageSnapshots().rollbackTo(first).commit()


def read_head(world: HeldWorld) -> int:
    head = world.load().find_current_snapshot()
    assert head is not None
    return head.id


def commit_to_branch(world: HeldWorld) -> None:
    world.sql("alter table {t} create branch audit")
    world.sql("insert into {t}.branch_audit values (3, 'c')")


def add_column(world: HeldWorld) -> None:
    world.sql("alter table {t} add column note string")


def replace(world: HeldWorld) -> None:
    world.sql("create or replace table {t} (key bigint) using iceberg")


def recreate(world: HeldWorld) -> None:
    """Drop and create the table, with as many commits: files may have the old names."""
    world.sql("drop table {t} purge")
    create(world)


def recreate_with_more(world: HeldWorld) -> None:
    recreate(world)
    insert(world)


def recreate_with_less(world: HeldWorld) -> None:
    world.sql("drop table {t} purge")
    world.sql("create table {t} (id int) using iceberg")


SITUATIONS: list[Callable[[HeldWorld], None]] = [
    insert,
    roll_back,
    commit_to_branch,
    add_column,
    replace,
    recreate,
    recreate_with_more,
    recreate_with_less,
]


def test_no_metadata_file_is_read_again_while_the_table_stands(world: HeldWorld) -> None:
    table = world.make_cached()
    before = count_bytes_read(world.follower)
    first = table.load()
    assert table.load() is first
    assert count_bytes_read(world.follower) == before
    assert_same(first, world.load())
    assert count_bytes_read(world.follower) > before, "loading it anew reads its file"


@pytest.mark.parametrize("happens", SITUATIONS, ids=lambda situation: situation.__name__)
def test_what_happened_to_a_table_is_seen_as_if_it_were_loaded_anew(
    world: HeldWorld, happens: Callable[[HeldWorld], None]
) -> None:
    table = world.make_cached()
    before = table.load().metadata_location, table.load().uuid
    happens(world)
    now = table.load()
    assert (now.metadata_location, now.uuid) != before
    assert_same(now, world.load())
    assert_same(table.load(), world.load())


def test_a_table_that_was_dropped_is_not_found_until_it_is_there_again(world: HeldWorld) -> None:
    table = world.make_cached()
    world.sql("drop table {t} purge")
    for _ in range(2):
        with pytest.raises(TableNotFound):
            table.load()
    create(world)
    assert_same(table.load(), world.load())


def test_a_tag_of_our_own_is_kept_with_the_commits_of_others(world: HeldWorld) -> None:
    table = world.make_cached()
    now = table.load()
    assert len(now.snapshots) == 1
    insert(world)
    # The commit loads what others have committed, and says nothing of it.
    tags.change(now, put={"icdc": Tag(snapshot_id=read_head(world), max_age_ms=None)})
    assert_same(table.load(), world.load())
    assert_same(now, world.load())


@pytest.mark.parametrize("etags", [True, False])
def test_a_rest_catalog_is_asked_for_the_table_each_time_and_no_file_is_read(
    spark: SparkSession, tmp_path: Path, etags: bool
) -> None:
    lake = HeadLake(tmp_path)
    lake.create()
    head = lake.commit()
    with rest_catalog.serve() as rest:
        rest.etags = etags
        rest.put("shop.orders", json.loads(lake.find_metadata_file().read_text(encoding="utf-8")))
        follower = create_table_session(spark, CATALOG, rest.properties)
        table = CachedTable(follower, CATALOG, "shop.orders")
        before = count_bytes_read(spark)
        assert read_head_id(table) == head
        assert read_head_id(table) == head
        path, headers = rest.requests[-1]
        assert path.startswith("/v1/namespaces/shop/tables/orders")
        assert ("If-None-Match" in headers) == etags
        moved = lake.commit()
        rest.put("shop.orders", json.loads(lake.find_metadata_file().read_text(encoding="utf-8")))
        assert read_head_id(table) == moved
        assert count_bytes_read(spark) == before
    lake.close()


def read_head_id(table: CachedTable) -> str:
    head = table.load().find_current_snapshot()
    assert head is not None
    return str(head.id)


def assert_same(held: IcebergTable, loaded: IcebergTable) -> None:
    assert held.metadata_location == loaded.metadata_location
    assert held.uuid == loaded.uuid
    assert held.find_current_snapshot() == loaded.find_current_snapshot()
    assert held.snapshots == loaded.snapshots
    assert held.read_schema() == loaded.read_schema()
    assert held.java.refs().toString() == loaded.java.refs().toString()
