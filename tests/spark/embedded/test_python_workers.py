"""What Spark's Python workers start with."""

import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _started_with(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        jars = [entry for entry in (*sys.path, *sys.path_importer_cache) if entry.endswith(".jar")]
        loaded = "icdc_spark.opensearch.sink" in sys.modules
        yield pa.RecordBatch.from_pydict({"jars": [len(jars)], "loaded": [loaded]})


def test_a_worker_looks_for_no_python_in_jars_and_has_its_modules_loaded(
    spark: SparkSession,
) -> None:
    frame = spark.range(0, 4, 1, 2).mapInArrow(_started_with, "jars long, loaded boolean")
    assert {tuple(row) for row in frame.collect()} == {(0, True)}
