"""Equality deletes that are found by one read of the values, and those that are not."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_spark.diff.plan import plan_changes
from icdc_spark.iceberg.bridge import Bridge
from support_generics import JavaWriter
from support_lake import Lake
from support_metadata_table import MetadataTable
from support_schemas import create_from_json, fields_json

pytestmark = pytest.mark.spark

ID, P = 1, 2

Make = Callable[[MetadataTable], int]
"""Commits to a table of format 2; answers the snapshot from which on is planned."""


def three_files(table: MetadataTable) -> list[Any]:
    files = [table.data_file(number) for number in range(3)]
    update = table.java.newAppend()
    for file in files:
        update = update.appendFile(file)
    update.commit()
    return files


def partition(table: MetadataTable) -> None:
    table.java.updateSpec().addField("p").commit()


def delete(table: MetadataTable, *deletes: Any) -> None:
    update = table.java.newRowDelta()
    for each in deletes:
        update = update.addDeletes(each)
    update.commit()


def by_key(table: MetadataTable) -> int:
    first, *_ = three_files(table)
    since = head(table)
    delete(table, table.equality_deletes(first))
    return since


def in_several_commits_after_others(table: MetadataTable) -> int:
    first, second, _ = three_files(table)
    delete(table, table.equality_deletes(first), table.position_deletes(second, target=True))
    since = head(table)
    delete(table, table.equality_deletes(first))
    table.java.newAppend().appendFile(table.data_file(0)).commit()
    delete(table, table.equality_deletes(first))
    return since


def by_two_kinds_of_keys(table: MetadataTable) -> int:
    first, *_ = three_files(table)
    since = head(table)
    delete(table, table.equality_deletes(first), table.equality_deletes(first, by=(P, ID)))
    return since


def by_the_partition_and_more(table: MetadataTable) -> int:
    partition(table)
    first, second, _ = three_files(table)
    since = head(table)
    delete(table, *(table.equality_deletes(each, by=(P, ID)) for each in (first, second)))
    return since


def by_less_than_the_partition(table: MetadataTable) -> int:
    partition(table)
    first, *_ = three_files(table)
    since = head(table)
    delete(table, table.equality_deletes(first))
    return since


def for_files_of_two_specs(table: MetadataTable) -> int:
    first, *_ = three_files(table)
    partition(table)
    three_files(table)
    since = head(table)
    delete(table, table.equality_deletes(first))
    return since


def with_position_deletes_for_one(table: MetadataTable) -> int:
    first, second, _ = three_files(table)
    since = head(table)
    delete(table, table.equality_deletes(first), table.position_deletes(second, target=True))
    return since


def while_others_went(table: MetadataTable) -> int:
    first, *_ = three_files(table)
    old = table.position_deletes(first, target=True)
    delete(table, old)
    since = head(table)
    table.java.newRowDelta().removeDeletes(old).addDeletes(table.equality_deletes(first)).commit()
    return since


def by_a_column_that_is_gone(table: MetadataTable) -> int:
    first, *_ = three_files(table)
    since = head(table)
    delete(table, table.equality_deletes(first, by=(P,)))
    table.java.updateSchema().deleteColumn("p").commit()
    table.java.newAppend().appendFile(table.data_file()).commit()
    return since


def not_for_a_file_that_was_put_in_again(table: MetadataTable) -> int:
    first, second, _ = three_files(table)
    since = head(table)
    delete(table, table.equality_deletes(second))
    table.java.newDelete().deleteFile(first).commit()
    table.java.newFastAppend().appendFile(first).commit()
    return since


def before_and_after_a_file_was_put_in_again(table: MetadataTable) -> int:
    """Of which the first deletes are no more: all that are looked up are for all files."""
    first, second, _ = three_files(table)
    since = head(table)
    delete(table, table.equality_deletes(second))
    table.java.newDelete().deleteFile(first).commit()
    table.java.newFastAppend().appendFile(first).commit()
    delete(table, table.equality_deletes(second))
    return since


def of_a_snapshot_that_is_older(table: MetadataTable) -> int:
    """The other way round: the deletes are those that went."""
    by_key(table)
    since = head(table)
    table.java.manageSnapshots().rollbackTo(table.java.currentSnapshot().parentId()).commit()
    return since


# what happens, the files found by values and the deletes, each time; the files read at both ends
CASES: list[tuple[Make, list[tuple[int, int]], int]] = [
    (by_key, [(3, 1)], 0),
    (in_several_commits_after_others, [(3, 2)], 0),
    (by_two_kinds_of_keys, [(3, 1), (3, 1)], 0),
    (by_the_partition_and_more, [(2, 2)], 0),
    (by_less_than_the_partition, [], 1),
    (for_files_of_two_specs, [(3, 1), (3, 1)], 0),
    (with_position_deletes_for_one, [(2, 1)], 1),
    (while_others_went, [(2, 1)], 1),
    (by_a_column_that_is_gone, [], 3),
    (not_for_a_file_that_was_put_in_again, [(2, 1)], 0),
    (before_and_after_a_file_was_put_in_again, [], 3),
    (of_a_snapshot_that_is_older, [], 3),
]


@pytest.mark.parametrize(
    ("make", "by_value", "rest"), CASES, ids=lambda it: getattr(it, "__name__", "")
)
def test_deletes_are_looked_up_by_value_just_where_that_says_all(
    spark: SparkSession, make: Make, by_value: list[tuple[int, int]], rest: int
) -> None:
    table = MetadataTable(spark, **{"format-version": "2"})
    since = make(table)
    plan = plan_changes(table.loaded(), since, head(table))
    assert [(each.data.files, each.deletes.files) for each in plan.by_value] == by_value
    assert max(plan.deletes_before.files, plan.deletes_after.files) == rest
    assert not plan.is_append


def head(table: MetadataTable) -> int:
    found = table.loaded().head()
    assert found is not None
    return found.id


# type, what makes Java values of the texts (none: they are values), the deleted one, another
TYPES: list[tuple[str, tuple[str, str] | None, Any, Any]] = [
    ("boolean", None, False, True),
    ("int", None, 0, -1),
    ("long", None, 1 << 62, -(1 << 62)),
    ("decimal(9, 2)", ("java.math.BigDecimal", "new"), "-1.50", "0.00"),
    ("date", ("java.time.LocalDate", "parse"), "0001-01-01", "9999-12-31"),
    (
        "timestamp",
        ("java.time.LocalDateTime", "parse"),
        "1969-12-31T23:59:59.999999",
        "1969-12-31T23:59:59.999998",
    ),
    (
        "timestamptz",
        ("java.time.OffsetDateTime", "parse"),
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59.999998Z",
    ),
    ("string", None, "", "\u00e4\U0001f600"),
    (
        "uuid",
        ("java.util.UUID", "fromString"),
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        "00000000-0000-0000-0000-000000000001",
    ),
    ("fixed[2]", None, bytearray(b"\0\xff"), bytearray(b"\0\xfe")),
    ("binary", None, b"", b"\0"),
]


def test_values_of_all_types_are_found_as_iceberg_finds_them(lake: Lake) -> None:
    columns = {f"v{at}": kind for at, (kind, *_) in enumerate(TYPES)}
    name, bridge = typed_table(lake, {"type": "int", **columns}), Bridge(lake.session)
    rows: list[dict[str, Any]] = []
    keys: list[list[dict[str, Any]]] = []
    for at, (_, maker, deleted, other) in enumerate(TYPES):
        values = [_made(bridge, maker, text) for text in (deleted, other)]
        rows += [{"type": at, f"v{at}": value} for value in (*values, None, None)]
        keys.append([{"type": at, f"v{at}": values[0]}, {"type": -1, f"v{at}": None}])
    keys[0].append({"type": 0, "v0": None})
    JavaWriter(lake.table(name)).append([{"id": at, **row} for at, row in enumerate(rows)])
    # A row that is deleted before, and then by its value once more.
    JavaWriter(lake.table(name)).delete_equal([{"id": 4}])
    since = lake.head(name)
    for each in keys:
        JavaWriter(lake.table(name)).delete_equal(each)

    gone = deleted_since(lake, name, since)
    assert gone == [0, 2, 3, *range(8, 4 * len(TYPES), 4)]
    planned = plan_changes(lake.table(name), since, lake.head(name))
    assert [each.data.files for each in planned.by_value] == [1] * len(TYPES)
    assert sorted(int(op.id) for op in lake.changes(name, since).ops) == gone


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_delete_files_of_any_format_are_looked_up(lake: Lake, file_format: str) -> None:
    name = typed_table(lake, {"v": "string"})
    JavaWriter(lake.table(name)).append([{"id": at, "v": f"v{at}"} for at in range(3)])
    since = lake.head(name)
    keys = [{"v": "v1"}, {"v": "v5"}]
    JavaWriter(lake.table(name)).delete_equal(keys, file_format=file_format)

    assert len(plan_changes(lake.table(name), since, lake.head(name)).by_value) == 1
    assert lake.changes(name, since).short == [("d", "1")]


def test_numbers_of_which_two_are_zero_are_left_to_iceberg(lake: Lake) -> None:
    name, bridge = typed_table(lake, {"v": "double"}), Bridge(lake.session)
    of = ("java.lang.Double", "valueOf")
    values = [_made(bridge, of, text) for text in ("0.0", "-0.0", "NaN")]
    JavaWriter(lake.table(name)).append([{"id": at, "v": value} for at, value in enumerate(values)])
    since = lake.head(name)
    JavaWriter(lake.table(name)).delete_equal([{"v": values[1]}, {"v": values[2]}])

    assert deleted_since(lake, name, since) == [1, 2]
    assert not plan_changes(lake.table(name), since, lake.head(name)).by_value
    for strategy, batch in lake.ways(name, since).items():
        assert [op.id for op in batch.ops] == ["1", "2"], strategy


def typed_table(lake: Lake, columns: dict[str, str]) -> str:
    """A table of format 2 with an `id` and these Iceberg types; its name."""
    name = lake.new_name()
    described = fields_json({"id": "int", **columns})
    create_from_json(lake.session, f"lake.{name}", described, {"format-version": "2"})
    return name


def deleted_since(lake: Lake, name: str, since: int) -> list[int]:
    """The ids that Spark's own reader shows of a snapshot, and no more."""
    before = {row["id"] for row in lake.sql(f"select id from lake.{name} version as of {since}")}
    return sorted(before - {row["id"] for row in lake.sql(f"select id from lake.{name}")})


def _made(bridge: Bridge, maker: tuple[str, str] | None, text: Any) -> Any:
    """A value as Java has it."""
    if maker is None:
        return text
    owner, method = maker
    if method == "new":
        return bridge.new(owner, text)
    return getattr(bridge.statics(owner), method)(text)
