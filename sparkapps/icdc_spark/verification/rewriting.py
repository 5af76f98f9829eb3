"""Writes documents again, as the applied snapshot has them: for a repair, or a replay.

They are a recorded batch of their own. Example, applied snapshot 77 of ordinal 5, ids 1 and 9:

    claim      the state document, and wait for requests of older runs
    intent     Repair, from 77 to 77, ordinal 6
    write      1 as row 1 has it; 9 has no row, so its document is deleted
    advance    to 77, ordinal 6

A document that somebody else wrote with another routing than its id says is a stray: on its shard
there may be the document of that id as well, or not. So strays are deleted before, and then their
ids are written with a version above: among the other operations the delete could come last.

    write      delete 4 with routing x, which somebody wrote; then 4 as row 4 has it

It must not know why these documents are written.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.operation_lines import serialise_removals
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.opensearch.stores import identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import (
    FIXUP_OFFSET,
    Intent,
    IntentKind,
    StateDocument,
    Totals,
    compute_base_version,
)
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.applied import build_applied, format_instant
from icdc_spark.replication.changelog import Batch
from icdc_spark.replication.checks import node_check
from icdc_spark.replication.context import TableContext


def write_again(
    work: Batch,
    reader: SnapshotReader,
    stored: Stored,
    ids: DataFrame,
    strays: DataFrame | None = None,
) -> int:
    """Write the applied snapshot's documents of `ids` (column `id`), as a recorded batch.

    Return the number of documents that were written or deleted; `strays` (columns `id` and
    `routing`), whose ids are among `ids`, are deleted first. A crash leaves an open batch, which
    the next run abandons; Fenced where another run has taken over.
    """
    context = work.context
    # Claimed only here: a comparison that changes nothing must not fence the run of the table.
    claimed = stored.document.claim(context.owner, now=format_instant())
    stored = context.store.replace(stored, claimed)
    context.outwait_older_runs(stored.document)
    if strays is not None and (strays := reader.persist(strays)).isEmpty():
        strays = None
    state = stored.document
    index, uuid = state.index or "", state.index_uuid or ""
    context.nodes.see(identity.check_identity(context.client, index, uuid, state.shards))
    intent = _build_intent(context, state)
    stored = context.store.begin(stored, state.with_intent(intent, now=format_instant()))
    write = _build_writes(work, reader, intent, reader.persist(ids), strays)
    stored, written, now = node_check.write_until_settled(
        context, stored, intent, lambda _: write()
    )
    # What is written again after a primary has moved is already there.
    upserted = written.again.upserted + written.again.already_applied
    snapshot = work.table.require(int(intent.to)) if intent.to else None
    totals = Totals(
        upserted=upserted,
        deleted=written.deleted,
        dead_letters=written.again.dead_letters_total,
    )
    advanced = stored.document.advance(
        build_applied(snapshot, intent), now=format_instant(), batch=totals, shards=now.shards
    )
    context.store.replace(stored, advanced)
    return upserted + written.deleted


def _build_intent(context: TableContext, state: StateDocument) -> Intent:
    """Return the intent of the batch: another run waits for it, and ordinals stay unique."""
    applied = state.applied.snapshot_id if state.applied else None
    return Intent(
        kind=IntentKind.REPAIR,
        from_=applied,
        to=applied,
        ordinal=state.last_ordinal + 1,
        index=state.index or "",
        index_uuid=state.index_uuid or "",
        nodes=node_check.list_nodes(context),
    )


@dataclass(frozen=True)
class _Rewritten:
    """The writes of one batch."""

    removed: BatchResult
    """Counts of the strays that were deleted."""
    again: BatchResult
    """Counts of the documents that were written again."""

    @property
    def acknowledged(self) -> int:
        """The operations that the index applied just now."""
        return self.removed.acknowledged + self.again.acknowledged

    @property
    def deleted(self) -> int:
        """The documents that were deleted."""
        return self.removed.deleted + self.again.deleted


def _build_writes(
    work: Batch, reader: SnapshotReader, intent: Intent, ids: DataFrame, strays: DataFrame | None
) -> Callable[[], _Rewritten]:
    """Return what writes the batch; it may be called again."""
    context, version = work.context, compute_base_version(intent.ordinal)
    if strays is None:
        lines = look_up_ids(reader, ids, work.documents, version=version).frame
        return lambda: _Rewritten(BatchResult(), context.write(lines, intent, version))
    removals = serialise_removals(strays, version=version)
    # Above the deletes, which may be of documents of the same ids on the same shards.
    above = version + FIXUP_OFFSET
    lines = look_up_ids(reader, ids, work.documents, version=above).frame

    def write() -> _Rewritten:
        # A dead letter of such an id is of its row, which is only written after.
        removed = context.write(removals, intent, version, settles=False)
        return _Rewritten(removed, context.write(lines, intent, above))

    return write
