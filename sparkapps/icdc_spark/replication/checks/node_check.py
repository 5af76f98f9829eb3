"""Watches the nodes of the cluster that requests of a batch may be inside.

A node that leaves the cluster takes such requests with it, and may send them on when it is back
(`icdc_spark.protocol.absent_nodes`). Nobody sees that in the answers: the node that was asked asks
another one in its stead, and all is written. So a batch ends only when each of its nodes has said
that it runs none of them, or is recorded as absent:

    nothing written, as when a table begins empty   no question is asked
    primaries where they were, all answers there    nothing left: no question is asked
    the same, but fewer writes than acknowledged    a gap: a node lost what it had confirmed
    a primary elsewhere, or an answer lost          the nodes are asked; absent ones are recorded
    a primary elsewhere at the end of a batch       and it is written again, an export is not
    a batch of another run is open                  the same, before it is repeated
    a batch of this process failed half-way         the same, once it is repeated

It must not know what a batch writes.
"""

import logging
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from icdc_api.errors import Gap, TargetUnavailable, Unauthorized
from icdc_spark.opensearch.client.nodes import read_processes
from icdc_spark.opensearch.stores import identity
from icdc_spark.opensearch.stores.identity import Identity
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.opensearch.stores.written_nodes import is_stale
from icdc_spark.protocol.absent_nodes import judge_absent
from icdc_spark.protocol.state_document import Intent, IntentKind
from icdc_spark.protocol.state_parts import MAX_NODES, Shards
from icdc_spark.replication.applied import format_instant
from icdc_spark.replication.context import TableContext

LOG = logging.getLogger(__name__)

STALE_SECONDS = 30.0
"""How long an index that shows fewer writes than it acknowledged may be one that was not asked."""
_POLL_SECONDS = 2.0
MAX_MOVES = 3
"""How often a batch is written before an index whose primaries do not stay is given time."""


class Writes(Protocol):
    """What was written, of which only the count matters here."""

    @property
    def acknowledged(self) -> int:
        """The operations of the batch that the index has applied, each with a number of its own."""


Written = TypeVar("Written", bound=Writes)


def list_nodes(context: TableContext) -> dict[str, int]:
    """Return the nodes that requests of the next batch may be inside, as an intent has them."""
    if is_stale(context.nodes.listed_at):
        context.nodes.list_anew(_read(context))
    return dict(sorted(context.nodes.members.items())[:MAX_NODES])


def take_over(context: TableContext, stored: Stored) -> Stored:
    """Record, before an open batch is repeated, which of its nodes left and which are there now.

    Nothing where no batch is open.
    """
    intent, absent = stored.document.intent, context.nodes.absent
    if intent is None:
        return stored
    if context.nodes.primaries:
        # A step of this process failed, and where the primaries were before it is forgotten below.
        context.unsettled.set()
    left = {node: mark for node, mark in intent.nodes.items() if node not in absent}
    # Those of the batch stay members until they are asked, also one that is listed no more.
    context.nodes.members = left | list_nodes(context)
    return _record(context, stored, context.nodes.members)


def write_until_settled(
    context: TableContext, stored: Stored, intent: Intent, write: Callable[[bool], Written]
) -> tuple[Stored, Written, Identity]:
    """Write the batch of the open intent; return the state, what was written, and the index then.

    When it returns, no request is left and all that was acknowledged is in the index as it is now.
    Gap where the index was replaced meanwhile, or lost writes. Where a primary moved the batch is
    written again: a primary that was cut off may acknowledge what its successor never had, as those
    of OpenSearch 2.19 do. `write` gets whether this is such a repetition; what the index has is met
    as already applied.
    """
    for attempt in range(MAX_MOVES):
        written = write(attempt > 0)
        # After the last write: a shard that lost one has a lower number than was recorded.
        now = _read_whole(context, intent, stored.document.shards, written.acknowledged)
        is_settled = not has_moved(context, now)
        stored = settle(context, stored, now)
        if is_settled:
            return stored, written, now
        LOG.warning("%s: a primary moved; the batch is written again", context.table.name)
        context.nodes.see(now)
    # The ids of a repair are known to this attempt alone, and the next step abandons it.
    next_step = "ask once more" if intent.kind is IntentKind.REPAIR else "it is written again"
    raise TargetUnavailable(
        f"A primary of {intent.index} moved each of the {MAX_MOVES} times that the batch was "
        f"written; {next_step}."
    )


