"""`status` of a pipeline: what is written by the operator and by the local runner alike.

The application reports `TableStatus`; the rest is the operator's. Times are UTC. Nothing here
decides anything, and no text holds row content.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from icdc_api.base import (
    MAX_COUNT,
    MAX_TABLES,
    ApiModel,
    Clipped,
    Count,
    Flag,
    Message,
    ShortText,
    SnapshotId,
    Timestamp,
)
from icdc_api.status.conditions import Condition, ConditionList, ConditionStatus, ConditionType
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_api.status.table_parts import (
    MAX_SAMPLES,
    Duplicates,
    ExportProgress,
    LastBatch,
    TableState,
    Verification,
)
from icdc_api.status.triggers import ObservedAsk, ObservedTriggers

__all__ = [
    "MAX_SAMPLES",
    "UNOBSERVED",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "Duplicates",
    "ExportProgress",
    "Failure",
    "LastBatch",
    "ObservedTriggers",
    "Phase",
    "PipelineStatus",
    "RunKind",
    "RunState",
    "RunStatus",
    "Summary",
    "TableReason",
    "TableState",
    "TableStatus",
    "Verification",
    "parse_status",
]

MAX_RECENT_RUNS = 10  # retries count lost and fenced runs in a row among them


class TableReason(StrEnum):
    """Why a table does not advance: the name of a class in `icdc_api.errors`, which says who acts.
    Those from `SourceUnavailable` on are retried, all others wait for a person."""

    GAP = "Gap"
    """The changes since the applied snapshot are lost. The author asks for a new export."""
    INCOMPATIBLE_SCHEMA = "IncompatibleSchema"
    """Written documents would differ. The author asks for a new export."""
    ALIAS_TAKEN = "AliasTaken"
    """The index name is in use by somebody else. The author chooses another."""
    TABLE_NOT_FOUND = "TableNotFound"
    """The catalog has no such table. The table's owner creates it, or the author corrects it."""
    BRANCH_NOT_FOUND = "BranchNotFound"
    """The table has no such branch. The author corrects it."""
    COLUMN_NOT_FOUND = "ColumnNotFound"
    """The spec names a column that the table lacks. The author corrects it."""
    FILTER_INVALID = "FilterInvalid"
    """`rowFilter` cannot be evaluated on the table. The author corrects it."""
    FIELD_INVALID = "FieldInvalid"
    """An entry of `fields` or `routing` does not fit the table. The author corrects it."""
    UNSUPPORTED_TYPE = "UnsupportedType"
    """A column cannot be indexed, or not be part of an id. The author leaves it out."""
    NO_IDENTIFIER = "NoIdentifier"
    """Nothing says which columns identify a row. The author names them."""
    NOT_APPEND_ONLY = "NotAppendOnly"
    """`appendOnly` is set, and a commit does more. The table's owner says which is right."""
    DATA_FILE_MISSING = "DataFileMissing"
    """A file of a retained snapshot is missing. The table's owner brings it back."""
    FILE_UNREADABLE = "FileUnreadable"
    """A file is damaged, or does not fit the table. The table's owner repairs it."""
    DEAD_LETTER_LIMIT = "DeadLetterLimit"
    """The index refuses more rows than allowed. The author reads the dead letters."""
    TARGET_READ_ONLY = "TargetReadOnly"
    """A block refuses writes, such as of a full disk, or there is no room for more shards. The
    OpenSearch administrator lifts it."""
    TARGET_INVALID = "TargetInvalid"
    """An index is not what was asked for, by a template, a setting, or a change of somebody. The
    OpenSearch administrator corrects it."""
    STATE_CORRUPT = "StateCorrupt"
    """No run of this version wrote this state document: somebody edited it, or a newer version
    wrote it, as the message says. The OpenSearch administrator finds out who did."""
    UNAUTHORIZED = "Unauthorized"
    """Credentials are missing, wrong or too weak. The platform engineer corrects them."""
    CATALOG_INVALID = "CatalogInvalid"
    """`catalog.properties` make no catalog in Spark. The author corrects them."""
    MAPPING_INVALID = "MappingInvalid"
    """OpenSearch refuses the mapping or the settings. The author corrects them."""
    ROLLBACK_REFUSED = "RollbackRefused"
    """No earlier index fits a requested rollback. The author changes the spec or the request."""
    BUG = "Bug"
    """An error that nobody expected. The maintainers act."""
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    """The catalog or files cannot be reached. It is retried."""
    TARGET_UNAVAILABLE = "TargetUnavailable"
    """OpenSearch cannot be reached or answers 5xx. It is retried."""
    THROTTLED = "Throttled"
    """OpenSearch answers 429 for too long. It is retried."""
    NO_PROGRESS = "NoProgress"
    """A step did nothing for so long that it was cancelled. It is retried."""
    OUT_OF_MEMORY = "OutOfMemory"
    """Driver or executor ran out of memory. It is retried; the author gives them more."""
    DISK_FULL = "DiskFull"
    """A disk of driver or executor is full. It is retried; the platform engineer makes room."""
    NODE_LOST = "NodeLost"
    """A process or node was lost. It is retried at once."""


