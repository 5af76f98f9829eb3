"""Writes documents again, as the applied snapshot has them: for a repair, or a replay.

They are a recorded batch of their own. Example, applied snapshot 77 of ordinal 5, ids 1 and 9:

    claim      the state document, and wait for requests of older runs
    intent     Repair, from 77 to 77, ordinal 6
    write      1 as row 1 has it; 9 has no row, so its document is deleted
    advance    to 77, ordinal 6

A document that somebody else wrote with another routing than its id says is a stray: on its shard
there may be the document of that id as well, or not. So strays are deleted before, by a batch of
their own, and then their ids are written like all others: in one batch the delete could come last.

It must not know why these documents are written.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame

from icdc_spark.diff.id_lookup import look_up_ids
from icdc_spark.diff.operation_lines import serialise_removals
from icdc_spark.opensearch.stores import identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import Intent, IntentKind, Totals, compute_base_version
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.changelog import Batch
from icdc_spark.replication.checks import node_check
from icdc_spark.replication.context import build_applied, format_instant


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
    removed = 0
    if strays is not None and not (strays := reader.persist(strays)).isEmpty():
        stored, removed = _write_batch(
            work, stored, lambda version: serialise_removals(strays, version=version)
        )
    ids = reader.persist(ids)
    _, written = _write_batch(
        work,
        stored,
        lambda version: look_up_ids(reader, ids, work.documents, version=version).frame,
    )
    return removed + written


def _write_batch(
    work: Batch, stored: Stored, build_lines: Callable[[int], DataFrame]
) -> tuple[Stored, int]:
    """Write the lines of a version; return the state and how many documents they changed."""
    context, state = work.context, stored.document
    index, uuid = state.index or "", state.index_uuid or ""
    context.nodes.see(identity.check_identity(context.client, index, uuid, state.shards))
    applied = state.applied.snapshot_id if state.applied else None
    # Recorded like any batch, so that another run waits for it and ordinals stay unique.
    intent = Intent(
        kind=IntentKind.REPAIR,
        from_=applied,
        to=applied,
        ordinal=state.last_ordinal + 1,
        index=index,
        index_uuid=uuid,
        nodes=node_check.list_nodes(context),
    )
    stored = context.store.begin(stored, state.with_intent(intent, now=format_instant()))
    version = compute_base_version(intent.ordinal)
    lines = build_lines(version)
    stored, result, now = node_check.write_until_settled(
        context, stored, intent, lambda _: context.write(lines, intent, version)
    )
    # What is written again after a primary has moved is already there.
    upserted = result.upserted + result.already_applied
    snapshot = work.table.require(int(applied)) if applied else None
    totals = Totals(
        upserted=upserted, deleted=result.deleted, dead_letters=result.dead_letters_total
    )
    advanced = stored.document.advance(
        build_applied(snapshot, intent), now=format_instant(), batch=totals, shards=now.shards
    )
    return context.store.replace(stored, advanced), upserted + result.deleted
