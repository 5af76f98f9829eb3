"""What the steps of one table share: its spec, its connections, its part of the report.

Built once per table and run; holds no progress, which lives in the state document.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from pyspark.sql import SparkSession

from icdc_api import naming
from icdc_api.errors import Fenced, MappingInvalid
from icdc_api.job import RunRequest
from icdc_api.sink import OpenSearch
from icdc_api.spec import Mode, OnProblem, PinSnapshots, PipelineSpec
from icdc_api.tables import Table
from icdc_spark.documents.document_spec import DocumentWishes
from icdc_spark.opensearch.bulk.sink import BatchResult, write
from icdc_spark.opensearch.bulk.target import OWNER_SECONDS, BulkTarget
from icdc_spark.opensearch.client.connection import Client, Connection, client
from icdc_spark.opensearch.client.tasks import wait_until_quiet
from icdc_spark.opensearch.stores.access import Access
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_spark.opensearch.stores.state_store import StateStore, Stored
from icdc_spark.protocol.next_step import Policies
from icdc_spark.protocol.state_document import Intent, Owner, SourceTable, StateDocument
from icdc_spark.reporting.reporter import TableReporter

Stop = threading.Event


def instant(moment: datetime | None = None) -> str:
    """A time as the state document holds it; now unless given."""
    text = (moment or datetime.now(tz=UTC)).astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


@dataclass(frozen=True, kw_only=True)
class TableContext:
    """One table of one run."""

    request: RunRequest
    spec: PipelineSpec
    table: Table
    connection: Connection
    store: StateStore
    open_session: Callable[[], SparkSession]
    reporter: TableReporter
    stop: Stop
    newest_access: Callable[[], Access] | None = None
    """Access to OpenSearch with the credentials of now; None where they never change."""
    catalog_call: Callable[[], AbstractContextManager[None]] = nullcontext
    """Inside it one call to the table's catalog is made, which may take too long: then it raises
    SourceUnavailable."""
    clients: list[Client] = field(default_factory=list)
    unsettled: threading.Event = field(default_factory=threading.Event)
    """Set while a batch is written, and left set when writing it failed."""
    outwaited: threading.Event = field(default_factory=threading.Event)
    """Set once this process has seen that no request of an older run is left."""

    @property
    def alias(self) -> str:
        """The name that readers use."""
        return self.table.index_name

    @property
    def catalog(self) -> str:
        """The name under which the session knows the table's catalog."""
        return self.spec.catalog_of(self.table).name

    @property
    def owner(self) -> Owner:
        """This run, as the state document names it."""
        request = self.request
        return Owner(pipeline=request.owner, epoch=request.epoch, run_id=request.run_id)

    @property
    def ownership(self) -> Ownership:
        """The pipeline, as the indices name it."""
        return Ownership(pipeline=self.request.owner, alias=self.alias)

    @property
    def tag(self) -> str:
        """The Iceberg tag that keeps the applied snapshot."""
        return naming.tag_name(self.alias, self.tag_key)

    @property
    def tag_key(self) -> str:
        """What all tags of this pipeline have in their names."""
        return naming.tag_key(self.store.uuid, self.request.owner)

    @property
    def opensearch(self) -> OpenSearch:
        """The sink's section of the spec."""
        return self.spec.sink.opensearch

    @property
    def index_settings(self) -> Mapping[str, Any]:
        """The user's index settings."""
        return self.opensearch.index_settings

    @property
    def client(self) -> Client:
        """The driver's client; one per table, made at first use."""
        if not self.clients:
            self.clients.append(client(self.connection))
        return self.clients[0]

    @property
    def pins(self) -> PinSnapshots:
        """Whether snapshots are kept by tags."""
        return self.spec.changelog.pin_snapshots

    def source(self, uuid: str) -> SourceTable:
        """The table, as the state document names it."""
        return SourceTable(table=self.table.name, uuid=uuid, branch=self.table.branch)

    def wishes(self) -> DocumentWishes:
        """What the spec asks of the documents."""
        table = self.table
        return DocumentWishes(
            identifier_columns=table.identifier_columns or (),
            columns=table.columns or (),
            row_filter=table.row_filter,
            append_only=table.append_only,
            mapping=table.mapping,
        )

    def policies(self) -> Policies:
        """The parts of the spec that decide between rebuilding and stopping."""
        spec, asked = self.spec, self.request.reexport
        if asked is not None and asked.tables and self.table.name not in asked.tables:
            asked = None
        return Policies(
            reexport_on_gap=spec.changelog.on_gap is OnProblem.REEXPORT,
            reexport_on_incompatible_schema=(
                spec.changelog.on_incompatible_schema is OnProblem.REEXPORT
            ),
            export_only=spec.mode is Mode.EXPORT_ONLY,
            stream_only=spec.mode is Mode.STREAM_ONLY,
            resync_nonce=0 if asked is None else asked.nonce,
            resync_id=None if asked is None else asked.id,
        )

    def target(self, intent: Intent, version: int) -> BulkTarget:
        """Where the lines of a batch go."""
        bulk, letters = self.opensearch.bulk, self.opensearch.dead_letters
        return BulkTarget(
            connection=self.connection,
            pipeline=self.request.owner,
            alias=self.alias,
            index=intent.index,
            ordinal=intent.ordinal,
            version=version,
            epoch=self.request.epoch,
            owned_at=time.time(),
            table=self.table.name,
            snapshot_id=intent.to or "",
            max_bytes=bulk.max_bytes,
            max_in_flight=bulk.max_in_flight,
            dead_letter_policy=letters.policy,
            max_dead_letters=letters.max_rows,
        )

    def is_superseded(self) -> bool:
        """Whether the state document names another run now, or is gone."""
        stored = self.store.load(self.alias)
        return stored is None or stored.document.owner != self.owner

    def outwait_older_runs(self, state: StateDocument | None) -> None:
        """Returns when no request of an older run can arrive any more; waits once per process.

        That the state document names this run is no proof that it has waited: the wait may have
        failed after the claim was stored. Where a batch was under way, or nobody knows because the
        state document is lost, whoever wrote it may still live and begin another request, until
        its tasks have asked who owns the index.
        """
        if not self.outwaited.is_set():
            wait_until_quiet(
                self.client,
                self.alias,
                below_epoch=self.request.epoch,
                at_least=OWNER_SECONDS if state is None or state.intent else 0.0,
            )
            self.outwaited.set()

    def write(self, lines: Any, intent: Intent, version: int) -> BatchResult:
        """Writes the lines; on return no request of this batch can still be under way."""
        failed_before = self.unsettled.is_set()
        self.unsettled.set()
        target = self.target(intent, version)
        result = write(lines, target, is_superseded=self.is_superseded)
        if result.ambiguous or failed_before:
            wait_until_quiet(self.client, self.alias)
        self.unsettled.clear()
        return result

    @contextmanager
    def named_refusals(self) -> Iterator[None]:
        """Puts the table's name before what OpenSearch says of a mapping that it refuses."""
        try:
            yield
        except MappingInvalid as error:
            raise MappingInvalid(f"{self.table.name}: {error}") from error

    def with_newest_access(self) -> Self:
        """This context, or one that speaks with credentials that were put in place meanwhile."""
        access = self.newest_access() if self.newest_access else None
        if access is None or access.store is self.store:
            return self
        self.close()
        return replace(self, connection=access.connection, store=access.store, clients=[])

    def still_ours(self, error: Fenced) -> Stored:
        """The state document, after a conflict in the index; the error where another run has it.

        No other run writes before it has claimed the document: what conflicts is then newer than
        this document, which was put back from a copy, or is by somebody else.
        """
        stored = self.store.load(self.alias)
        if stored is None or stored.document.owner != self.owner:
            raise error
        return stored

    def close(self) -> None:
        """Closes the driver's sockets."""
        while self.clients:
            self.clients.pop().close()
