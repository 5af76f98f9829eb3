"""The root of the API: an IcebergCDCPipeline with its metadata and spec.

Checks what can be checked without a catalog or a cluster. The CRD is generated from these models,
so each rule here is either in the schema or has an equal CEL rule in `cel`. The few that CEL cannot
say, such as about derived names, are reported by the operator in the condition SpecValid.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from icdc_api import naming
from icdc_api.base import MAX_TABLES, ApiModel, Count, Flag
from icdc_api.errors import Bug
from icdc_api.problems import build_problem, build_refusal, find_first_duplicate
from icdc_api.spec.catalog import Catalog
from icdc_api.spec.changelog import Changelog, Seconds, Trigger
from icdc_api.spec.indices.index_settings import flatten_settings
from icdc_api.spec.proof import RollingProof
from icdc_api.spec.sink import Sink
from icdc_api.spec.spark import Spark
from icdc_api.spec.tables import Table, TableName
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import ResyncMode


# In short what fields that have these values say at length, in the CRD.
class Mode(StrEnum):
    """What the pipeline does with its tables."""

    EXPORT_AND_STREAM = "ExportAndStream"  # export every table, then follow it
    EXPORT_ONLY = "ExportOnly"  # export and stop
    STREAM_ONLY = "StreamOnly"  # follow without an export, from startFrom


class DeletionPolicy(StrEnum):
    """What is done with the indices when the pipeline is deleted."""

    RETAIN = "Retain"  # they stay, with their progress
    DELETE_INDICES = "DeleteIndices"  # a last run deletes them; needs a finalizer


class Retry(ApiModel):
    """How often and when a failed run is retried."""

    max_attempts: Annotated[Count, Field(ge=1, le=100)] = 8
    """Attempts in a row that fail by a temporary fault before the pipeline is Stalled; it is still
    retried every maxSeconds. Any other fault stalls it at once, and waits for a higher
    restartNonce. Default 8. Lost nodes do not count."""
    initial_seconds: Annotated[Seconds, Field(ge=1, le=86400)] = 10
    """Seconds before the second attempt; doubled each time. Default 10. At most maxSeconds."""
    max_seconds: Annotated[Seconds, Field(ge=1, le=86400)] = 600
    """Seconds between two attempts, at most, and up to a tenth more, so that many pipelines do not
    start at once. Default 600."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.initial_seconds > self.max_seconds:
            rule = f"it must be at most maxSeconds, which is {self.max_seconds}"
            raise build_refusal(self.initial_seconds, rule, "initialSeconds")
        return self


class Timeouts(ApiModel):
    """How long a run, and a deletion, may take."""

    start_seconds: Annotated[Seconds, Field(ge=10)] = 600
    """Seconds until the driver of a run must be running, and seconds for which the work of a run
    may wait while it has no executor at all. Then it is ended and tried again. Default 600."""
    run_seconds: Seconds = 0
    """Seconds that a run may take; the next one resumes where it stopped. Default 0: no limit."""
    delete_seconds: Annotated[Seconds, Field(ge=10)] = 3600
    """Seconds after which a deleted pipeline is removed although its indices could not be deleted;
    they stay, and an Event names them. Default 3600. Only with deletionPolicy DeleteIndices."""


class Resync(ApiModel):
    """Asks once for a new export, a comparison, a repair or a rollback."""

    nonce: Count = 0
    """A higher number than before starts the request once, with the tables and the mode that are
    set at that time; later changes of these two start nothing. Default 0. It cannot be lowered."""
    tables: Annotated[tuple[TableName, ...], Field(max_length=MAX_TABLES)] = ()
    """Names of the tables, as in spec.tables[].name. Default empty: all."""
    mode: ResyncMode = ResyncMode.EXPORT
    """Export: fill a new index while the old one serves. Verify: compare index and table at the
    applied snapshot, once the tables are up to date. Repair: compare and correct what differs.
    Results are in status.tables[].verification and the condition Verified. A table waits while it
    is compared; with the trigger OnCommit all tables of the pipeline do. A comparison that fails 5
    times, or retry.maxAttempts if less, is given up. Rollback: readers get the index before again,
    see sink.opensearch.keepIndices; a table stalls as RollbackRefused if the spec asks for other
    documents than that index holds. Default Export."""


class History(ApiModel):
    """How many ended runs are retained, so that their logs can be read."""

    successful: Annotated[Count, Field(le=100)] = 3
    """Successful runs that are retained, of the last 10 runs of any kind. Default 3. The newest run
    always is."""
    failed: Annotated[Count, Field(le=100)] = 5
    """Failed runs that are retained, of the last 10 runs of any kind. Default 5."""


