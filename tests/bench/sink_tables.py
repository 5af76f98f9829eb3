"""The tables of the benchmark of the sink: three shapes of documents."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from icdc_testing.bench.changelog import CATALOG
from icdc_testing.bench.changelog_ranges import build_columns

FILES = 8


@dataclass(frozen=True, kw_only=True)
class DocumentShape:
    """A kind of document."""

    columns: Mapping[str, str]
    """The expression of each column by its name, made of `id`."""
    documents: int
    """As many as a node of one core takes in some seconds."""


def _make_text(number: int, length: int) -> str:
    hashes = ", ".join(f"hex(xxhash64(id, {number}, {part}))" for part in range(-(-length // 16)))
    return f"substring(lower(concat({hashes})), 1, {length})"


_WIDE_KINDS = ("id * {n}", "cast(id as double) / {n}", "concat('value ', id % {n})", "id % {n} = 0")

SHAPES: Mapping[str, DocumentShape] = {
    "0.5 KB, 20 fields": DocumentShape(
        columns=build_columns(),
        documents=250_000,
    ),
    "0.9 KB, 22 fields": DocumentShape(
        columns={
            "id": "id",
            **{f"s{at}": _make_text(at, 46) for at in range(12)},
            **{f"d{at}": f"cast(id * {at + 1} + 0.5 as double)" for at in range(4)},
            **{f"i{at}": f"cast(id % {at + 7} as int)" for at in range(4)},
            "at": "timestamp_seconds(1700000000 + id)",
        },
        documents=120_000,
    ),
    "200 fields": DocumentShape(
        columns={
            "id": "id",
            **{f"c{n}": _WIDE_KINDS[n % 4].format(n=n + 1) for n in range(199)},
        },
        documents=25_000,
    ),
}


def create_shaped_table(
    spark: SparkSession, shape: DocumentShape, number: int, documents: int
) -> str:
    """Create a table of format 2 in eight Parquet files; return its name below the catalog."""
    rows = spark.range(0, documents, 1, FILES).selectExpr(
        *(f"{made} as {name}" for name, made in shape.columns.items())
    )
    name = f"db.shape{number}"
    rows.writeTo(f"{CATALOG}.{name}").using("iceberg").create()
    return name
