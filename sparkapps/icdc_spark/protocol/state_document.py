"""The state document: all that a run must know to go on, and the only changes it may go through.

One small document per alias. Every method returns a new document or refuses the step, so the
protocol cannot be broken by a caller's slip: an intent is never replaced before it is advanced or
abandoned, ordinals only grow, an older epoch never takes over from a newer one. This module
knows neither where documents are stored nor how batches are written.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from icdc_api.base import MAX_COUNT, shorten
from icdc_api.errors import AliasTaken, Bug, Fenced
from icdc_spark.protocol.earlier_indices import PROBLEM_CHARACTERS, EarlierIndices
from icdc_spark.protocol.state_parts import (
    FIXUP_OFFSET,
    MAX_NODES,
    MAX_SAMPLES,
    SAMPLE_CHARACTERS,
    VERSIONS_PER_ORDINAL,
    AbsentNode,
    Applied,
    Intent,
    IntentKind,
    IntentPhase,
    Owner,
    RecordedDuplicates,
    RetainedIndex,
    Shards,
    SourceTable,
    Totals,
    compute_base_version,
)
from icdc_spark.protocol.stored_fields import build_state_corrupt

__all__ = [
    "FIXUP_OFFSET",
    "VERSIONS_PER_ORDINAL",
    "AbsentNode",
    "Applied",
    "Intent",
    "IntentKind",
    "IntentPhase",
    "Owner",
    "RecordedDuplicates",
    "RetainedIndex",
    "Shards",
    "SourceTable",
    "StateDocument",
    "Totals",
    "compute_base_version",
]


class StateDocument(EarlierIndices):
    """The document of one alias, and every change that it may go through."""

    def claim(self, owner: Owner, *, now: str) -> Self:
        """Record a new owner: a newer run of the same pipeline, or the same run again.

        Raises Fenced for a lower epoch, AliasTaken for another pipeline.
        """
        if owner.pipeline != self.owner.pipeline:
            raise AliasTaken(
                f"Alias {self.alias!r} is fed by pipeline {self.owner.pipeline!r}; "
                "choose another `index`, or delete that pipeline with deletionPolicy "
                "DeleteIndices, which deletes its index."
            )
        # A driver that was restarted under the same epoch and run id goes on with its own claim.
        same_run = (owner.epoch, owner.run_id) == (self.owner.epoch, self.owner.run_id)
        if owner.epoch <= self.owner.epoch and not same_run:
            self._check_epoch()
            raise Fenced(
                f"Alias {self.alias!r} is owned by run {self.owner.run_id!r} with epoch "
                f"{self.owner.epoch}; this run has epoch {owner.epoch}.",
                epoch=self.owner.epoch,
                run_id=self.owner.run_id,
            )
        return self._with(now, owner=owner)

    def with_intent(self, intent: Intent, *, now: str) -> Self:
        """Record what is about to be written. The same work again is a replay and changes nothing.

        A changelog or repair starts at the applied snapshot and writes the current index.
        """
        if self.intent is not None:
            self._require(self.intent.has_same_work(intent), "another intent is still open")
            return self
        # Otherwise a caller would record work as done that nobody has seen done.
        fresh = intent.phase is IntentPhase.WRITING and intent.chunks_done == 0
        self._require(fresh, "a new intent has progress already")
        self._require(intent.ordinal > self.last_ordinal, f"ordinal {intent.ordinal} was used")
        if intent.kind is not IntentKind.EXPORT:
            self._require(self.applied is not None, "nothing was exported yet")
            here = (self.index, self.index_uuid) == (intent.index, intent.index_uuid)
            self._require(here, "the intent names another index")
            applied = self.applied.snapshot_id if self.applied else None
            self._require(intent.from_ == applied, "the intent does not start at the applied state")
        # What follows an export is always another index, complete: the old one is only served.
        changes: dict[str, Any] = {}
        if intent.kind is IntentKind.EXPORT:
            # Requests inside absent nodes name the old index, too.
            changes = {"shards": None, "absent_nodes": [], "fault": None}
        return self._with(now, intent=intent, last_ordinal=intent.ordinal, **changes)

    def with_nodes(self, nodes: Mapping[str, int], absent: Mapping[str, int], *, now: str) -> Self:
        """Record the nodes that requests of the open intent may be inside from now on.

        `absent`: those that left the cluster, perhaps with requests inside them. Both have the
        mark of each node's process.
        """
        left = (
            AbsentNode(node=node, process=process, left_at=now) for node, process in absent.items()
        )
        more = {node.node: node for node in (*self.absent_nodes, *left)}
        listed = dict(sorted(nodes.items())[:MAX_NODES])
        intent = self._open().model_copy(update={"nodes": listed})
        return self._with(now, intent=intent, absent_nodes=list(more.values())[-MAX_NODES:])

    def with_absent(self, absent: Iterable[AbsentNode], *, now: str) -> Self:
        """Replace what is known of the nodes that left the cluster."""
        return self._with(now, absent_nodes=list(absent))

    def complete_chunk(self, number: int, *, rows: int, now: str) -> Self:
        """Record that chunk `number` (from 0, in order) is written whole, with `rows` rows."""
        intent = self._open()
        self._require(intent.phase is IntentPhase.WRITING, "the intent is past writing")
        in_order = number == intent.chunks_done < intent.chunks_total
        self._require(in_order, f"chunk {number} is not the next one")
        done = {"chunks_done": number + 1, "rows": intent.rows + rows}
        return self._with(now, intent=intent.model_copy(update=done))

    def add_miscount(self, problem: str, *, now: str) -> Self:
        """Record that all chunks are written and the index does not hold what they wrote."""
        intent = self._open()
        more = intent.model_copy(update={"miscounts": intent.miscounts + 1})
        return self._with(now, intent=more, fault=shorten(problem, PROBLEM_CHARACTERS))

    def begin_swap(self, *, shards: Shards | None = None, now: str) -> Self:
        """Record that all chunks are written and counted: from here on the alias may move.

        `shards`: the primaries of the new index as they were before it was counted.
        """
        intent = self._open()
        self._require(intent.kind is IntentKind.EXPORT, "only an export moves the alias")
        self._require(intent.chunks_done == intent.chunks_total, "chunks are missing")
        done = {"phase": IntentPhase.SWAPPING, "shards": shards}
        return self._with(now, intent=intent.model_copy(update=done))

    def advance(
        self,
        applied: Applied,
        *,
        now: str,
        batch: Totals | None = None,
        source: SourceTable | None = None,
        document_spec: str | None = None,
        shards: Shards | None = None,
        store_history: str | None = None,
    ) -> Self:
        """Close the open intent, which is written whole: the index equals `applied`.

        `batch` counts this batch; `source` and `document_spec` replace the stored ones (export).
        `shards` is the index now; without it, what was recorded before still holds.
        `store_history` is recorded where a document of an older version has none.
        """
        intent = self._open()
        fits = (applied.ordinal, applied.snapshot_id) == (intent.ordinal, intent.to)
        self._require(fits, "the applied state is not the intent's")
        changes: dict[str, Any] = {"applied": applied, "intent": None}
        if intent.kind is IntentKind.EXPORT:
            self._require(intent.phase is IntentPhase.SWAPPING, "the alias was not moved")
            # Remembered before anything is deleted, so that a crash leaves no index unknown.
            older = {*self.previous_indices, self.index} - {None, intent.index}
            changes |= {
                "index": intent.index,
                "index_uuid": intent.index_uuid,
                "begun_index": intent.index if intent.omits_rows else self.begun_index,
                "shards": intent.shards,
                "rolled_back_number": None,
                "previous_indices": self._pick_newest(map(str, older)),
            }
        if shards is not None:
            changes["shards"] = shards
        if batch is not None:
            changes["totals"] = self.totals.add(batch)
        changes |= {"source": source or self.source}
        changes |= {"store_history": self.store_history or store_history}
        return self._with(now, document_spec=document_spec or self.document_spec, **changes)

    def record_shards(self, shards: Shards, store_history: str, *, now: str) -> Self:
        """Add what a document of an older version does not hold; it names its index by UUID."""
        # Once: recorded again before an advance, a lost shard would count as how it should be.
        self._require(self.intent is None and self.shards is None, "shards are recorded already")
        history = self.store_history or store_history or None
        return self._with(now, shards=shards, store_history=history)

    def abandon(self, *, now: str) -> Self:
        """Give up the open intent, whose target can no longer be read; its ordinal stays used."""
        self._open()
        # `last_ordinal` stays: late writes of the abandoned batch must not look like a new one's.
        return self._with(now, intent=None)

    def with_duplicates(self, count: int, samples: list[str], *, now: str) -> Self:
        """Mark the table as having duplicate keys; a count of 0 takes the mark away."""
        cut = [sample[:SAMPLE_CHARACTERS] for sample in samples[:MAX_SAMPLES]]
        return self._with(
            now, duplicates=RecordedDuplicates(count=count, samples=cut) if count else None
        )

    def with_resync(self, nonce: int, request: int | None, *, now: str) -> Self:
        """Record the re-export that is honoured now: its nonce, and the id of the request.

        A pipeline that is created again counts its nonces anew, so one may be lower than before.
        """
        return self._with(now, resync_nonce=nonce, resync_id=request)

    def trust(self, store_history: str, *, now: str) -> Self:
        """Trust the document again: an export begins, for which nothing that it missed matters."""
        return self._with(now, revision=None, store_history=store_history)

    def with_fault(self, fault: str, *, now: str) -> Self:
        """Record that what the index holds that is written is unknown, until there is another."""
        return self._with(now, fault=fault)

    def distrust(self, *, now: str) -> Self:
        """Mark what it says of the index as wrong, by a revision that it could not have."""
        return self._with(now, revision=0)

    def _check_epoch(self) -> None:
        """Raise StateCorrupt for an epoch that no run can exceed: no clock gives one."""
        if self.owner.epoch >= MAX_COUNT:
            raise build_state_corrupt(
                self.alias, f"no run can have a higher epoch than {self.owner.epoch}"
            )

    def _open(self) -> Intent:
        if self.intent is None:
            raise Bug(f"State of {self.alias!r}: no intent is open.")
        return self.intent
