"""The tables of the benchmarks of the changelog, and what happens to them.

Of format 3, with 20 columns: a `bigint` key, texts of 24 characters, doubles and integers.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.bench.changelog import CATALOG, Range
from icdc_testing.lake.java.files import describe_file, make_int_array
from icdc_testing.lake.lake import COPY_ON_WRITE, MERGE_ON_READ

FILES = 8
TEXTS, NUMBERS, COUNTS = 10, 5, 4
"""Columns beside `id`: texts, doubles, integers."""
_EARLIER = 10
"""Commits with equality deletes before those that are looked at."""


def make_two_commits(
    spark: SparkSession, rows: int, *, mode: str, table: str, files: int = FILES
) -> Range:
    """Update 1 % of the rows, then delete 0.1 %."""
    name = create_table(spark, rows, mode, table, files)
    since = _read_head(spark, name)
    spark.sql(f"update {CATALOG}.{name} set s0 = concat(s0, 'X') where id % 100 = 3")
    spark.sql(f"delete from {CATALOG}.{name} where id % 1000 = 5")
    return Range(table=name, since=since, until=_read_head(spark, name))


def make_rewriting(spark: SparkSession, rows: int) -> Range:
    """Update every 1000th row, for which all files are written anew."""
    name = create_table(spark, rows, COPY_ON_WRITE, "rewritten")
    since = _read_head(spark, name)
    spark.sql(f"update {CATALOG}.{name} set s0 = concat(s0, 'X') where id % 1000 = 3")
    return Range(table=name, since=since, until=_read_head(spark, name))


def make_ten_commits(spark: SparkSession, rows: int) -> Range:
    """Update another 1 % of the rows, ten times."""
    name = create_table(spark, rows, COPY_ON_WRITE, "ten")
    since = _read_head(spark, name)
    for commit in range(10):
        spark.sql(f"update {CATALOG}.{name} set s1 = concat(s1, 'Y') where id % 100 = {commit}")
    return Range(table=name, since=since, until=_read_head(spark, name))


def make_compaction(spark: SparkSession, rows: int) -> Range:
    """Write all files anew."""
    name = create_table(spark, rows, COPY_ON_WRITE, "compacted")
    since = _read_head(spark, name)
    spark.sql(
        f"call {CATALOG}.system.rewrite_data_files(table => '{name}', "
        "options => map('rewrite-all', 'true'))"
    )
    return Range(table=name, since=since, until=_read_head(spark, name))


def make_upserts(spark: SparkSession, rows: int) -> Range:
    """Write every 1000th row anew as streams do, by an equality delete for each key, which concern
    all older files: ten times before the range, once in it."""
    name = create_table(spark, rows, MERGE_ON_READ, "upserted")
    for commit in range(_EARLIER):
        _upsert(spark, name, range(commit, rows, 1000))
    since = _read_head(spark, name)
    _upsert(spark, name, range(_EARLIER, rows, 1000))
    return Range(table=name, since=since, until=_read_head(spark, name))


def _upsert(spark: SparkSession, name: str, keys: range) -> None:
    before = _read_head(spark, name)
    table = IcebergTable.load(spark, CATALOG, name)
    table.java.newRowDelta().addDeletes(_write_equality_deletes(table, keys)).commit()
    columns = spark.table(f"{CATALOG}.{name}").columns
    shown = ", ".join("concat(s0, 'Z')" if column == "s0" else column for column in columns)
    spark.sql(
        f"insert into {CATALOG}.{name} select {shown} from {CATALOG}.{name} "
        f"version as of {before} where id % {keys.step} = {keys.start}"
    )


def _write_equality_deletes(table: IcebergTable, keys: range) -> Any:
    """Return the Java delete file for these values of `id`, field 1, of an unpartitioned table."""
    bridge, java = table.bridge, table.java
    column = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    path = f"{java.location()}/data/equal-{keys.start}.parquet"
    made = pa.table({"id": pa.array(keys, pa.int64())}, pa.schema([column]))
    pq.write_table(made, path.removeprefix("file:"))
    metadata = bridge.get_statics("org.apache.iceberg.FileMetadata")
    builder = metadata.deleteFileBuilder(java.spec()).ofEqualityDeletes(make_int_array(bridge, [1]))
    config = bridge.get_statics("org.apache.iceberg.MetricsConfig").getDefault()
    return describe_file(table, builder, path, config)


def make_wide_export(spark: SparkSession, rows: int, columns: int) -> Range:
    """Create a table of so many columns: half of them texts, the others numbers."""
    half, quarter = columns // 2, columns // 4
    made = build_columns(half, quarter, columns - 1 - half - quarter)
    name = create_table(spark, rows, COPY_ON_WRITE, f"wide{columns}", columns=made)
    return Range(table=name, since=None, until=_read_head(spark, name))


def build_columns(
    texts: int = TEXTS, numbers: int = NUMBERS, counts: int = COUNTS
) -> dict[str, str]:
    """Return the expressions of columns by their names, made of `id`, which is the first."""
    columns = {"id": "id"}
    for at in range(texts):
        hashes = f"hex(xxhash64(id, {at})), hex(xxhash64({at}, id))"
        columns[f"s{at}"] = f"substring(lower(concat({hashes})), 1, 24)"
    columns |= {f"d{at}": f"cast(id * {at + 1} + 0.5 as double)" for at in range(numbers)}
    columns |= {f"i{at}": f"cast(id % {at + 7} as int)" for at in range(counts)}
    return columns


def create_table(
    spark: SparkSession,
    rows: int,
    mode: str,
    table: str,
    files: int = FILES,
    *,
    columns: Mapping[str, str] | None = None,
) -> str:
    """Create a table of format 3 with these columns, or the 20; return its name in the catalog."""
    columns = columns or build_columns()
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("update", "delete", "merge"))
    rows_of = spark.range(0, rows, 1, files).selectExpr(
        *(f"{made} as {name}" for name, made in columns.items())
    )
    described = ", ".join(f"{name} {kind}" for name, kind in rows_of.dtypes)
    spark.sql(
        f"create table {CATALOG}.db.{table} ({described}) using iceberg tblproperties("
        f"'format-version' = '3', 'write.distribution-mode' = 'none', {modes})"
    )
    rows_of.writeTo(f"{CATALOG}.db.{table}").append()
    return f"db.{table}"


def _read_head(spark: SparkSession, name: str) -> int:
    (row,) = spark.sql(
        f"select snapshot_id from {CATALOG}.{name}.refs where name = 'main'"
    ).collect()
    return int(row["snapshot_id"])