class TableStatus(ApiModel):
    """One table: content of its index, and its lag."""

    name: ShortText
    """`namespace.table` as in `spec.tables[].name`."""
    index: Clipped
    """Alias that readers use."""
    state: TableState = TableState.PENDING
    """`Pending`: nothing written yet. `Exporting`: a new index is being filled. `Streaming`: the
    index follows the table. `Complete`: exported, and `mode` is ExportOnly. `Stalled`: see
    `reason` and `message` for who must act."""
    table_uuid: Clipped | None = None
    """UUID of the Iceberg table."""
    applied_snapshot_id: SnapshotId | None = None
    """Snapshot that the index equals; absent before the export and for an empty table."""
    applied_sequence_number: Count | None = None
    """Iceberg sequence number of that snapshot."""
    applied_at: Timestamp | None = None
    """When that snapshot was fully in the index."""
    current_snapshot_id: SnapshotId | None = None
    """Current snapshot of the branch when it was last read."""
    snapshots_behind: Count | None = None
    """Snapshots not yet applied."""
    behind_since: Timestamp | None = None
    """Commit time of the oldest snapshot not yet applied; when it was first seen, if that time is
    not plausible or not known yet. Absent when caught up."""
    lag_seconds: Count | None = None
    """Now minus `behindSince`; 0 when caught up. Computed anew every minute at most, and when it
    has grown by a tenth."""
    export: ExportProgress | None = None
    """The running export, or the last one."""
    export_waits: Flag | None = None
    """True while an export of the table waits for sink.opensearch.limits.exportWindow."""
    rows_upserted: Count = 0
    """Documents written since the first export."""
    rows_deleted: Count = 0
    """Documents deleted since the first export."""
    dead_letters: Count = 0
    """Rows that the index refused and that are still refused."""
    last_batch: LastBatch | None = None
    """Cost of the last batch: snapshots, counts, bytes, times."""
    duplicates: Duplicates | None = None
    """Keys that occur in more than one row; absent when none were seen."""
    snapshot_pinned: Flag | None = None
    """Whether a tag keeps the applied snapshot from being expired, as last tried; absent before
    the first try."""
    pin_message: Message | None = None
    """Why no tag could be set; absent when one is."""
    reason: TableReason | None = None
    """Why the table does not advance; absent when it does."""
    message: Message | None = None
    """Why it does not advance and what to do next; while it is exported anew, why."""
    alias_restored_at: Timestamp | None = None
    """When the last run restored the alias, which somebody else had moved or removed; absent when
    it did not have to."""
    rolled_back_at: Timestamp | None = None
    """When the last run switched readers back to the index before; absent when it did not."""
    verification: Verification | None = None
    """What the last comparison by `spec.resync` or `spec.verify` found; absent when none was
    made."""


