"""Stores refused rows as dead letters, and removes them again once their keys are written.

A dead letter has the version of its batch minus one: above every version of an older batch, and
below that of the batch itself, which removes the letter where its row is taken when it is repeated.
So a plain bulk request settles nearly all of them. It conflicts where OpenSearch has a higher
version under the id; a deletion counts, whose version it remembers for `index.gc_deletes`:

    under the id                                 store the letter      remove the letter
    the very letter (the batch is repeated)      nothing to do         remove
    a letter of this batch, edited by hand       nothing to do         remove above its version
    a letter of an older batch, higher version   overwrite above it    remove above its version
    a letter of a newer batch                    Fenced                leave it
    deleted by hand, or by this batch            store above it        nothing to do
    deleted by a newer batch                     Fenced                nothing to do

Fenced only while a newer run may exist. Where the driver has seen that there is none
(`BulkTarget.outranked_is_foreign`), the higher version is from before icdc-state was lost, when
ordinals were higher, and the letter is stored above it.

It must not know why rows are refused, nor what is done about the documents under their ids.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

from icdc_api import naming
from icdc_api.errors import Bug, DeadLetterLimit, Fenced, Gap, TargetUnavailable
from icdc_api.spec.sink import DeadLetterPolicy
from icdc_spark.opensearch.bulk.delivery import Delivery, RefusedOperation, VersionConflict
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.client.connection import Client, open_client
from icdc_spark.opensearch.stores import dead_letters
from icdc_spark.opensearch.stores.dead_letters import Origin, StoredDeadLetter
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_spark.opensearch.wire.item_outcome import FIELD_FAILED
from icdc_spark.opensearch.wire.operations import (
    CREATE,
    DELETE,
    REFUSED_NEW,
    Operations,
    build_delete_entry,
    build_index_entry,
    build_operations,
)
from icdc_spark.protocol.state_document import compute_base_version

MAX_ROUNDS = 5
"""How often a conflict is answered with a higher version, before somebody else is to blame."""
_TOO_LARGE = 413
"""HTTP status of a request that is too large for OpenSearch, or for a proxy before it."""

AFTER_LIMIT = (
    "Correct the rows or the mapping and run icdc dead-letters replay, or raise the limit."
)
"""What an author does who meets the limit of dead letters."""

Deliver = Callable[[str, Operations, PartitionResult], Delivery]
"""Sends operations to an index, reports conflicts, and adds the traffic to the result."""


@dataclass(frozen=True)
class _Resend:
    """An operation to send again: because a higher version is there, or without the document."""

    operation: Operations
    """The operation as it was sent, or what is left of it."""
    version: int
    """The version to send it with now: one above what OpenSearch has, if it has one."""

    @property
    def document_id(self) -> str:
        return self.operation.get_document_id(0)


class DeadLetterWriter:
    """Writes the dead letters of one task; its methods may be called by several threads."""

    def __init__(self, target: BulkTarget, deliver: Deliver) -> None:
        self._target = target
        self._deliver = deliver
        self._index = naming.name_dead_letters_index(target.alias)
        self._lock = Lock()
        self._new_ids = 0
        self._index_exists = False
        self._admin: Client | None = None

    @property
    def version(self) -> int:
        """Return the version of dead letters, and of removals of older documents of their ids."""
        return self._target.version - 1

    def store(self, refused: Sequence[RefusedOperation], result: PartitionResult) -> None:
        """Store the refused rows, and count them in `result`.

        Raises DeadLetterLimit where the pipeline allows no more of them, Fenced where a newer
        batch has a letter of the same id.
        """
        # The limit first: with the policy Stop there is no index of dead letters at all.
        self._check_limit(refused)
        self._ensure_index()
        target = self._target
        origin = Origin(target.table, target.snapshot_id, target.ordinal, self.version)
        entries = [
            dead_letters.build_entry(
                row.document_id, row.operation.get_document(0), row.answer, origin
            )
            for row in refused
        ]
        self._repeat(build_operations(entries, CREATE * len(entries)), self._find_unstored, result)
        # Only now, when they are stored: the batch may advance over rows that are counted here.
        result.dead_letters += len(refused)
        for row in refused:
            result.refused.setdefault(row.answer.kind, []).append(row.document_id)
            if row.operation.expects in (CREATE, REFUSED_NEW):
                result.refused_new.append(row.document_id)
            routing = row.operation.get_routing(0)
            if routing is not None:
                result.routings[row.document_id] = routing

    def remove(self, ids: Sequence[str], result: PartitionResult) -> None:
        """Remove the dead letters of keys that this batch wrote or deleted, and count them."""
        # With the batch's own version, one above that of dead letters: one that an earlier attempt
        # of this batch stored is removed too, once its row is accepted.
        entries = [build_delete_entry(document_id, self._target.version) for document_id in ids]
        try:
            removed = self._repeat(
                build_operations(entries, DELETE * len(entries)), self._find_unremoved, result
            )
        except Gap:
            # Somebody removed the whole index of dead letters: none is left to remove.
            return
        result.resolved += removed

    def close(self) -> None:
        """Close the sockets."""
        if self._admin is not None:
            self._admin.close()

    def _repeat(
        self,
        pending: Operations,
        find_open: Callable[[Sequence[VersionConflict]], list[_Resend]],
        result: PartitionResult,
    ) -> int:
        """Send operations until no conflict matters; return the number of deletions."""
        deleted = 0
        # Two rounds are enough unless somebody writes at the same moment: versions only grow.
        for _ in range(MAX_ROUNDS):
            delivery = self._deliver(self._index, pending, result)
            resends = [self._shorten(refused) for refused in delivery.refused]
            deleted += delivery.result.deleted
            if delivery.conflicts:
                resends += find_open(delivery.conflicts)
            if not resends:
                return deleted
            pending = build_operations(
                [_build_entry(resend) for resend in resends],
                b"".join(resend.operation.expects for resend in resends),
            )
        raise TargetUnavailable(
            f"Another program keeps changing documents in {self._index!r}, which is for dead "
            "letters alone. The batch is repeated; stop that program."
        )

    def _shorten(self, refused: RefusedOperation) -> _Resend:
        """Return a dead letter without the document, for a proxy that finds it too large."""
        letter = json.loads(refused.operation.get_document(0))
        if refused.answer.status != _TOO_LARGE or letter.pop("document", None) is None:
            kind = refused.answer.kind
            raise Bug(f"A dead letter was refused by {self._index!r} ({kind}).")
        version = int(refused.operation.get_action(0)["version"])
        entry = build_index_entry(refused.document_id, version, json.dumps(letter).encode())
        return _Resend(build_operations([entry], refused.operation.expects), version)

    def _find_unstored(self, conflicts: Sequence[VersionConflict]) -> list[_Resend]:
        """Return the dead letters that are not stored yet, one for each id."""
        # The letter itself, from an earlier attempt or a request whose answer was lost.
        other = {hit.document_id: hit for hit in conflicts if hit.current != self.version}
        resends = []
        for document_id, stored in self._read_stored(list(other)).items():
            conflict = other[document_id]
            if stored is not None and stored.ordinal == self._target.ordinal:
                continue
            if self._is_of_newer_run(conflict, stored):
                raise Fenced(
                    "A dead letter was written by a newer batch: another run feeds this index now."
                )
            resends.append(_Resend(conflict.operation, _compute_next_version(conflict, stored)))
        return resends

    def _find_unremoved(self, conflicts: Sequence[VersionConflict]) -> list[_Resend]:
        """Return the removals whose letter is still there and not of a newer batch."""
        by_id = {hit.document_id: hit for hit in conflicts}
        return [
            _Resend(by_id[document_id].operation, _compute_next_version(by_id[document_id], stored))
            for document_id, stored in self._read_stored(list(by_id)).items()
            if stored is not None and stored.ordinal <= self._target.ordinal
        ]

    def _is_of_newer_run(self, conflict: VersionConflict, stored: StoredDeadLetter | None) -> bool:
        if self._target.outranked_is_foreign:
            return False
        if stored is not None:
            # Its ordinal says so, whatever its version was raised to.
            return stored.ordinal > self._target.ordinal
        return conflict.current >= compute_base_version(self._target.ordinal + 1) - 1

    def _read_stored(self, ids: Sequence[str]) -> dict[str, StoredDeadLetter | None]:
        with self._lock:
            return dead_letters.read_stored(self._get_client(), self._target.alias, ids)

    def _get_client(self) -> Client:
        """Return the client for anything but bulk requests, created at first use under the lock."""
        if self._admin is None:
            self._admin = open_client(self._target.connection, pool=1)
        return self._admin

    def _check_limit(self, refused: Sequence[RefusedOperation]) -> None:
        target = self._target
        # A repeated batch meets its own dead letters, which must not count twice.
        known_ids = target.known_dead_letter_ids
        with self._lock:
            self._new_ids += sum(row.document_id not in known_ids for row in refused)
            total = len(known_ids) + self._new_ids
        last = refused[-1]
        shown = json.dumps(last.document_id)
        # It never came to the index. The reason is ours, and names the field.
        is_ours = last.answer.kind == FIELD_FAILED
        which = f"document {shown} ({last.answer.reason if is_ours else last.answer.kind})"
        if target.dead_letter_policy is DeadLetterPolicy.STOP:
            who = f"{target.table} cannot make" if is_ours else f"Index {target.index!r} refused"
            cause = "the field" if is_ours else "the mapping"
            raise DeadLetterLimit(
                f"{who} {which}, and deadLetters.policy is Stop. Correct the row or {cause}, or "
                "set the policy to Index."
            )
        if total > target.max_dead_letters:
            raise DeadLetterLimit(
                f"Index {target.index!r} refused more rows than deadLetters.maxRows "
                f"({target.max_dead_letters}); the last was {which}. {AFTER_LIMIT}"
            )

    def _ensure_index(self) -> None:
        with self._lock:
            if self._index_exists:
                return
            owner = Ownership(self._target.pipeline, self._target.alias)
            dead_letters.ensure_index(self._get_client(), owner)
            self._index_exists = True


def _compute_next_version(conflict: VersionConflict, stored: StoredDeadLetter | None) -> int:
    """One more than the highest version seen; only ever higher, so that a race is a conflict."""
    return max(conflict.current, stored.version if stored else 0) + 1


def _build_entry(resend: _Resend) -> bytes:
    """Build the bulk entry of an operation with its new version."""
    if resend.operation.expects == DELETE:
        return build_delete_entry(resend.document_id, resend.version)
    return build_index_entry(resend.document_id, resend.version, resend.operation.get_document(0))
