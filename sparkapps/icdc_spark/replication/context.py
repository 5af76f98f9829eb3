"""Holds what the steps of one table share: its spec, its connections, its part of the report.

Built once per table and run. It must hold no progress: that is in the state document alone.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

from icdc_api import naming
from icdc_api.errors import Fenced, Gap, MappingInvalid
from icdc_api.job.run_files import RunRequest
from icdc_api.spec.changelog import OnProblem, PinSnapshots
from icdc_api.spec.pipeline import Mode, PipelineSpec
from icdc_api.spec.sink import OpenSearch
from icdc_api.spec.tables import Table
from icdc_spark.documents.wishes import DocumentWishes, build_wishes
from icdc_spark.iceberg.jvm.session import TableSession
from icdc_spark.opensearch.bulk.sink import BatchResult, write
from icdc_spark.opensearch.bulk.target import OWNER_SECONDS, BulkTarget
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.client.tasks import wait_until_quiet
from icdc_spark.opensearch.stores.access import Access
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_spark.opensearch.stores.state_store import StateStore, Stored
from icdc_spark.opensearch.stores.written_nodes import WrittenNodes
from icdc_spark.protocol.policies import Policies
from icdc_spark.protocol.state_document import Intent, Owner, SourceTable, StateDocument
from icdc_spark.replication.applied import format_instant
from icdc_spark.reporting.reporter import TableReporter

Stop = threading.Event


class ContextClosedError(Exception):
    """A table's context was used after it was closed: an error in this program."""


