"""Decides whether a state document and the index that it names still belong together.

Either may have been brought back to an earlier state: the index by a restore or a lost shard, the
document by a restore of icdc-state or by hand. A batch that went on from an older document would
write with ordinals that were used before, and take the answers of the index for its own.

Example, an index with one shard. The document says: history a, sequence number 17, revision 5.

    index (a, 17), `_version` 5   they belong together, and nothing was written since
    index (a, 20), `_version` 5   the same: somebody else's edits only raise the number
    index (b, 17), `_version` 5   the index was restored: a gap
    index (a, 20), `_version` 7   the document was put back from a copy of revision 5: a gap
    document without shards       of an older version: the UUID is compared, the shards recorded

It must not know what follows from a gap: `icdc_spark.protocol.next_step` does.
"""

import logging
from dataclasses import dataclass

from icdc_api.errors import Fenced, TargetUnavailable
from icdc_api.spec.pipeline import Mode
from icdc_spark.opensearch.stores import aliases, identity, indices
from icdc_spark.opensearch.stores.identity import Identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.absent_nodes import describe_returned
from icdc_spark.protocol.state_document import IntentKind
from icdc_spark.replication.applied import format_instant
from icdc_spark.replication.context import TableContext

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexCheck:
    """The result of comparing an index with its state document."""

    loss: str | None
    """Why they no longer belong together, as a clause; None if they do."""
    store_changed: bool = False
    """True if icdc-state is not the index that the document was written into."""
    identity: Identity | None = None
    """The index as it is now; None if no index is recorded, or none of that name exists."""


def compare_with_index(context: TableContext, stored: Stored | None) -> IndexCheck:
    """Compare the index that would be written next with what is recorded, in one request.

    TargetUnavailable while a primary of the index is not started.
    """
    if not stored:
        return IndexCheck(loss=find_forgotten(context))
    client, state = context.client, stored.document
    written = state.intent or state
    if not written.index or not written.index_uuid:
        return IndexCheck(loss=state.fault)
    exporting = state.intent is not None and state.intent.kind is IntentKind.EXPORT
    # An export records the shards of the index that it fills; a batch those of the served one.
    recorded = written.shards if exporting else state.shards
    now = identity.identify(client, written.index)
    loss = identity.find_loss(written.index, now, written.index_uuid, recorded)
    # Before the revision: a restored icdc-state has the `_version` of the copy, so both would fit.
    if now is not None and state.store_history not in (None, now.store_history):
        restored = (
            "the index icdc-state was restored, so its state document may be older than the index"
        )
        return IndexCheck(loss=loss or restored, store_changed=True, identity=now)
    if not stored.is_original:
        loss = loss or "the state document was restored from a copy, or is older than the index"
    loss = loss or state.fault or describe_returned(state.absent_nodes)
    return IndexCheck(loss=loss, identity=now)


def find_forgotten(context: TableContext) -> str | None:
    """Return that the document of an index of ours is gone, as a clause; None if there is no index.

    Asked where there is no document, and for StreamOnly alone: any other mode begins with an
    export, until whose end readers stay where they are. AliasTaken if they use somebody else's.
    """
    if context.spec.mode is not Mode.STREAM_ONLY:
        return None
    found = set(aliases.check_free(context.client, context.ownership))
    owners = indices.list_indices(context.client, context.alias)
    found |= {name for name, owner in owners.items() if owner == context.ownership}
    return f"the state document of {', '.join(sorted(found))} is gone" if found else None


def is_trusted(stored: Stored, store_history: str) -> bool:
    """Return whether no later document than this one was ever stored.

    `store_history`: that of icdc-state now, which `compare_with_index` does not know where the
    index is missing or blocked. TargetUnavailable where icdc-state itself is missing.
    """
    if not store_history:
        # Before an index is created, or readers are moved, for a document that is gone.
        raise TargetUnavailable("The index icdc-state was deleted. Its document is read again.")
    return stored.is_original and stored.document.store_history in (None, store_history)


def record_shards(context: TableContext, stored: Stored, check: IndexCheck) -> Stored:
    """Record the shards of an upgraded document's index; return `stored` where it has them.

    A table that nobody changes has no advance that would record them, and a restored index or a
    lost shard would never be noticed.
    """
    state = stored.document
    upgraded = state.applied is not None and state.intent is None and state.shards is None
    if not upgraded or check.loss is not None or check.identity is None:
        return stored
    now = check.identity
    recorded = state.record_shards(now.shards, now.store_history, now=format_instant())
    return context.store.replace(stored, recorded)


def withdraw(context: TableContext, error: Fenced) -> None:
    """Record that the index is newer than the state document; `error` where another run has it."""
    context.distrust(error)
    LOG.warning("%s: %s", context.table.name, error)
