"""The worker's side of the sink: record batches in, one PartitionResult out.

Reading goes on while requests are under way; at most `max_in_flight` of them, so that memory is
bounded by (max_in_flight + 1) requests whatever the partition's size. It must not know Spark.
"""

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pyarrow as pa

from icdc_api.errors import IcdcError
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.sender import Sender
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.wire.operations import Assembler, Operations

__all__ = ["BulkTarget", "PartitionResult", "write_batches"]


def write_batches(batches: Iterator[pa.RecordBatch], target: BulkTarget) -> PartitionResult:
    """Write the operations in the columns `line` and `expect`; an IcdcError is in the result.

    After an error no further request is begun; those under way are awaited, because they may be
    applied.
    """
    result = PartitionResult()
    try:
        sender = Sender(target)
    except IcdcError as error:
        result.fail(error)
        return result
    try:
        with ThreadPoolExecutor(target.max_in_flight, thread_name_prefix="bulk") as pool:
            try:
                _send_all(_requests(batches, target.max_bytes), sender, pool, result)
            finally:
                # A task that is killed while it reads must not wait for the retries of others.
                sender.stop()
    finally:
        sender.close()
    return result


def _send_all(
    requests: Iterator[Operations],
    sender: Sender,
    pool: ThreadPoolExecutor,
    result: PartitionResult,
) -> None:
    pending: set[Future[PartitionResult]] = set()
    for request in requests:
        # Before the next record batch is read: memory holds what is under way and one more.
        if len(pending) >= sender.max_in_flight:
            pending = _collect(pending, result)
        # Checked after the wait: the request that was awaited may have brought the error.
        if result.error is not None:
            break
        pending.add(pool.submit(sender.send, request))
    # Also after an error: what is under way may be applied, and has to be counted.
    while pending:
        pending = _collect(pending, result)


def _requests(batches: Iterator[pa.RecordBatch], max_bytes: int) -> Iterator[Operations]:
    assembler = Assembler(max_bytes)
    for batch in batches:
        yield from assembler.add(batch)
    yield from assembler.rest()


def _collect(
    pending: set[Future[PartitionResult]], result: PartitionResult
) -> set[Future[PartitionResult]]:
    """Wait for at least one request; return those still under way."""
    done, left = wait(pending, return_when=FIRST_COMPLETED)
    for future in done:
        result.merge(future.result())
    return left
