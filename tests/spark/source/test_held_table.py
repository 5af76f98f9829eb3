"""A table that is held says what one that is loaded anew says, and reads no file for nothing."""

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
from icdc_testing.catalogs import rest_catalog
from icdc_testing.catalogs.head_lake import HeadLake
from icdc_testing.lake.file_reads import bytes_read

pytestmark = pytest.mark.spark

CATALOG = "held"
NAME = "db.orders"
TABLE = f"{CATALOG}.{NAME}"
LOOKS = {"jdbc": 1, "hadoop": 2}
"""Looks that read the file of a table that nobody has changed since: see `cached_table`."""


@dataclass(frozen=True)
class World:
    """A catalog of some type, seen from two sessions: who writes, and who follows."""

    writer: SparkSession
    follower: SparkSession
    settled: int

    def sql(self, statement: str) -> None:
        self.writer.sql(statement.format(t=TABLE, c=CATALOG, n=NAME)).collect()

    def held(self) -> CachedTable:
        """The table, looked at so often that its file is known."""
        table = CachedTable(self.follower, CATALOG, NAME)
        for _ in range(self.settled):
            table.load()
        return table

    def loaded(self) -> IcebergTable:
        return IcebergTable.load(self.follower, CATALOG, NAME)


@pytest.fixture(params=sorted(LOOKS))
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    properties = {"type": request.param, "warehouse": f"{tmp_path}/warehouse"}
    if request.param == "jdbc":
        sqlite3.connect(tmp_path / "catalog.db").close()
        properties["uri"] = f"jdbc:sqlite:{tmp_path}/catalog.db"
    writer, follower = (create_table_session(spark, CATALOG, properties) for _ in range(2))
    made = World(writer, follower, LOOKS[request.param])
    made.sql("create namespace {c}.db")
    created(made)
    yield made
    made.sql("drop table if exists {t}")


def created(world: World) -> None:
    world.sql("create table {t} (id int, name string) using iceberg")
    world.sql("insert into {t} values (1, 'a')")


def inserted(world: World) -> None:
    world.sql("insert into {t} values (2, 'b')")


def rolled_back(world: World) -> None:
    first = head_of(world)
    inserted(world)
    world.loaded().java.manageSnapshots().rollbackTo(first).commit()


def head_of(world: World) -> int:
    head = world.loaded().current_snapshot()
    assert head is not None
    return head.id


def branched(world: World) -> None:
    world.sql("alter table {t} create branch audit")
    world.sql("insert into {t}.branch_audit values (3, 'c')")


def column_added(world: World) -> None:
    world.sql("alter table {t} add column note string")


def replaced(world: World) -> None:
    world.sql("create or replace table {t} (key bigint) using iceberg")


def recreated(world: World) -> None:
    """With as many commits as before, so that files may have the names of the old ones."""
    world.sql("drop table {t} purge")
    created(world)


def recreated_with_more(world: World) -> None:
    recreated(world)
    inserted(world)


def recreated_with_less(world: World) -> None:
    world.sql("drop table {t} purge")
    world.sql("create table {t} (id int) using iceberg")


SITUATIONS: list[Callable[[World], None]] = [
    inserted,
    rolled_back,
    branched,
    column_added,
    replaced,
    recreated,
    recreated_with_more,
    recreated_with_less,
]


def test_no_metadata_file_is_read_again_while_the_table_stands(world: World) -> None:
    table = world.held()
    before = bytes_read(world.follower)
    first = table.load()
    assert table.load() is first
    assert bytes_read(world.follower) == before
    assert_same(first, world.loaded())
    assert bytes_read(world.follower) > before, "loading it anew reads its file"


@pytest.mark.parametrize("happens", SITUATIONS, ids=lambda each: each.__name__)
def test_what_happened_to_a_table_is_seen_as_if_it_were_loaded_anew(
    world: World, happens: Callable[[World], None]
) -> None:
    table = world.held()
    before = table.load().metadata_location, table.load().uuid
    happens(world)
    now = table.load()
    assert (now.metadata_location, now.uuid) != before
    assert_same(now, world.loaded())
    assert_same(table.load(), world.loaded())


def test_a_table_that_was_dropped_is_not_found_until_it_is_there_again(world: World) -> None:
    table = world.held()
    world.sql("drop table {t} purge")
    for _ in range(2):
        with pytest.raises(TableNotFound):
            table.load()
    created(world)
    assert_same(table.load(), world.loaded())


def test_a_tag_of_our_own_is_kept_with_the_commits_of_others(world: World) -> None:
    table = world.held()
    now = table.load()
    assert len(now.snapshots) == 1
    inserted(world)
    # The commit loads what others have committed, and says nothing of it.
    tags.change(now, put={"icdc": Tag(snapshot_id=head_of(world), max_age_ms=None)})
    assert_same(table.load(), world.loaded())
    assert_same(now, world.loaded())


@pytest.mark.parametrize("etags", [True, False])
def test_a_rest_catalog_is_asked_for_the_table_each_time_and_no_file_is_read(
    spark: SparkSession, tmp_path: Path, etags: bool
) -> None:
    lake = HeadLake(tmp_path)
    lake.create()
    head = lake.commit()
    with rest_catalog.running() as rest:
        rest.etags = etags
        rest.put("shop.orders", json.loads(lake.metadata_file().read_text(encoding="utf-8")))
        follower = create_table_session(spark, CATALOG, rest.properties)
        table = CachedTable(follower, CATALOG, "shop.orders")
        before = bytes_read(spark)
        assert head_id(table) == head
        assert head_id(table) == head
        path, headers = rest.requests[-1]
        assert path.startswith("/v1/namespaces/shop/tables/orders")
        assert ("If-None-Match" in headers) == etags
        moved = lake.commit()
        rest.put("shop.orders", json.loads(lake.metadata_file().read_text(encoding="utf-8")))
        assert head_id(table) == moved
        assert bytes_read(spark) == before
    lake.close()


def head_id(table: CachedTable) -> str:
    head = table.load().current_snapshot()
    assert head is not None
    return str(head.id)


def assert_same(held: IcebergTable, loaded: IcebergTable) -> None:
    assert held.metadata_location == loaded.metadata_location
    assert held.uuid == loaded.uuid
    assert held.current_snapshot() == loaded.current_snapshot()
    assert held.snapshots == loaded.snapshots
    assert held.schema() == loaded.schema()
    assert held.java.refs().toString() == loaded.java.refs().toString()
