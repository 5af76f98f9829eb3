"""Sends requests of operations to the target, and turns what it refuses into dead letters.

The one place that knows both. It must not know Arrow, Spark or HTTP.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event

from icdc_api.errors import IcdcError, TargetInvalid, TargetUnavailable
from icdc_spark.opensearch.bulk.bulk_client import BulkClient
from icdc_spark.opensearch.bulk.concurrency import ConcurrencyLimit
from icdc_spark.opensearch.bulk.dead_letter_writer import DeadLetterWriter
from icdc_spark.opensearch.bulk.delivery import Delivery, RefusedOperation
from icdc_spark.opensearch.bulk.owner_watch import OwnerWatch
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.target import PROGRESS_SECONDS, BulkTarget
from icdc_spark.opensearch.client.http import BulkEndpoint
from icdc_spark.opensearch.client.tasks import build_opaque_id
from icdc_spark.opensearch.stores.read_back import ReadBack
from icdc_spark.opensearch.wire.item_outcome import FIELD_FAILED, ItemAnswer
from icdc_spark.opensearch.wire.operations import (
    DELETE,
    Operations,
    build_delete_entry,
    build_operations,
)


class Sender:
    """Sends for one task; `send` may be called by several threads.

    A refused row is stored as a dead letter first; the driver then removes the older document
    under its id (`remove_older`). A crash between leaves an old document, which the replay
    removes; the other order could lose the only trace of a row. And only the driver sees the whole
    batch: where most of it is refused, the fault is not in the rows and nothing may be removed.
    """

    def __init__(self, target: BulkTarget, note_progress: Callable[[], None] | None = None) -> None:
        """`note_progress` is called while a request waits for its turn; default: `progressed`."""
        self._target = target
        self.progressed = Event()
        """Set whenever OpenSearch has applied or refused an operation."""
        # Shared by all clients of the task: one error ends the waits of all its threads.
        self._stopped = Event()
        self._error: IcdcError | None = None
        self._note_progress = note_progress or self.progressed.set
        self._endpoint = BulkEndpoint(
            target.connection,
            opaque_id=build_opaque_id(target.alias, target.epoch, target.ordinal),
            pool=target.max_in_flight,
        )
        self._owner = OwnerWatch(target)
        self._watched = target.known_dead_letter_ids if target.settles_dead_letters else frozenset()
        ingest = target.ingest_pipeline
        self._pipeline = (ingest and ingest.name) or ""
        self._reader = (
            ReadBack(target.connection, target.index, ingest, pool=target.max_in_flight)
            if ingest
            else None
        )
        # One limit for rows and dead letters: the server that pushes back is the same.
        self._concurrency = ConcurrencyLimit(target.max_in_flight)
        self._dead_letters = DeadLetterWriter(target, self._deliver_extra)

    def send(self, requested: Operations) -> PartitionResult:
        """Write one request's worth of rows; an IcdcError is in the result, never raised."""
        delivery = Delivery()
        try:
            rows = self._build_bulk_client(watched=self._watched, pipeline=self._pipeline)
            sent, refused = requested.take_out_refused()
            delivery.refused.extend(map(_build_refused, refused))
            if len(sent):
                rows.deliver(self._target.index, sent, delivery)
                self._read_back(delivery)
            if delivery.refused:
                self._dead_letters.store(delivery.refused, delivery.result)
            # After the rows: removed before, a crash between would lose the only trace of a row.
            if delivery.written:
                self._dead_letters.remove(delivery.written, delivery.result)
        except IcdcError as error:
            delivery.result.fail(error)
            self._error = self._error or error
            # The batch has failed: other threads of the task need not go on trying.
            self._stopped.set()
        return delivery.result

    def stop(self) -> None:
        """End every wait for another attempt; requests under way are answered or fail."""
        self._stopped.set()

    def close(self) -> None:
        """Close the sockets."""
        self._endpoint.close()
        self._owner.close()
        if self._reader is not None:
            self._reader.close()
        self._dead_letters.close()

    def remove_older(
        self, ids: Sequence[str], routings: Mapping[str, str], *, are_new: bool
    ) -> PartitionResult:
        """Remove what the index still has under the ids of refused rows; return the counts.

        `routings` has those of ids that have one. `are_new`: no document is expected there.
        """
        result = PartitionResult()
        version = self._dead_letters.version
        # In parts, because the refused rows of a whole batch may be more than a request may hold.
        most, _ = self._target.request_limits
        for start in range(0, len(ids), most):
            part = ids[start : start + most]
            entries = [
                build_delete_entry(document_id, version, routings.get(document_id))
                for document_id in part
            ]
            extra = build_operations(entries, DELETE * len(entries))
            removed = self._deliver(self._build_bulk_client(), self._target.index, extra, result)
            result.removed += removed.result.deleted
            if are_new:
                # One that this batch wrote has a higher version, and stays.
                result.met_new += removed.result.found + removed.result.already_applied
        return result

    def _read_back(self, delivery: Delivery) -> None:
        """Raise TargetInvalid where the ingest pipeline has changed a document of a few."""
        if self._reader is None:
            return
        try:
            for operation in delivery.indexed:
                self._reader.check(operation.get_action(0), operation.get_document(0))
        except TargetInvalid:
            delivery.result.altered = True
            raise

    def _build_bulk_client(
        self,
        *,
        pipeline: str = "",
        watched: frozenset[str] = frozenset(),
        reports_conflicts: bool = False,
    ) -> BulkClient:
        return BulkClient(
            endpoint=self._endpoint,
            connection=self._target.connection,
            version=self._target.version,
            concurrency=self._concurrency,
            stopped=self._stopped,
            progressed=self.progressed,
            retry_seconds=self._target.retry_seconds,
            check_owner=self._owner.check,
            wait_turn=self._wait_turn,
            pipeline=pipeline,
            watched=watched,
            outranked_is_foreign=self._target.outranked_is_foreign,
            reports_conflicts=reports_conflicts,
        )

    def _wait_turn(self, operations: Operations) -> float:
        """Wait until the limits let the operations be sent; return the seconds.

        Raise the error that ended the task meanwhile.
        """
        if self._target.pace is None:
            return 0.0
        seconds = self._target.pace.reserve(len(operations), len(operations.body))
        sent_at = time.monotonic() + seconds
        while (left := sent_at - time.monotonic()) > 0:
            # It hangs nowhere, however long this takes.
            self._note_progress()
            if self._stopped.wait(min(left, PROGRESS_SECONDS)):
                raise self._error or TargetUnavailable("The task was ended.")
        return seconds

    def _deliver_extra(self, index: str, extra: Operations, result: PartitionResult) -> Delivery:
        """Deliver dead letters or their removals; conflicts are reported, not judged."""
        return self._deliver(self._build_bulk_client(reports_conflicts=True), index, extra, result)

    def _deliver(
        self, bulk_client: BulkClient, index: str, extra: Operations, result: PartitionResult
    ) -> Delivery:
        """Deliver operations that are not rows: `result` counts their traffic and nothing else."""
        delivery = Delivery()
        try:
            bulk_client.deliver(index, extra, delivery)
        finally:
            traffic = delivery.result
            result.requests += traffic.requests
            result.bytes += traffic.bytes
            result.retries += traffic.retries
            result.limited_seconds += traffic.limited_seconds
            result.ambiguous |= traffic.ambiguous
        return delivery


def _build_refused(operation: Operations) -> RefusedOperation:
    # Without the error of Spark, which quotes values: the document of the letter has them.
    reason = f"the expression of the field `{operation.get_failed_field(0)}` fails on this row"
    return RefusedOperation(operation, ItemAnswer(400, FIELD_FAILED, reason))
