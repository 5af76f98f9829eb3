"""Writes requests of operations to the target, and what it refuses to the dead letters.

The one place that knows both. It must not know Arrow, Spark or HTTP.
"""

import json
from collections.abc import Sequence
from threading import Event, Lock

from icdc_api import naming
from icdc_api.errors import Bug, DeadLetterLimit, Gap, IcdcError
from icdc_api.sink import DeadLetterPolicy
from icdc_spark.opensearch.bulk.bulk_client import Courier, Delivered, Refused
from icdc_spark.opensearch.bulk.concurrency import Gate
from icdc_spark.opensearch.bulk.owner_watch import OwnerWatch
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.client.connection import client
from icdc_spark.opensearch.client.http import BulkEndpoint
from icdc_spark.opensearch.client.tasks import opaque_id
from icdc_spark.opensearch.stores import dead_letters
from icdc_spark.opensearch.stores.dead_letters import Origin
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_spark.opensearch.wire.operations import (
    CREATE,
    DELETE,
    MAX_OPERATIONS,
    Operations,
    delete_entry,
    operations,
)


class Sender:
    """Sends for one task; `send` may be called by several threads."""

    def __init__(self, target: BulkTarget) -> None:
        self._target = target
        self._stopped = Event()
        self._endpoint = BulkEndpoint(
            target.connection,
            opaque_id=opaque_id(target.alias, target.epoch, target.ordinal),
            pool=target.max_in_flight,
        )
        self._owner = OwnerWatch(target)
        self._gate = Gate(target.max_in_flight)
        self._lock = Lock()
        self._new_letters = 0
        self._letters_index_exists = False

    def send(self, requested: Operations) -> PartitionResult:
        """Everything that came of one request's worth of operations; never raises an IcdcError."""
        delivered = Delivered()
        try:
            courier = self._courier(self._target.known_dead_letter_ids)
            courier.deliver(self._target.index, requested, delivered)
            if delivered.refused:
                self._store_letters(delivered.refused, delivered.result)
            if delivered.written:
                self._resolve(delivered.written, delivered.result)
        except IcdcError as error:
            delivered.result.fail(error)
            self._stopped.set()
        return delivered.result

    @property
    def max_in_flight(self) -> int:
        """How many requests may be under way at a time."""
        return self._target.max_in_flight

    @property
    def _aside_version(self) -> int:
        """What dead letters are stored and older documents removed with: one below the batch's.

        Above every version of an older batch, and such that the batch, repeated when its row is
        taken, writes the document and removes the letter.
        """
        return self._target.version - 1

    def stop(self) -> None:
        """Ends every wait for another attempt; what is under way is answered or fails."""
        self._stopped.set()

    def close(self) -> None:
        """Closes the sockets."""
        self._endpoint.close()
        self._owner.close()

    def _courier(self, watched: frozenset[str] = frozenset()) -> Courier:
        return Courier(
            endpoint=self._endpoint,
            connection=self._target.connection,
            version=self._target.version,
            gate=self._gate,
            stopped=self._stopped,
            retry_seconds=self._target.retry_seconds,
            check_owner=self._owner.check,
            watched=watched,
            outranked_is_foreign=self._target.outranked_is_foreign,
        )

    def remove_older(self, ids: Sequence[str]) -> PartitionResult:
        """Removes what the index still holds under the ids of refused rows; its traffic."""
        result = PartitionResult()
        for start in range(0, len(ids), MAX_OPERATIONS):
            part = ids[start : start + MAX_OPERATIONS]
            self._aside(self._target.index, self._deletes(part, self._aside_version), result)
        return result

    def _store_letters(self, refused: list[Refused], result: PartitionResult) -> None:
        """Stores the refused rows; older documents under their ids are removed by the driver.

        In this order a crash between leaves an old document, which the replay removes; the other
        order could lose the only trace of a row. And the driver sees the whole batch: where most
        of it is refused, the fault is not in the rows and nothing may be removed.
        """
        self._check_limit(refused)
        self._ensure_letters_index()
        target = self._target
        origin = Origin(target.table, target.snapshot_id, target.ordinal, self._aside_version)
        letters = [
            dead_letters.letter(each.document_id, each.operation.document(0), each.answer, origin)
            for each in refused
        ]
        name = naming.dead_letters_index(target.alias)
        stored = self._aside(name, operations(letters, CREATE * len(letters)), result)
        if stored.refused:
            raise Bug(f"A dead letter was refused by {name!r} ({stored.refused[0].answer.kind}).")
        result.dead_letters += len(refused)
        for each in refused:
            result.refused.setdefault(each.answer.kind, []).append(each.document_id)

    def _check_limit(self, refused: list[Refused]) -> None:
        target = self._target
        known = target.known_dead_letter_ids
        with self._lock:
            self._new_letters += sum(each.document_id not in known for each in refused)
            total = len(known) + self._new_letters
        last = refused[-1]
        which = f"document {json.dumps(last.document_id)} ({last.answer.kind})"
        if target.dead_letter_policy is DeadLetterPolicy.STOP:
            raise DeadLetterLimit(
                f"Index {target.index!r} refused {which}, and deadLetters.policy is Stop."
            )
        if total > target.max_dead_letters:
            raise DeadLetterLimit(
                f"Index {target.index!r} refused more rows than deadLetters.maxRows "
                f"({target.max_dead_letters}); the last was {which}."
            )

    def _ensure_letters_index(self) -> None:
        with self._lock:
            if self._letters_index_exists:
                return
            admin = client(self._target.connection)
            try:
                dead_letters.ensure_index(
                    admin, Ownership(self._target.pipeline, self._target.alias)
                )
            finally:
                admin.close()
            self._letters_index_exists = True

    def _resolve(self, ids: list[str], result: PartitionResult) -> None:
        """Removes dead letters of older batches under ids that were written or deleted now."""
        try:
            name = naming.dead_letters_index(self._target.alias)
            removed = self._aside(name, self._deletes(ids, self._target.version), result)
        except Gap:
            # Somebody removed the dead letters: there is nothing left to resolve.
            return
        result.resolved += removed.result.deleted

    def _deletes(self, ids: Sequence[str], version: int) -> Operations:
        entries = [delete_entry(each, version) for each in ids]
        return operations(entries, DELETE * len(ids))

    def _aside(self, index: str, extra: Operations, result: PartitionResult) -> Delivered:
        """Delivers operations that are not rows: only traffic counts, not what they did."""
        delivered = Delivered()
        try:
            self._courier().deliver(index, extra, delivered)
        finally:
            traffic = delivered.result
            result.requests += traffic.requests
            result.bytes += traffic.bytes
            result.retries += traffic.retries
            result.ambiguous |= traffic.ambiguous
        return delivered