class Phase(StrEnum):
    """One word for people. Scripts read conditions."""

    PENDING = "Pending"
    """No run has begun, or a table has nothing in its index yet."""
    EXPORTING = "Exporting"
    """At least one new index is being filled."""
    STREAMING = "Streaming"
    """The indices follow their tables."""
    COMPLETE = "Complete"
    """Every table is exported, and the mode is ExportOnly."""
    RETRYING = "Retrying"
    """The last attempt failed; the next one is planned, and nobody acts yet."""
    STALLED = "Stalled"
    """A person must act, or should know; what may pass by itself is still retried."""
    SUSPENDED = "Suspended"
    """`suspend` is set: nothing is replicated."""
    DELETING = "Deleting"
    """A person has deleted it, and its indices are deleted first."""


class Summary(ApiModel):
    """Totals over all tables, for the columns of `kubectl get`."""

    tables: Annotated[str, Field(max_length=16)] = ""
    """Tables that stream or are complete, of all: `2/3`."""
    snapshots_behind: Count | None = None
    """Greatest `snapshotsBehind` of a table; absent while CaughtUp is Unknown."""
    lag_seconds: Count | None = None
    """Greatest `lagSeconds` of a table; absent while CaughtUp is Unknown."""
    export: Annotated[str, Field(max_length=64)] | None = None
    """Progress of all exports under way: chunks done of all, rows a second, and when the last of
    them has written its rows; absent when there is none."""


UNOBSERVED = -1
"""Default of observedGeneration in the CRD, where no status was ever written. Without it kstatus
would report a pipeline as Current that no operator has reconciled."""

Generation = Annotated[int, Field(strict=True, ge=UNOBSERVED, le=MAX_COUNT)]


def _parse_generation(value: object) -> object:
    # Only the API server writes it, as the default: no operator has reconciled yet.
    return None if value == UNOBSERVED else value


class PipelineStatus(ApiModel):
    """What the operator knows about the pipeline. The progress itself is in OpenSearch: this is a
    copy that may be lost."""

    observed_generation: Annotated[Generation | None, BeforeValidator(_parse_generation)] = None
    """`metadata.generation` that the rest of the status is about; -1 before the first reconcile."""
    conditions: ConditionList = ()
    """The statements that scripts and tools should read."""
    phase: Phase = Phase.PENDING
    """One word for people; it may change between versions."""
    mode: RunKind | None = None
    """Kind of the last planned run: Export, Changelog, Verify, Repair or Deletion."""
    summary: Summary | None = None
    """Totals over all tables."""
    tables: Annotated[
        tuple[TableStatus, ...],
        Field(
            max_length=MAX_TABLES,
            # Written as a whole, by the operator alone. As a map by name the API server would also
            # store who wrote each field of each table: half as much as the status itself.
            json_schema_extra={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    """One entry for each table of the spec, in its order."""
    current_run: RunStatus | None = None
    """The active run, recorded before it is created; absent when there is none."""
    last_run: RunStatus | None = None
    """The run that ended last."""
    recent_runs: Annotated[tuple[RunStatus, ...], Field(max_length=MAX_RECENT_RUNS)] = ()
    """The runs that ended last, newest first, at most 10."""
    consecutive_failures: Count = 0
    """Attempts that failed in a row; a success, or a run that has reported for a minute, sets it to
    0."""
    next_attempt_time: Timestamp | None = None
    """When the next attempt is due; absent when nothing waits. It is in the past
    while the run waits for a limit of active runs: RunActive then has the reason Queued."""
    observed_triggers: ObservedTriggers | None = None
    """The nonces already acted on."""
    observed_ask: ObservedAsk | None = None
    """The question that was asked last by the annotation icebergcdc.dev/ask."""
    operator_version: Clipped | None = None
    """Version that wrote this status."""

    def find_condition(self, wanted: ConditionType) -> Condition | None:
        """Return the condition of type `wanted`; None if it was never set."""
        return next((item for item in self.conditions if item.type == wanted), None)

    def holds(self, wanted: ConditionType) -> bool:
        """Return whether the condition of type `wanted` is set and True."""
        condition = self.find_condition(wanted)
        return condition is not None and condition.status == ConditionStatus.TRUE


def parse_status(document: dict[str, Any]) -> PipelineStatus:
    """Return `document` as a status. ValidationError of pydantic for what no version wrote."""
    return PipelineStatus.model_validate(document, by_alias=True, by_name=False)
