"""Tables that pyiceberg and Spark write in turn; Parquet files as any library may write them."""

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyspark.sql import SparkSession

from icdc_spark.iceberg.table.tables import SCHEMA_PARSER
from icdc_testing.lake.catalogs.head_lake import end_threads
from icdc_testing.lake.lake import CATALOG, Lake
from icdc_testing.runs.following import Follower
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

SHARED = "shared"

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("flag", pa.bool_()),
        pa.field("n", pa.int64()),
        pa.field("d", pa.float64()),
        pa.field("small", pa.decimal128(9, 2)),
        pa.field("huge", pa.decimal128(38, 10)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("s", pa.string()),
        pa.field("b", pa.binary()),
        pa.field("st", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        pa.field("li", pa.list_(pa.decimal128(4, 2))),
        pa.field("m", pa.map_(pa.string(), pa.int64())),
    ]
)
VALUES: Mapping[str, Any] = {
    "flag": True,
    "n": 1 << 60,
    "d": -0.0,
    "small": Decimal("-12.50"),
    "huge": Decimal("1234567890123456789012345678.0123456789"),
    "day": dt.date(1, 1, 1),
    "at": dt.datetime(2024, 3, 15, 14, 30, tzinfo=dt.UTC),
    "local": dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    "s": "\N{GRINNING FACE}é",
    "b": b"\0\xff\x10",
    "st": {"x": 1, "y": ["a", None]},
    "li": [Decimal("1.50"), None],
    "m": {"k": 1, "n": None},
}


def make_rows(*ids: int, **values: Any) -> pa.Table:
    """Return rows with these ids; rows of odd ids are null except for `values`."""
    records = [{"id": row_id, **({} if row_id % 2 else VALUES), **values} for row_id in ids]
    return pa.Table.from_pylist(records, COLUMNS)


def expect_document(at: int) -> oracle.Document:
    """Return the document of one of `make_rows`."""
    return oracle.convert_fields({"id": at, **({} if at % 2 else VALUES)})


@contextmanager
def create_shared_catalog(session: SparkSession, folder: Path) -> Iterator[tuple[Lake, SqlCatalog]]:
    """Create a catalog in a SQLite file that Spark and pyiceberg both write to."""
    database, warehouse = folder / "catalog.db", f"file://{folder}/warehouse"
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{database}",
        ".warehouse": warehouse,
        ".cache-enabled": "false",
    }
    catalog = SqlCatalog(SHARED, uri=f"sqlite:///{database}", warehouse=warehouse)
    for key, value in properties.items():
        session.conf.set(f"spark.sql.catalog.{SHARED}{key}", value)
    try:
        yield Lake(session, SHARED), catalog
    finally:
        catalog.engine.dispose()
        end_threads()


def test_a_table_that_pyiceberg_and_spark_write_in_turn_is_followed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with create_shared_catalog(spark, tmp_path) as (lake, catalog):
        name = "db.orders"
        catalog.create_namespace("db")
        table = catalog.create_table(name, COLUMNS, properties={"format-version": "2"})
        follower = Follower(lake, name)

        table.append(make_rows(*range(6)))
        assert len(follower.apply_newest()) == 6
        table.overwrite(make_rows(2, s="two"), overwrite_filter="id = 2")
        assert follower.apply_newest() == [("u", "2")]
        table.delete("id = 3")
        assert follower.apply_newest() == [("d", "3")]
        table.upsert(make_rows(4, 7, s="upserted"), join_cols=["id"])
        assert follower.apply_newest() == [("c", "7"), ("u", "4")]
        lake.sql(f"update {SHARED}.{name} set s = 'by Spark', m = null where id = 0")
        lake.sql(f"delete from {SHARED}.{name} where id = 5")
        assert follower.apply_newest() == [("d", "5"), ("u", "0")]
        table.refresh()
        table.overwrite(make_rows(1, 8))
        assert follower.apply_newest() == [("c", "8"), *[("d", row_id) for row_id in "0247"]]
        position = tmp_path / "brought.parquet"
        pq.write_table(make_rows(9, 11).select(["id", "s", "li"]), position)
        table.add_files([f"file://{position}"])
        assert follower.apply_newest() == [("c", "11"), ("c", "9")]


WAYS: list[dict[str, Any]] = [
    *({"compression": codec} for codec in ("none", "snappy", "gzip", "zstd", "lz4")),
    {"data_page_version": "2.0"},
    {"use_dictionary": False},
    {"use_compliant_nested_type": False},
    {"store_decimal_as_integer": True},
    {"write_page_index": True, "row_group_size": 1},
    {"write_statistics": False, "write_page_checksum": True},
    {"use_dictionary": False, "column_encoding": {"n": "DELTA_BINARY_PACKED"}},
    {"use_dictionary": False, "column_encoding": {"s": "DELTA_BYTE_ARRAY"}},
    {"use_dictionary": False, "column_encoding": {"s": "DELTA_LENGTH_BYTE_ARRAY"}},
    {"use_dictionary": False, "column_encoding": {"d": "BYTE_STREAM_SPLIT"}},
]
"""Options of pyarrow."""


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_parquet_files_are_read_however_they_were_written(lake: Lake, way: dict[str, Any]) -> None:
    name = lake.choose_name()
    catalog = f"{CATALOG}.{name}"
    described = "id int not null, flag boolean, n bigint, d double, small decimal(9,2), "
    described += "huge decimal(38,10), day date, at timestamp, local timestamp_ntz, s string, "
    described += "b binary, st struct<x:int,y:array<string>>, li array<decimal(4,2)>, "
    described += "m map<string,bigint>"
    lake.sql(f"create table {catalog} ({described}) using iceberg")
    table = lake.load_table(name)
    parser = table.bridge.get_statics(SCHEMA_PARSER)
    schema = Schema.model_validate_json(str(parser.toJson(table.java.schema())))
    position = Path(str(table.java.location()).removeprefix("file:")) / "data" / "brought.parquet"
    position.parent.mkdir(exist_ok=True)
    pq.write_table(make_rows(0, 1, 2).cast(schema_to_pyarrow(schema)), position, **way)
    files = table.bridge.get_statics("org.apache.iceberg.DataFiles")
    builder = files.builder(table.java.spec()).withPath(f"file:{position}").withFormat("parquet")
    file = builder.withFileSizeInBytes(position.stat().st_size).withRecordCount(3).build()
    table.java.newAppend().appendFile(file).commit()

    (by_spark,) = lake.export(name)

    types = table.bridge.get_statics("org.apache.iceberg.types.Types$TimeType")
    table.java.updateSchema().addColumn("t", types.get()).commit()
    table.java.newAppend().commit()
    (by_arrow,) = lake.export(name)
    records = {op.id: op.doc for op in by_spark.ops}
    assert {op.id: op.doc for op in by_arrow.ops} == records
    documents = {key: json.loads(doc or "") for key, doc in records.items()}
    oracle.assert_equal(documents, {str(at): expect_document(at) for at in range(3)})
