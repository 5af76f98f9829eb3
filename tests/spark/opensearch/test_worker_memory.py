"""What a task holds is bounded by its requests under way, as `worker_memory` reckons with it."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icdc_spark.opensearch.bulk.worker_memory import COPIES, MIB, REQUEST_BYTES, WORKER_BYTES
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Delay

from .sink_memory import ROW_BYTES, measure_peak

pytestmark = pytest.mark.spark

MAX_BYTES = 4 * MIB
ROWS_PER_REQUEST = MAX_BYTES // ROW_BYTES


@pytest.mark.usefixtures("index")
def test_each_further_request_takes_what_the_budget_of_a_worker_reckons_with(
    proxy: FaultProxy,
) -> None:
    # So slow that as many requests as allowed are under way at a time.
    proxy.add(Delay(0.5), path="_bulk", times=None)
    one, eight = (
        measure_peak(proxy.url, ROWS_PER_REQUEST * 3 * requests, MAX_BYTES, requests)
        for requests in (1, 8)
    )
    reckoned = 7 * (COPIES * MAX_BYTES + REQUEST_BYTES)
    assert 7 * MAX_BYTES < eight - one < reckoned
    assert one < WORKER_BYTES


def test_a_worker_gets_large_rows_in_batches_of_bounded_bytes(spark: SparkSession) -> None:
    row_bytes, rows = 100_000, 400
    lines = spark.range(0, rows, 1, 1).selectExpr(f"repeat('x', {row_bytes}) as line")

    def measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"bytes": pa.array([batch.nbytes], pa.int64())})

    measured = [row["bytes"] for row in lines.mapInArrow(measure, "bytes long").collect()]
    assert sum(measured) > rows * row_bytes
    # A batch ends with the row that reaches the limit.
    assert max(measured) < 8 * MIB + 2 * row_bytes
