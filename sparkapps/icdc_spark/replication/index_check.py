"""Whether a state document and the index that it names still belong together.

Either may have been brought back to an earlier state: the index by a restore or a lost shard, the
document by a restore of icdc-state or by hand. A batch that went on from an older document would
write with ordinals that were used before, and take the answers of the index for its own.
"""

import logging
from dataclasses import dataclass

from icdc_api.errors import Fenced
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores import identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import IntentKind
from icdc_spark.replication.context import TableContext, instant

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finding:
    """What was found of index and document."""

    loss: str | None
    """Why they do not belong together any more, as a clause; None if they do."""
    store_changed: bool = False
    """Whether icdc-state is another one than the document was written into."""


def examine(client: Client, stored: Stored | None) -> Finding:
    """Compare the index that would be written next with what is recorded, in one request."""
    state = stored.document if stored else None
    written = state and (state.intent or state)
    if not stored or not state or not written or not written.index or not written.index_uuid:
        return Finding(loss=None)
    exporting = state.intent is not None and state.intent.kind is IntentKind.EXPORT
    recorded = written.shards if exporting else state.shards
    now = identity.identify(client, written.index)
    loss = identity.find_loss(written.index, now, written.index_uuid, recorded)
    if now is not None and state.store_history not in (None, now.store_history):
        restored = "the index icdc-state was restored, so what it says may be older than the index"
        return Finding(loss=loss or restored, store_changed=True)
    if not stored.is_original:
        loss = loss or "the state document was put back from a copy, or is older than the index"
    return Finding(loss=loss)


def withdraw(context: TableContext, error: Fenced) -> None:
    """Record that the index is newer than the state document; `error` where another run has it.

    From then on the document is one that was put back from a copy, until an export begins.
    """
    stored = context.still_ours(error)
    LOG.warning("%s: %s", context.table.name, error)
    context.store.replace(stored, stored.document.distrusted(now=instant()))
