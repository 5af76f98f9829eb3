"""The largest pipelines and statuses that the models allow: every field set, to its limit."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from icdc_api.base import MAX_COUNT, MAX_NAME, MAX_TABLES, MAX_TEXT
from icdc_api.errors import FailureClass, WhoActs
from icdc_api.naming import MAX_INDEX_BYTES, MAX_TABLE_NAME
from icdc_api.status.conditions import Condition, ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import (
    MAX_RECENT_RUNS,
    MAX_SAMPLES,
    Duplicates,
    ExportProgress,
    LastBatch,
    Phase,
    PipelineStatus,
    Summary,
    TableReason,
    TableState,
    TableStatus,
    Verification,
)
from icdc_api.status.runs import Failure, ResyncMode, Rival, RunKind, RunState, RunStatus
from icdc_api.status.triggers import ObservedAsk, ObservedResync, ObservedTriggers
from icdc_testing.kube.stored_pipelines import make_minimal

NOW = datetime(2026, 11, 25, 12, 34, 56, 789000, tzinfo=UTC)
SNAPSHOT = "9223372036854775807"
ROWS = 10**11
MANY = 10**6
UUID = "3f0c1a52-7f0e-4d52-9f6b-0c8f5a7e2d11"
REASON = "R" * 128

_COSTS = LastBatch.model_fields.keys() - {"at", "from_snapshot_id", "to_snapshot_id"}

Resource = dict[str, Any]


def make_long_name(number: int, length: int = MAX_TABLE_NAME) -> str:
    """Return the name of a table, or by the length of an index: unique, in lower case."""
    return f"shop.{number:06d}".ljust(length, "x")


def make_many_tables(count: int = MAX_TABLES, *, name: str = "shop", **fields: Any) -> Resource:
    """Return a pipeline of `count` tables, `shop.t0` and so on; `fields` of each of them."""
    tables = [{"name": f"shop.t{number}", **fields} for number in range(count)]
    return make_minimal(name, tables=tables)


def make_longest_names(count: int = MAX_TABLES, *, name: str = "shop") -> Resource:
    """Return a pipeline of the longest names of tables and indices, all in its resync."""
    tables = [
        {"name": make_long_name(number), "index": make_long_name(number, MAX_INDEX_BYTES)}
        for number in range(count)
    ]
    return make_minimal(name, tables=tables)


_EXPORT = ExportProgress(
    snapshot_id=SNAPSHOT,
    chunks_total=MANY,
    chunks_done=MANY,
    rows=ROWS,
    rows_total=ROWS,
    rows_per_second=ROWS,
    estimated_end=NOW,
    repeats=MANY,
)


def make_full_table(
    name: str, index: str, text: str = "m", *, samples: int = MAX_SAMPLES
) -> TableStatus:
    """Return the largest entry of a table: every field, `text` in messages up to their limits."""
    return TableStatus(
        name=name,
        index=index,
        state=TableState.EXPORTING,
        table_uuid=UUID,
        applied_snapshot_id=SNAPSHOT,
        applied_sequence_number=MANY,
        applied_at=NOW,
        current_snapshot_id=SNAPSHOT,
        snapshots_behind=MANY,
        behind_since=NOW,
        lag_seconds=MANY,
        export=_EXPORT,
        rows_upserted=ROWS,
        rows_deleted=ROWS,
        dead_letters=MANY,
        duplicates=Duplicates(count=MANY, samples=(text * MAX_NAME,) * samples),
        snapshot_pinned=False,
        pin_message=text * MAX_TEXT,
        reason=TableReason.INCOMPATIBLE_SCHEMA,
        message=text * MAX_TEXT,
        alias_restored_at=NOW,
        rolled_back_at=NOW,
        verification=Verification(
            nonce=MANY,
            at=NOW,
            snapshot_id=SNAPSHOT,
            equal=False,
            rows=ROWS,
            documents=ROWS,
            missing=MANY,
            extra=MANY,
            different=MANY,
            repaired=MANY,
            samples=(text * MAX_NAME,) * samples,
            reason=max(TableReason, key=len).value,
            message=text * MAX_NAME,
        ),
        last_batch=LastBatch(at=NOW, **dict.fromkeys(_COSTS, ROWS)),
    )


def make_full_run(text: str = "m") -> RunStatus:
    """Return the largest record of a run."""
    return RunStatus(
        name="r" * MAX_NAME,
        kind=RunKind.DEAD_LETTERS,
        sequence=MAX_COUNT,
        attempt=MAX_COUNT,
        epoch=MAX_COUNT,
        state=RunState.SUBMITTED,
        run_id="r" * MAX_NAME,
        ask="a" * MAX_NAME,
        generation=MAX_COUNT,
        planned_at=NOW,
        started_at=NOW,
        finished_at=NOW,
        failure=make_full_failure(text),
    )


def make_full_failure(text: str = "m") -> Failure:
    """Return the largest failure."""
    return Failure(
        failure_class=FailureClass.SOURCE_UNAVAILABLE,
        reason=REASON,
        message=text * MAX_TEXT,
        retryable=False,
        who_acts=max(WhoActs, key=len),
        rival=Rival(epoch=MAX_COUNT, run_id="r" * MAX_NAME),
    )


def make_full_status(
    tables: Iterable[TableStatus], resync: Sequence[str] = (), text: str = "m"
) -> PipelineStatus:
    """Return the largest status with these entries."""
    run, failure = make_full_run(text), make_full_failure(text)
    return PipelineStatus(
        observed_generation=MAX_COUNT,
        conditions=tuple(
            Condition(
                type=kind,
                status=ConditionStatus.UNKNOWN,
                reason=REASON,
                message=text * MAX_TEXT,
                last_transition_time=NOW,
                observed_generation=MAX_COUNT,
            )
            for kind in ConditionType
        ),
        phase=Phase.SUSPENDED,
        mode=RunKind.DEAD_LETTERS,
        summary=Summary(
            tables="500/500", snapshots_behind=MAX_COUNT, lag_seconds=MAX_COUNT, export="9" * 64
        ),
        tables=tuple(tables),
        current_run=run,
        last_run=run,
        recent_runs=(run,) * MAX_RECENT_RUNS,
        consecutive_failures=MAX_COUNT,
        next_attempt_time=NOW,
        observed_triggers=ObservedTriggers(
            restart_nonce=MAX_COUNT,
            resync_nonce=MAX_COUNT,
            verified_nonce=MAX_COUNT,
            resync=ObservedResync(
                nonce=MAX_COUNT, mode=ResyncMode.REPAIR, tables=tuple(resync), id=MAX_COUNT
            ),
        ),
        observed_ask=ObservedAsk(
            id="a" * MAX_NAME, run="r" * MAX_NAME, finished=False, failure=failure
        ),
        operator_version="v" * MAX_NAME,
    )
