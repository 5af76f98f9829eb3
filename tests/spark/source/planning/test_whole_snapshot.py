"""A snapshot read in parts has the rows that it has read at once, and the driver keeps no part."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from icdc_api.errors import FileUnreadable, NodeLost
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers import whole_snapshot
from icdc_spark.readers.arrow import ArrowReader
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.readers.staged import StagedReader
from icdc_spark.readers.whole_snapshot import read_whole
from icdc_testing.lake.damage import NEEDLE, change_byte, find_file
from icdc_testing.lake.lake import MERGE_ON_READ, Lake
from icdc_testing.waiting.jvm import FileCounter
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

FILES = 30
PART_FILES = 5
PLAIN = ", 'write.parquet.compression-codec'='uncompressed'"


def open_whole(lake: Lake, table: str, kind: type[StagedReader | ArrowReader]) -> SnapshotReader:
    return kind(lake.session, lake.load_table(table), lake.read_head(table))


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [StagedReader, ArrowReader])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_and_deletes_are_the_same_however_many_files_a_part_has(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[StagedReader | ArrowReader],
    version: int,
) -> None:
    table = lake.create("id int, name string", mode=MERGE_ON_READ, version=version)
    for start in (0, 10, 20):
        rows = ", ".join(f"({number}, 'a')" for number in range(start, start + 10))
        lake.sql(f"insert into lake.{table} values {rows}")
    lake.sql(f"update lake.{table} set name = 'b' where id in (3, 13)")
    lake.sql(f"delete from lake.{table} where id in (7, 20)")
    expected = sorted((n, "b" if n in (3, 13) else "a") for n in range(30) if n not in (7, 20))
    parts = {}
    for files in (1, 2, whole_snapshot.PART_FILES):
        monkeypatch.setattr(whole_snapshot, "PART_FILES", files)
        sizes: list[int] = []

        with open_whole(lake, table, kind) as reader:

            def build(
                group: FileGroup,
                reader: SnapshotReader = reader,
                sizes: list[int] = sizes,
            ) -> DataFrame:
                sizes.append(group.files)
                return reader.read(group)

            rows_read = read_whole(reader, build).collect()
        assert sorted((row["id"], row["name"]) for row in rows_read) == expected
        parts[files] = sizes
    whole = sum(parts[1])
    assert parts == {1: [1] * whole, 2: parts[2], whole_snapshot.PART_FILES: [whole]}
    assert max(parts[2]) == 2


def test_a_snapshot_without_files_has_no_rows(lake: Lake) -> None:
    table = lake.create("id int")
    lake.sql(f"insert into lake.{table} values (1)")
    lake.sql(f"delete from lake.{table}")
    with open_whole(lake, table, StagedReader) as reader:
        assert read_whole(reader, reader.read).collect() == []


def test_the_driver_has_the_files_of_two_parts_at_a_time_and_none_in_the_end(
    lake: Lake, spark: SparkSession, collected_late: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_snapshot, "PART_FILES", PART_FILES)
    table, held = lake.create("id bigint"), FileCounter(spark)
    spark.range(0, FILES, 1, FILES).writeTo(f"lake.{table}").append()
    reader = open_whole(lake, table, StagedReader)
    before, sizes, counts = held.wait_until_freed(), list[int](), list[int]()

    def count_and_read(group: FileGroup) -> DataFrame:
        sizes.append(group.files)
        if len(sizes) % 4 == 1:
            counts.append(held.wait_until_settled())
        return reader.read(group)

    with reader:
        rows = read_whole(reader, count_and_read)
        after = held.wait_until_settled()
        assert rows.distinct().count() == FILES
    assert sizes == [PART_FILES] * (FILES // PART_FILES)
    # The part that is read and the next one; the first entry of a manifest may be read ahead.
    assert max(counts) - before <= 2 * PART_FILES + 2
    assert after - before <= 2


def test_stored_rows_are_given_back_at_the_end_and_are_a_lost_node_where_they_are_missing(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_snapshot, "PART_FILES", 1)
    table = lake.create("id int")
    for number in (1, 2):
        lake.sql(f"insert into lake.{table} values ({number})")
    stored = list_stored(spark)
    with open_whole(lake, table, StagedReader) as reader:
        rows = read_whole(reader, reader.read)
        assert len(list_stored(spark) - stored) == 2
    assert list_stored(spark) == stored

    def is_lost() -> bool:
        try:
            with translate_source_errors(table):
                rows.collect()
        except NodeLost:
            return True
        return False

    # Spark removes them in a thread of its own.
    wait_until(is_lost, "the rows are gone")


def test_a_damaged_file_of_a_part_is_named_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_snapshot, "PART_FILES", 1)
    table = lake.create("name string", properties=PLAIN)
    for name in ("whole", NEEDLE.decode(), "whole"):
        lake.sql(f"insert into lake.{table} values ('{name}')")
    ((location,),) = lake.sql(f"select _file from lake.{table} where name = 'needle'")
    file = find_file(location)
    file.write_bytes(change_byte(file.read_bytes()))
    with (
        pytest.raises(FileUnreadable) as error,
        open_whole(lake, table, StagedReader) as reader,
        translate_source_errors(table),
    ):
        read_whole(reader, reader.read)
    assert str(error.value).count(Path(location).name) == 1
    assert str(error.value).count("it is ") == 1


def list_stored(spark: SparkSession) -> set[int]:
    """Return the ids of what Spark has stored."""
    context = spark._jsparkSession.sparkContext()
    return {int(info.id()) for info in context.getRDDStorageInfo()}
