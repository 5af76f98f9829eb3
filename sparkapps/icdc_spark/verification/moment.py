"""Opens a scan of an index at a moment of which is known what the index must hold.

A person compares while a run may be writing. What a scan returns is of the instant at which it was
opened, so the state document is read before and after that: where both are alike, no batch began or
ended in between, and the scan may take as long as it likes.

    state document before        after            the scan holds
    77 applied                   the same         77
    77 applied                   78 applied       closed, and opened again
    77 applied, 78 under way     the same         of each document, that of 77 or that of 78

An export that replaces the index moves the alias, deletes dead letters, and records the new index.
What fails meanwhile is tried again with the index that the state names then.

A moment between two batches is waited for, because it proves more. It must not know what documents
should hold.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from icdc_api.errors import Gap, IcdcError
from icdc_spark.opensearch.client.scan import Scan, close_scan, open_scan
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.opensearch.stores.state_store import Stored
from icdc_spark.protocol.state_document import Intent, IntentKind, StateDocument
from icdc_spark.replication.context import TableContext

QUIET_SECONDS = 5.0
"""How long a moment between two batches is waited for, where another run may be writing."""
MOMENT_SECONDS = 60.0
"""How long any moment is waited for; one attempt takes a tenth of a second."""
_POLL_SECONDS = 0.05


class NotSettledError(Exception):
    """Each attempt at a moment met the beginning or the end of a batch."""


@dataclass(frozen=True)
class IndexMoment:
    """An index at one instant."""

    stored: Stored
    """The state document of that instant."""
    scan: Scan
    """All documents of that instant."""
    documents: int
    """Their number."""
    refused_ids: frozenset[str]
    """The ids of the rows that were dead letters then."""

    @property
    def batch(self) -> Intent | None:
        """The batch that was writing this index; None between two batches."""
        return find_batch(self.stored.document)


def find_batch(state: StateDocument) -> Intent | None:
    """Return the open batch that writes the served index; an export writes another one."""
    intent = state.intent
    return None if intent is None or intent.kind is IntentKind.EXPORT else intent


def require_exported(context: TableContext, stored: Stored | None) -> Stored:
    """Return the state document. Gap where the table was never exported."""
    if stored is None or stored.document.applied is None or stored.document.index is None:
        raise Gap(f"Table {context.table.name} was never exported: there is nothing to verify.")
    return stored


def describes_same(one: StateDocument, other: StateDocument) -> bool:
    """Return whether no batch began or ended between two states of a document."""
    return _list_marks(one) == _list_marks(other)


@contextmanager
def open_moment(
    context: TableContext,
    load: Callable[[], Stored | None],
    check: Callable[[StateDocument], None],
) -> Iterator[IndexMoment]:
    """Open a scan of the index at a known state; close it at the end.

    `check` raises where an index is not the one that the state names, or is hidden in part; it is
    called once for each index, and again while an export may replace it. NotSettledError where the
    state never stays for an instant.
    """
    # Of a planned comparison, and in the thread that follows the table, nothing else writes.
    alone = context.request.tables is not None or context.request.continuous
    began, checked = time.monotonic(), None
    while time.monotonic() < began + MOMENT_SECONDS:
        stored = require_exported(context, load())
        state = stored.document
        may_wait = not alone and time.monotonic() < began + QUIET_SECONDS
        # Asked to stop, the moment of a batch will do.
        if find_batch(state) is not None and may_wait and not context.stop.wait(_POLL_SECONDS):
            continue
        try:
            if checked != state.index_uuid:
                check(state)
                checked = state.index_uuid
            moment = _open_at(context, load, None if alone else check, stored)
        except IcdcError:
            # An export moves the alias before it records the new index: soon the state says so.
            is_swapped = may_wait and state.intent is not None
            if not is_swapped and not _is_replaced(state, load()):
                raise
            # Whether a stop is asked for or not: what fails meanwhile would be told as a fault.
            time.sleep(_POLL_SECONDS)
            continue
        if moment is None:
            continue
        try:
            yield moment
        finally:
            close_scan(context.client, moment.scan)
        return
    raise NotSettledError


def _open_at(
    context: TableContext,
    load: Callable[[], Stored | None],
    check: Callable[[StateDocument], None] | None,
    stored: Stored,
) -> IndexMoment | None:
    """Return the moment at which the state is as `stored`; None where it has changed meanwhile."""
    state, index = stored.document, stored.document.index or ""
    # Refreshed, because a scan reads refreshed documents only.
    documents = indices.refresh_and_count(context.client, index)
    pipeline = context.opensearch.ingest_pipeline
    # What an ingest pipeline adds is not compared, and an embedding is larger than all else.
    scan = open_scan(context.client, index, documents, pipeline.adds if pipeline else ())
    with ExitStack() as unless_used:
        unless_used.callback(close_scan, context.client, scan)
        refused_ids = dead_letters.list_ids(context.client, context.ownership)
        if check is not None and state.intent is not None:
            # An export deletes the dead letters of this index once it has moved the alias.
            check(state)
        after = load()
        if after is None or not describes_same(state, after.document):
            return None
        unless_used.pop_all()
    return IndexMoment(stored, scan, documents, refused_ids)


def _is_replaced(state: StateDocument, after: Stored | None) -> bool:
    return after is not None and after.document.index_uuid != state.index_uuid


def _list_marks(state: StateDocument) -> tuple[object, ...]:
    # Ordinals only grow, so equal ones mean that nothing happened between.
    return state.index_uuid, state.applied, state.last_ordinal, state.intent is None
