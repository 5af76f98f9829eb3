"""What a task holds is bounded by its requests under way, as `worker_memory` reckons with it."""

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icdc_spark.opensearch.bulk.worker_memory import (
    COPIES,
    MIB,
    REQUEST_BYTES,
    WORKER_BYTES,
    WORKERS,
    compute_cost,
    compute_limit,
)
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Delay
from icdc_testing.target import sink_cases as sink

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


@pytest.mark.usefixtures("index")
def test_rows_that_are_larger_than_a_request_are_sent_within_the_same_budget(
    proxy: FaultProxy,
) -> None:
    seconds, rows, most, max_bytes = 0.5, 10, 4, MIB
    proxy.add(Delay(seconds), path="_bulk", times=None)
    # A text of 3 MiB would be refused as too long for a keyword.
    lines = [sink.upsert(f"k{n}", {"s": ["x" * 8_000] * 400}) for n in range(rows)]
    aim = sink.make_target(proxy.url, max_bytes=max_bytes, max_in_flight=most)
    result = sink.run_task(sink.make_batches(lines, rows=1), aim)
    assert (result.error, result.upserted, result.requests) == (None, rows, rows)
    sent = [seen for seen in proxy.list_requests("_bulk") if seen.body]
    for first in sent:
        # Each takes longer than the time between them: they were under way together.
        together = [one for one in sent if 0 <= one.arrived - first.arrived < seconds]
        taken = sum(compute_cost(len(one.body)) for one in together)
        assert taken <= compute_limit(most, max_bytes, None)


def test_a_task_that_reads_and_writes_in_python_has_two_workers(spark: SparkSession) -> None:
    def add_process(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            known = batch.column("pids")[0].as_py() if "pids" in batch.schema.names else ""
            yield pa.record_batch({"pids": pa.array([f"{known} {os.getpid()}"])})

    numbers = spark.range(0, 1, 1, 1)
    read = numbers.mapInArrow(add_process, "pids string")
    (row,) = read.mapInArrow(add_process, "pids string").collect()
    assert len(set(row["pids"].split())) == WORKERS


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