class PipelineSpec(ApiModel):
    """What the indices contain, and how it gets there."""

    suspend: Flag = False
    """True: the current batch is finished, then the pipeline stops; its progress is retained. One
    that takes more than two minutes is ended, and repeated later. Default false."""
    mode: Mode = Mode.EXPORT_AND_STREAM
    """ExportAndStream: export every table, then follow it. ExportOnly: export and stop.
    StreamOnly: follow without an export, from tables[].startFrom. Default ExportAndStream. A table
    that began with StreamOnly is exported once the mode is another one."""
    catalog: Catalog | None = None
    """The catalog of all tables that have none of their own. Required unless each has one."""
    tables: Annotated[
        tuple[Table, ...],
        Field(
            min_length=1,
            max_length=MAX_TABLES,
            json_schema_extra={
                # By name: a server-side apply changes one table and leaves the others alone.
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ]
    """The tables, each with an index of its own. Required, 1 to 500; names and indices are
    unique. The whole spec has at most 450 KiB. A removed table keeps its index and its
    progress."""
    changelog: Changelog = Changelog()
    """How the tables are followed. With mode ExportOnly, trigger, lingerSeconds, maxBytesPerBatch
    and rebuildAbove have no effect."""
    sink: Sink
    """Where the documents go. Required."""
    spark: Spark = Spark()
    """Resources of the runs."""
    retry: Retry = Retry()
    """How often and when a failed run is retried."""
    timeouts: Timeouts = Timeouts()
    """How long a run may take."""
    resync: Resync = Resync()
    """Asks once for a new export, a comparison, a repair or a rollback."""
    verify: RollingProof | None = None
    """Compares each table with its index again and again. Default none. Without effect in local
    runs."""
    restart_nonce: Count = 0
    """A higher number than before ends the current run and starts another. Default 0. It cannot be
    lowered."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """Retain: indices and progress stay when the pipeline is deleted. DeleteIndices: a last run
    deletes the physical indices, dead letters, progress and tags of its tables first; until then a
    finalizer keeps the pipeline. Retain, the annotation icebergcdc.dev/retain-indices=true or the
    end of timeouts.deleteSeconds releases the pipeline without that. Default Retain."""
    history: History = History()
    """How many ended runs are retained. A driver's pod that has an ephemeral volume, or a sidecar
    that goes on, is deleted at the end of its run, after a failure with the next attempt."""

    def get_catalog(self, table: Table) -> Catalog:
        """Return the catalog of `table`: its own, or the shared one."""
        catalog = table.catalog or self.catalog
        if catalog is None:
            raise Bug(f"the table {table.name!r} was accepted without a catalog")
        return catalog

    @property
    def proof_interval(self) -> timedelta | None:
        """The time within which each table is compared again; None for never."""
        return None if self.verify is None else self.verify.interval

    @model_validator(mode="after")
    def _check_all(self) -> Self:
        # One after the other: the first problem is the one to correct first.
        self._check_catalogs()
        self._check_names()
        self._check_modes()
        self._check_partitions()
        self._check_resync()
        return self

    def _check_catalogs(self) -> None:
        bare = [table.name for table in self.tables if table.catalog is None]
        if self.catalog is None and bare:
            message = f"missing: the table {bare[0]!r} has no catalog of its own"
            raise build_problem(message, "catalog")

    def _check_names(self) -> None:
        twice = find_first_duplicate(tuple(table.name for table in self.tables))
        if twice:
            raise build_refusal(twice[1], "names are unique", "tables", twice[0], "name")
        indices = tuple(table.index_name for table in self.tables)
        twice = find_first_duplicate(indices)
        if twice:
            raise build_refusal(twice[1], "indices are unique", "tables", twice[0], "index")
        # Such as the aliases `a` and `a-000001`: an export of the first one would need the name of
        # the second one for its physical index.
        aliases = frozenset(indices)
        for position, index in enumerate(indices):
            other = naming.find_base_alias(index)
            if other in aliases:
                rule = f"the name belongs to the index {other!r} of another table"
                raise build_refusal(index, rule, "tables", position, "index")

    def _check_modes(self) -> None:
        for position, table in enumerate(self.tables):
            # Not ignored: an export would write rows that the author meant to leave out.
            if table.start_from and self.mode is not Mode.STREAM_ONLY:
                requires = f"it requires mode StreamOnly; mode is {self.mode.value}"
                message = f"startFrom is not allowed: {requires}"
                raise build_problem(message, "tables", position, "startFrom")
        if self.mode is Mode.EXPORT_ONLY and self.changelog.trigger is Trigger.CONTINUOUS:
            rule = "mode ExportOnly has no changelog; use OnCommit or another mode"
            raise build_refusal("Continuous", rule, "changelog", "trigger")

    def _check_partitions(self) -> None:
        name = "routing_partition_size"
        size = flatten_settings(self.sink.opensearch.index_settings).get(f"index.{name}")
        unrouted = [table.name for table in self.tables if not table.routing]
        # OpenSearch would not create the index: such a setting requires a routing of each document.
        if size is not None and str(size) != "1" and unrouted:
            message = f"{name} requires tables[].routing: the table {unrouted[0]!r} has none"
            raise build_problem(message, "sink", "opensearch", "indexSettings")

    def _check_resync(self) -> None:
        names = {table.name for table in self.tables}
        for position, name in enumerate(self.resync.tables):
            if name not in names:
                raise build_refusal(
                    name, "it names no table of the spec", "resync", "tables", position
                )


class Metadata(ApiModel):
    """Metadata as Kubernetes has it. Only name and namespace mean something here."""

    # All fields of ObjectMeta, because unknown ones are refused: the output of
    # `kubectl get -o yaml` must load as it is.
    name: Annotated[
        str,
        StringConstraints(
            pattern=naming.PIPELINE_NAME_PATTERN, max_length=naming.MAX_PIPELINE_NAME
        ),
    ]
    namespace: Annotated[
        str,
        StringConstraints(pattern=naming.NAMESPACE_PATTERN, max_length=naming.MAX_NAMESPACE),
    ] = naming.DEFAULT_NAMESPACE
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    generate_name: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()
    self_link: str | None = None
    owner_references: tuple[dict[str, Any], ...] = ()
    managed_fields: tuple[dict[str, Any], ...] = ()


class Pipeline(ApiModel):
    """Keeps OpenSearch indices equal to Apache Iceberg tables."""

    api_version: Literal["icebergcdc.dev/v1alpha1"]
    kind: Literal["IcebergCDCPipeline"]
    metadata: Metadata
    spec: PipelineSpec
    """What the indices contain, and how it gets there."""
    status: PipelineStatus | None = None
    """What the operator knows about the pipeline."""

    @property
    def owner(self) -> str:
        """`namespace/name`: who owns the state documents."""
        return naming.build_owner_key(self.metadata.namespace, self.metadata.name)
