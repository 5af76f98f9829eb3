"""What Spark's Python workers start with."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _note_start(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        searched = {*sys.path, *sys.path_importer_cache}
        archives = [entry for entry in searched if Path(entry).is_file()]
        missing = {"icdc_spark.opensearch.bulk.sink", "pyspark.worker"} - sys.modules.keys()
        yield pa.RecordBatch.from_pydict({"found": [f"{archives} {missing}"]})


def test_a_worker_looks_for_no_module_in_archives_and_has_its_own_loaded(
    spark: SparkSession,
) -> None:
    frame = spark.range(0, 4, 1, 2).mapInArrow(_note_start, "found string")
    assert {row["found"] for row in frame.collect()} == {"[] set()"}