@dataclass(frozen=True, kw_only=True)
class TableContext:
    """One table of one run."""

    request: RunRequest
    """What the run was asked to do, by whom and with which epoch."""
    spec: PipelineSpec
    """The pipeline's spec, defaults applied."""
    table: Table
    """The table's entry in the spec."""
    connection: Connection
    """How driver and executors reach OpenSearch, credentials included."""
    store: StateStore
    """The state documents, over the same connection."""
    open_session: Callable[[], TableSession]
    """Opens a session that knows the table's catalog and no other one; its caller closes it."""
    reporter: TableReporter
    """The table's part of the run's report."""
    stop: Stop
    """Set when the run is asked to end after the present step."""
    newest_access: Callable[[], Access] | None = None
    """Access to OpenSearch with the credentials of now; None where they never change."""
    catalog_call: Callable[[], AbstractContextManager[None]] = nullcontext
    """Inside it one call to the table's catalog is made. SourceUnavailable if it took too long."""
    step: Callable[[], AbstractContextManager[None]] = nullcontext
    """Inside it one step is made, or one question answered. NoProgress if it was cancelled."""
    note_progress: Callable[[], None] = lambda: None
    """Says that the present step goes on, where no Spark job shows it."""
    clients: list[Client] = field(default_factory=list)
    """The driver's client, once it was used; a list because the context is frozen."""
    closed: threading.Event = field(default_factory=threading.Event)
    """Set by `close`: no client is made any more, which nobody would close."""
    unsettled: threading.Event = field(default_factory=threading.Event)
    """Set while a batch is written, and left set when writing it failed."""
    outwaited: threading.Event = field(default_factory=threading.Event)
    """Set once this process has seen that no request of an older run is left."""
    nodes: WrittenNodes = field(default_factory=WrittenNodes)
    """The nodes that requests of this process may be inside."""

    @property
    def alias(self) -> str:
        """The alias that readers use."""
        return self.table.index_name

    @property
    def catalog(self) -> str:
        """The name under which the session knows the table's catalog."""
        return self.spec.get_catalog(self.table).name

    @property
    def owner(self) -> Owner:
        """This run, as an owner in the state document."""
        request = self.request
        return Owner(pipeline=request.owner, epoch=request.epoch, run_id=request.run_id)

    @property
    def ownership(self) -> Ownership:
        """The pipeline, as the owner in the mapping of its indices."""
        return Ownership(pipeline=self.request.owner, alias=self.alias)

    @property
    def tag(self) -> str:
        """The Iceberg tag that retains the applied snapshot."""
        return naming.name_tag(self.alias, self.tag_key)

    @property
    def tag_key(self) -> str:
        """The part of a tag's name that all tags of this pipeline share."""
        return naming.compute_tag_key(self.store.uuid, self.request.owner)

    @property
    def opensearch(self) -> OpenSearch:
        """The sink's section of the spec."""
        return self.spec.sink.opensearch

    @property
    def client(self) -> Client:
        """The driver's client; one per table, created at first use.

        ContextClosedError after `close`.
        """
        if self.closed.is_set():
            raise ContextClosedError(f"the context of {self.table.name} is closed")
        if not self.clients:
            self.clients.append(open_client(self.connection))
        return self.clients[0]

    @property
    def pins(self) -> PinSnapshots:
        """The policy of retaining snapshots by tags."""
        return self.spec.changelog.pin_snapshots

    def build_source(self, uuid: str) -> SourceTable:
        """Return the table as a source in the state document; `uuid` is the table's."""
        return SourceTable(table=self.table.name, uuid=uuid, branch=self.table.branch)

    def build_wishes(self) -> DocumentWishes:
        """Return what the spec asks of the documents: columns, identifiers, filter, mapping."""
        return build_wishes(self.table, self.opensearch)

    def build_policies(self) -> Policies:
        """Return the parts of spec and request that decide between re-exporting and stopping."""
        spec, reexport = self.spec, self.request.reexport
        if reexport is not None and reexport.tables and self.table.name not in reexport.tables:
            reexport = None  # It is for other tables.
        return Policies(
            reexport_on_gap=spec.changelog.on_gap is OnProblem.REEXPORT,
            reexport_on_incompatible_schema=(
                spec.changelog.on_incompatible_schema is OnProblem.REEXPORT
            ),
            export_only=spec.mode is Mode.EXPORT_ONLY,
            stream_only=spec.mode is Mode.STREAM_ONLY,
            # 0 stands for no request: a table honours only other nonces (`Policies.resync_nonce`).
            resync_nonce=0 if reexport is None else reexport.nonce,
            resync_id=None if reexport is None else reexport.id,
            is_new=reexport is not None and reexport.id == self.request.epoch,
            is_rollback=reexport is not None and bool(reexport.rollback),
            is_named=reexport is not None and bool(reexport.tables),
        )

    def may_export(self) -> bool:
        """Return whether exports may write now."""
        window = self.opensearch.export_window
        return window is None or window.is_open(datetime.now(tz=UTC))

    def build_target(self, intent: Intent, version: int) -> BulkTarget:
        """Return where and how the executors write a batch whose documents have `version`."""
        bulk, dead_letters = self.opensearch.bulk, self.opensearch.dead_letters
        return BulkTarget(
            connection=self.connection,
            pipeline=self.request.owner,
            alias=self.alias,
            index=intent.index,
            ordinal=intent.ordinal,
            version=version,
            epoch=self.request.epoch,
            owned_at=self.store.get_owned_at(self.alias),
            table=self.table.name,
            # Of an empty table, from which no row comes that could be refused.
            snapshot_id=intent.to or "",
            max_bytes=bulk.max_bytes,
            max_in_flight=bulk.max_in_flight,
            ingest_pipeline=self.opensearch.ingest_pipeline,
            limits=self.opensearch.limits,
            executors=self.spec.spark.most_executors,
            dead_letter_policy=dead_letters.policy,
            max_dead_letters=dead_letters.max_rows,
        )

    def is_superseded(self) -> bool:
        """Return whether the state document names another run now, or was deleted."""
        stored = self.store.load(self.alias)
        # A deleted document is no leave to go on: the next run claims the alias as if it were new.
        return stored is None or stored.document.owner != self.owner

    def outwait_older_runs(self, state: StateDocument | None) -> None:
        """Return when no request of an older run can arrive any more; wait once per process.

        `state` is the claimed document; None if it was lost. Where a batch was under way, or
        nobody knows because the document is lost, the older run's tasks may still be running and
        begin another request. They check who owns the index every OWNER_SECONDS. Nodes of that
        batch that have left the cluster are noted in `nodes`.
        """
        # Not remembered in the document: the wait may have failed after the claim was stored.
        if not self.outwaited.is_set():
            expected = state.intent.nodes if state and state.intent else {}
            absent = wait_until_quiet(
                self.client,
                self.alias,
                below_epoch=self.request.epoch,
                at_least=OWNER_SECONDS if state is None or state.intent else 0.0,
                expected=expected,
            )
            self.nodes.note_absent(expected, absent)
            self.outwaited.set()

    def outwait_own_requests(self) -> None:
        """Return when no node in the cluster runs a request of this alias; note who has left."""
        expected = dict(self.nodes.members)
        self.nodes.note_absent(
            expected, wait_until_quiet(self.client, self.alias, expected=expected)
        )

    def write(
        self, lines: Any, intent: Intent, version: int, *, settles: bool = True
    ) -> BatchResult:
        """Write the lines; on return no request of this batch can still be under way.

        With `settles` the dead letters of the keys that are written are removed.
        """
        # An exception below leaves it set: then the next write, too, waits for what this one may
        # still have under way.
        failed_before = self.unsettled.is_set()
        self.unsettled.set()
        target = replace(self.build_target(intent, version), settles_dead_letters=settles)
        ask, note = self.is_superseded, self.note_progress
        # Recorded: a repetition finds its own writes, and would take them for right.
        fault = "an ingest pipeline changed documents while a batch was written"
        altered = partial(self.record_fault, fault, Gap(f"{self.table.name}: {fault}."))
        result = write(lines, target, is_superseded=ask, note_progress=note, note_altered=altered)
        # A request without an answer may be applied later, over what the next batch writes.
        if result.ambiguous or failed_before:
            self.outwait_own_requests()
        self.unsettled.clear()
        return result

    @contextmanager
    def name_refusals(self) -> Iterator[None]:
        """Put the table's name before the message for a mapping that OpenSearch refuses."""
        try:
            yield
        except MappingInvalid as error:
            raise MappingInvalid(f"{self.table.name}: {error}") from error

    def with_newest_access(self) -> Self:
        """Return this context, or one with the credentials that have replaced its own meanwhile."""
        access = self.newest_access() if self.newest_access else None
        # The same store stands for an unchanged Secret: open connections stay.
        if access is None or access.store is self.store:
            return self
        self.close()
        return replace(
            self,
            connection=access.connection,
            store=access.store,
            clients=[],
            closed=threading.Event(),
        )

    def record_fault(self, fault: str, error: Gap) -> None:
        """Record why the content of the index that is written is unknown; `error` if another's."""
        stored = self.require_ours(error)
        self.store.replace(stored, stored.document.with_fault(fault, now=format_instant()))

    def distrust(self, error: Fenced) -> None:
        """Have the state document count as put back from a copy, until an export begins."""
        # Read again: its last change may be lost as well.
        stored = self.require_ours(error)
        self.store.replace(stored, stored.document.distrust(now=format_instant()))

    def require_ours(self, error: Fenced | Gap) -> Stored:
        """Return the state document after a conflict or loss in the index; `error` if another's.

        No other run writes before it has claimed the document. So where this run still owns it,
        the document was put back from a copy and the index is newer, or somebody else wrote.
        """
        stored = self.store.load(self.alias)
        if stored is None or stored.document.owner != self.owner:
            raise error
        return stored

    def close(self) -> None:
        """Close the driver's sockets, for good."""
        self.closed.set()
        while self.clients:
            self.clients.pop().close()
