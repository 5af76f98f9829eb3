"""Variants as Spark writes them. Iceberg 1.12 cannot read such files by columns, not even other
columns alone."""

import pytest

from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ, Lake, read_rows_one_by_one

pytestmark = pytest.mark.spark

VALUE = "parse_json(concat('{\"a\": ', id, '}'))"
COLUMNS = {
    "variant": VALUE,
    "array<variant>": f"array({VALUE})",
    "map<string, variant>": f"map('x', {VALUE})",
    "struct<a variant>": f"named_struct('a', {VALUE})",
    "array<struct<a variant, b int>>": f"array(named_struct('a', {VALUE}, 'b', 1))",
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("column", "stored", "mode"),
    [
        *((column, "whole", COPY_ON_WRITE) for column in COLUMNS),
        ("variant", "in typed parts", COPY_ON_WRITE),
        ("array<variant>", "in typed parts", COPY_ON_WRITE),
        ("variant", "in typed parts", MERGE_ON_READ),
        ("array<variant>", "whole", MERGE_ON_READ),
    ],
)
def test_every_strategy_reads_tables_with_variants_anywhere(
    lake: Lake, column: str, stored: str, mode: str
) -> None:
    shredded = f", 'write.parquet.shred-variants'='{str(stored != 'whole').lower()}'"
    name = lake.create(f"id bigint, n int, v {column}", version=3, mode=mode, properties=shredded)
    lake.sql(
        f"insert into lake.{name} select /*+ coalesce(1) */ id, cast(id as int), {COLUMNS[column]} "
        "from range(10)"
    )
    since = lake.read_head(name)
    with read_rows_one_by_one(lake.session):
        lake.sql(f"update lake.{name} set n = 77 where id = 3")
        lake.sql(f"delete from lake.{name} where id = 4")
    whole, narrow = (
        lake.compute_ways(name, since),
        lake.compute_ways(name, since, columns=("id", "n")),
    )
    for strategy, batch in (*whole.items(), *narrow.items()):
        assert sorted(batch.short) == [("d", "4"), ("u", "3")], strategy
        (document,) = (op.doc for op in batch.ops if op.id == "3")
        assert '"n":77' in str(document), strategy


def test_files_that_hold_a_variant_which_the_table_has_no_more_can_be_read(lake: Lake) -> None:
    name = lake.create("id bigint, n int, v array<variant>", version=3)
    lake.sql(
        f"insert into lake.{name} select /*+ coalesce(1) */ id, 0, array({VALUE}) from range(10)"
    )
    lake.sql(f"alter table lake.{name} drop column v")
    lake.sql(f"insert into lake.{name} values (10, 0)")
    since = lake.read_head(name)
    with read_rows_one_by_one(lake.session):
        lake.sql(f"delete from lake.{name} where id = 4")
    for strategy, batch in lake.compute_ways(name, since).items():
        assert batch.short == [("d", "4")], strategy
