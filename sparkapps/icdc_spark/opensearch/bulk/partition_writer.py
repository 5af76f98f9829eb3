"""The worker's side of the sink: record batches in, counts of what became of them out.

Reading goes on while requests are under way; at most `max_in_flight` of them, so that memory is
bounded by (max_in_flight + 1) requests whatever the partition's size. It must not know Spark.
"""

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pyarrow as pa

from icdc_api.errors import IcdcError
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.sender import Sender
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.wire.operations import Assembler, Operations


def write_batches(
    batches: Iterator[pa.RecordBatch], target: BulkTarget
) -> Iterator[PartitionResult]:
    """Write the operations in the columns `line` and `expect`; yield what became of them.

    An IcdcError is in it, never raised. It comes in parts, one at the end and one whenever
    OpenSearch has done something for `progress_seconds`: by them the driver sees that the task goes
    on. After an error no further request is begun; those under way are awaited, because they may
    be applied.
    """
    try:
        sender = Sender(target)
    except IcdcError as error:
        failed = PartitionResult()
        failed.fail(error)
        yield failed
        return
    try:
        with ThreadPoolExecutor(target.max_in_flight, thread_name_prefix="bulk") as pool:
            try:
                yield from _send_all(_assemble_requests(batches, target), sender, pool, target)
            finally:
                # A task that is killed while it reads must not wait for the retries of others.
                sender.stop()
    finally:
        sender.close()


def _send_all(
    requests: Iterator[Operations],
    sender: Sender,
    pool: ThreadPoolExecutor,
    target: BulkTarget,
) -> Iterator[PartitionResult]:
    pending: set[Future[PartitionResult]] = set()
    result, yielded_at = PartitionResult(), time.monotonic()
    seconds = target.progress_seconds
    is_last = False
    while pending or not is_last:
        # Before the next record batch is read: memory holds what is under way and one more.
        if is_last or len(pending) >= target.max_in_flight:
            # Also after an error: what is under way may be applied, and has to be counted.
            pending = _collect(pending, result, seconds)
            # Checked after the wait: the request that was awaited may have brought the error.
            is_last = is_last or result.error is not None
        elif (request := next(requests, None)) is None:
            is_last = True
        else:
            pending.add(pool.submit(sender.send, request))
        if sender.progressed.is_set() and time.monotonic() - yielded_at >= seconds:
            sender.progressed.clear()
            yield result
            result, yielded_at = PartitionResult(), time.monotonic()
    yield result


def _assemble_requests(
    batches: Iterator[pa.RecordBatch], target: BulkTarget
) -> Iterator[Operations]:
    max_operations, max_bytes = target.request_limits
    assembler = Assembler(max_bytes, max_operations)
    for batch in batches:
        yield from assembler.add(batch)
    yield from assembler.take_rest()


def _collect(
    pending: set[Future[PartitionResult]], result: PartitionResult, seconds: float
) -> set[Future[PartitionResult]]:
    """Wait for at least one request, or some seconds; return those still under way."""
    done, left = wait(pending, timeout=seconds, return_when=FIRST_COMPLETED)
    for future in done:
        result.merge(future.result())
    return left
