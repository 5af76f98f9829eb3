"""Ids in changes: rows are matched by the values of their keys, and get their ids afterwards."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff import rows as diff_rows
from icdc_spark.diff.strategies import Strategy
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake, Op

pytestmark = pytest.mark.spark

COLUMNS = (
    "s string, bin binary, price decimal(9, 2), inside struct<x int>, day date, moment timestamp, "
    "flag boolean, n bigint, v string"
)
KEYS = ("s", "bin", "price", "inside.x", "day", "moment", "flag", "n")
NULLS = "cast(null as binary), null, null, null, null, null, null"

# Keys that differ in one value, some of them so that texts that are joined carelessly are the same.
RETAINED = [
    f"('a|b', {NULLS}, 'kept')",
    f"('null', {NULLS}, 'kept')",
    "('kept', X'00', 1.50, named_struct('x', 1), date'2024-03-15', "
    "timestamp'2024-03-15 14:30:00', true, 1, 'kept')",
]
UPDATED = [
    f"('a', {NULLS}, 'old')",
    f"('', {NULLS}, 'old')",
    f"(null, {NULLS}, 'old')",
    f"(repeat('x', 600), {NULLS}, 'old')",
    "('b', X'0001', -1.50, named_struct('x', 2), date'2024-03-15', "
    "timestamp'2024-03-15 14:30:00', false, -1, 'old')",
]
DELETED = [
    f"('|a', {NULLS}, 'gone')",
    f"('\\\\\\\\N', {NULLS}, 'gone')",
    f"(concat(repeat('x', 600), 'y'), {NULLS}, 'gone')",
    "('b', X'0001', -1.50, named_struct('x', null), date'2024-03-15', "
    "timestamp'2024-03-15 14:30:00', false, -1, 'gone')",
]
CREATED = [
    f"('a||', {NULLS}, 'new')",
    f"('\\\\\\\\E', {NULLS}, 'new')",
    "('b', X'00', null, named_struct('x', null), null, null, null, 0, 'new')",
]


@pytest.mark.parametrize(
    ("mode", "version", "together"),
    [
        (COPY_ON_WRITE, 2, 250_000),
        (COPY_ON_WRITE, 2, 2),
        (COPY_ON_WRITE, 3, 250_000),
        (COPY_ON_WRITE, 3, 2),
        (MERGE_ON_READ, 3, 250_000),
    ],
)
def test_every_way_of_comparing_gives_the_ids_of_an_export(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: str, version: int, together: int
) -> None:
    monkeypatch.setattr(diff_rows, "GROUPED_ROWS", together)
    name = lake.create(COLUMNS, mode=mode, version=version)
    rows = ", ".join(RETAINED + UPDATED + DELETED)
    lake.sql(f"insert into lake.{name} select /*+ coalesce(1) */ * from values {rows}")
    since, before = lake.read_head(name), export_documents(lake, name)
    lake.sql(f"update lake.{name} set v = 'changed' where v = 'old'")
    lake.sql(f"delete from lake.{name} where v = 'gone'")
    lake.sql(f"insert into lake.{name} values {', '.join(CREATED)}")
    after = export_documents(lake, name)
    assert (len(before), len(after)) == (12, 11), "two keys share an id"

    expected = {
        *(Op("c", key, after[key]) for key in after.keys() - before.keys()),
        *(Op("u", key, doc) for key, doc in after.items() if before.get(key, doc) != doc),
        *(Op("d", key, None) for key in before.keys() - after.keys()),
    }
    batches = lake.compute_ways(name, since, identifier_columns=KEYS)
    assert (Strategy.LINEAGE in batches) == (version == 3)
    for strategy, batch in batches.items():
        assert set(batch.ops) == expected, strategy
        assert len(batch.ops) == len(expected), strategy


@pytest.mark.parametrize(
    ("count", "tasks"),
    [(0, 1), (1, 1), (2_000, 2), (16_000, 2), (16_001, 3), (8_000_000, 125)],
)
def test_a_task_groups_a_bounded_number_of_rows_and_small_ones_share_a_task(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, count: int, tasks: int
) -> None:
    assert lake.session.sparkContext.defaultParallelism == 2
    monkeypatch.setattr(diff_rows, "GROUPED_ROWS", 1_000)
    spec = lake.resolve_spec(lake.create("id bigint, v string"))
    rows = lake.session.range(100).selectExpr("id % 10 as k0")
    grouped = diff_rows.group_by_key(rows, spec, F.count(F.lit(1)).alias("rows"), max_rows=count)
    assert grouped.rdd.getNumPartitions() == tasks
    assert {(row["k0"], row["rows"]) for row in grouped.collect()} == {(k, 10) for k in range(10)}


def export_documents(lake: Lake, name: str) -> dict[str, str | None]:
    """Export a table; return the documents by id."""
    (batch,) = lake.export(name, identifier_columns=KEYS)
    return {op.id: op.doc for op in batch.ops}
