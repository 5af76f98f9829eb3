"""Keeps the alias that readers use on the index that equals the table.

Checked at every reconcile, because nothing else of a run uses the alias: moved by somebody else,
readers would see an older copy, or nothing, and every comparison would say equal.

    alias is on                  what a run does               what `icdc verify` says
    the state's index            nothing                       nothing
    another index of ours        moves it back (*)             TargetInvalid
    no index                     creates it                    TargetInvalid
    an index of somebody else    AliasTaken: stalls the table  TargetInvalid

(*) With other aliases of it, if the state document names it: a rollback may have been stored, and
    readers not switched yet. A run does that first of all where nothing was written since.

It must not know how a new index comes to be: an export moves the alias itself.
"""

import logging

from icdc_api.errors import Fenced, TargetInvalid
from icdc_spark.opensearch.stores import aliases
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.replication.context import TableContext
from icdc_spark.reporting.reporter import get_utc_now

LOG = logging.getLogger(__name__)


def keep_alias(context: TableContext, state: StateDocument) -> None:
    """Move the alias back to the state's index; AliasTaken where it is somebody else's now.

    Fenced where another run has taken over meanwhile.
    """
    # Before its first export a table has no index that readers could use.
    if state.applied is None or state.index is None:
        return
    problem = aliases.restore(
        context.client,
        context.ownership,
        state.index,
        # Asked around the move: a newer run that has just swapped to its own index is in the right.
        require_owner=lambda: require_owner(context, state),
        recorded=list_recorded_indices(state),
    )
    if problem is not None:
        LOG.warning("%s: %s; it points to %s again", context.table.name, problem, state.index)
        context.reporter.set(alias_restored_at=get_utc_now())


def check_alias(context: TableContext, state: StateDocument) -> None:
    """Raise TargetInvalid where readers do not see the state's index; change nothing."""
    problem = aliases.find_problem(context.client, context.alias, state.index or "")
    if problem is not None:
        raise TargetInvalid(
            f"{problem}, so readers do not see index {state.index}. The next run of the pipeline "
            "restores the alias, unless it belongs to somebody else now."
        )


def list_recorded_indices(state: StateDocument) -> list[PhysicalIndex]:
    """Return the indices whose UUIDs the state document has: served, written, or retained."""
    # A rollback may have stopped between the record of it and its move of the alias.
    retained = [(record.index, record.index_uuid) for record in state.retained]
    named = [(state.index, state.index_uuid), *retained]
    if state.intent is not None:
        # An export may have stopped between its swap and the record of it: readers are on this.
        named.append((state.intent.index, state.intent.index_uuid))
    return [PhysicalIndex(index, uuid) for index, uuid in named if index and uuid]


def require_owner(context: TableContext, state: StateDocument) -> None:
    """Raise Fenced where another run than the one that `state` names has taken over."""
    now = context.store.load(context.alias)
    if now is None or now.document.owner != state.owner:
        raise Fenced(f"Another run has taken over alias {context.alias!r}; this one has stopped.")
