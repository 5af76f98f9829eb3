"""The worker's side of the sink: record batches in, counts of what became of them out.

Reading goes on while requests are under way: at most `max_in_flight` of them, and no more bytes
than the task has a budget for (`worker_memory`). So memory is bounded by that budget and the next
request, whatever the size of the partition and of its rows. It must not know Spark.
"""

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import pyarrow as pa

from icdc_api.errors import IcdcError
from icdc_api.job.resources import ResourceKind
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.sender import Sender
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.bulk.worker_memory import RequestBudget, measure_worker, open_budget
from icdc_spark.opensearch.wire.operations import Assembler, Operations
from icdc_spark.reporting.scratch_volumes import measure_scratch


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
    pending = _Pending(open_budget(target), target.progress_seconds)
    result, yielded_at = PartitionResult(), time.monotonic()
    request: Operations | None = None
    is_last = False
    while pending.count or request is not None or not is_last:
        # Before the next record batch is read: memory holds what is under way and one more.
        if request is None and not is_last and pending.count < target.max_in_flight:
            request = next(requests, None)
            is_last = request is None
        elif request is not None and pending.budget.has_room(len(request.body)):
            pending.add(pool.submit(sender.send, request), len(request.body))
            request = None
        else:
            # Also after an error: what is under way may be applied, and has to be counted.
            pending.collect(result)
            # Checked after the wait: the request that was awaited may have brought the error.
            if result.error is not None:
                request, is_last = None, True
        if sender.progressed.is_set() and time.monotonic() - yielded_at >= target.progress_seconds:
            sender.progressed.clear()
            yield result
            result, yielded_at = PartitionResult(), time.monotonic()
    most = [pending.budget.peak, pending.budget.limit]
    result.resources = {ResourceKind.BULK_REQUESTS: most, **measure_worker(), **measure_scratch()}
    yield result


def _assemble_requests(
    batches: Iterator[pa.RecordBatch], target: BulkTarget
) -> Iterator[Operations]:
    max_operations, max_bytes = target.request_limits
    assembler = Assembler(max_bytes, max_operations)
    for batch in batches:
        yield from assembler.add(batch)
    yield from assembler.take_rest()


class _Pending:
    """The requests of one task that are under way."""

    def __init__(self, budget: RequestBudget, seconds: float) -> None:
        """`seconds`: how long `collect` waits at most."""
        self.budget = budget
        self._seconds = seconds
        self._sizes: dict[Future[PartitionResult], int] = {}

    @property
    def count(self) -> int:
        """The number of requests."""
        return len(self._sizes)

    def add(self, begun: Future[PartitionResult], size: int) -> None:
        """Add a request of `size` bytes."""
        self._sizes[begun] = size
        self.budget.take(size)

    def collect(self, result: PartitionResult) -> None:
        """Wait for at least one request, or some seconds; add what has ended to the result."""
        done, _ = wait(self._sizes, timeout=self._seconds, return_when=FIRST_COMPLETED)
        for future in done:
            self.budget.give_back(self._sizes.pop(future))
            result.merge(future.result())