def _read_whole(
    context: TableContext, intent: Intent, recorded: Shards | None, acknowledged: int
) -> Identity:
    """Return the index once it shows all that it acknowledged, or that a primary moved.

    A loss stays, an answer may be old: a node that does not know yet that its copy is no longer the
    primary still reports that copy. So it is asked again for STALE_SECONDS, and then it is a Gap.
    """
    give_up = time.monotonic() + STALE_SECONDS
    while True:
        now = identity.check_identity(context.client, intent.index, intent.index_uuid, recorded)
        lost = identity.count_lost_writes(now.shards, recorded, acknowledged)
        if has_moved(context, now) or not lost:
            return now
        if time.monotonic() >= give_up:
            break
        time.sleep(_POLL_SECONDS)
    loss = (
        f"the index {intent.index} lost writes that it had acknowledged while a batch was written, "
        f"at least {lost}"
    )
    gap = Gap(f"It cannot be known what {intent.index!r} holds: {loss}.")
    # Recorded: the next run exports the table because of it, and need not meet it again.
    context.record_fault(loss, gap)
    raise gap


def settle(context: TableContext, stored: Stored, now: Identity) -> Stored:
    """Return the state before an advance: no request of the open intent is left but in its record.

    `now` is the index that was written, after the last answer.
    """
    if context.unsettled.is_set() or has_moved(context, now):
        # The node of the old primary may have a request inside that was repeated elsewhere.
        context.outwait_own_requests()
    return _record(context, stored, context.nodes.members) if context.nodes.absent else stored


def has_moved(context: TableContext, now: Identity) -> bool:
    """Return whether a primary is elsewhere than when the batch began."""
    # None were seen where this process wrote nothing, nor an earlier one.
    return context.nodes.primaries not in ((), now.primaries)


def reconsider(context: TableContext, stored: Stored) -> Stored:
    """Record what became of absent nodes; a request a minute, and only where there are some."""
    absent = stored.document.absent_nodes
    unknown = [node.node for node in absent if not node.returned]
    if not unknown or not is_stale(context.nodes.reconsidered_at):
        return stored
    context.nodes.reconsidered_at = time.monotonic()
    left = judge_absent(absent, _read(context, unknown), datetime.now(tz=UTC))
    if left == absent:
        return stored
    return context.store.replace(stored, stored.document.with_absent(left, now=format_instant()))


def _record(context: TableContext, stored: Stored, nodes: dict[str, int]) -> Stored:
    absent = context.nodes.absent
    if absent:
        LOG.warning(
            "%s: nodes left the OpenSearch cluster, perhaps with requests of this run: %s",
            context.table.name,
            ", ".join(sorted(absent)),
        )
    elif stored.document.intent is None or nodes == stored.document.intent.nodes:
        return stored
    document = stored.document.with_nodes(nodes, absent, now=format_instant())
    stored = context.store.replace(stored, document)
    absent.clear()
    return stored


def _read(context: TableContext, nodes: Collection[str] = ()) -> dict[str, int]:
    """Return the marks of nodes; empty where the role of an earlier version forbids to see them."""
    try:
        return read_processes(context.client, nodes)
    except Unauthorized as error:
        # All else works without it, so that an upgrade stops no table.
        context.nodes.listed_at = time.monotonic()
        if not context.nodes.warned:
            problem = "nodes that leave the OpenSearch cluster are not detected"
            LOG.warning("%s: %s: %s", context.table.name, problem, error)
        context.nodes.warned = True
        return {}
