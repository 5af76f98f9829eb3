"""A task that fails on a value of a row: what the run says of it does not hold the value."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from icdc_api.errors import Bug, FilterInvalid, IcdcError
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors

pytestmark = pytest.mark.spark

VALUE = "secret-4711"


def parse_in_python(rows: DataFrame) -> DataFrame:
    def parse(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            int(batch.column(0).to_pylist()[0])
            yield batch

    return rows.mapInArrow(parse, "cell string")


def cast_in_arrow(rows: DataFrame) -> DataFrame:
    def cast(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            batch.column(0).cast("int32")
            yield batch

    return rows.mapInArrow(cast, "cell string")


def decode_in_java(rows: DataFrame) -> DataFrame:
    return rows.select(F.expr("reflect('java.lang.Integer', 'decode', cell)"))


def cast_in_sql(rows: DataFrame) -> DataFrame:
    return rows.select(F.col("cell").cast("int"))


FAILURES: dict[str, tuple[Callable[[DataFrame], DataFrame], type[IcdcError], str]] = {
    "python": (parse_in_python, Bug, "ValueError at test_row_values.py"),
    "arrow": (cast_in_arrow, Bug, "in a task"),
    "java": (decode_in_java, Bug, "NumberFormatException"),
    "sql": (cast_in_sql, FilterInvalid, "[CAST_INVALID_INPUT]"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_of_a_task_is_reported_without_the_value_on_which_it_failed(
    spark: SparkSession, name: str
) -> None:
    fail, kind, shown = FAILURES[name]
    rows = spark.createDataFrame([(VALUE,)], "cell string").repartition(2)
    with pytest.raises(kind) as caught, translate_source_errors("shop.orders"):
        fail(rows).collect()
    assert VALUE not in caught.value.message
    assert shown in caught.value.message
