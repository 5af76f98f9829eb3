"""Compare two statuses without the progress of their tables. Pure.

Everything that a person or a script waits for (a state, a condition, a run, a nonce) is written at
once. Counters and snapshots wait a few seconds, because each write wakes every watcher.

    rowsUpserted 10 -> 20, lagSeconds 4 -> 5     progress only: the write may wait
    state Exporting -> Streaming                 written now
"""

from icdc_api.status.conditions import Condition, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, Summary, TableStatus

# Field and the value that stands for "any": both statuses get it before they are compared.
_PROGRESS_OF_TABLE = {
    "applied_snapshot_id": None,
    "applied_sequence_number": None,
    "applied_at": None,
    "current_snapshot_id": None,
    "snapshots_behind": None,
    "behind_since": None,
    "lag_seconds": None,
    "export": None,
    "rows_upserted": 0,
    "rows_deleted": 0,
    "dead_letters": 0,
    "duplicates": None,
    "message": None,
    "pin_message": None,
    "last_batch": None,
}
_PROGRESS_OF_SUMMARY = {"snapshots_behind": None, "lag_seconds": None, "export": None}


PROGRESS_SECONDS = 5.0
"""Least time between two writes of a status that differ in progress alone."""

TABLES_PER_SECOND = 20
"""Tables whose progress is written in a second: each write stores and sends all of them."""


def compute_progress_seconds(status: PipelineStatus) -> float:
    """Return the time between two writes of progress: 5 s up to 100 tables, 25 s for 500."""
    return max(PROGRESS_SECONDS, len(status.tables) / TABLES_PER_SECOND)


def is_progress_only(before: PipelineStatus, after: PipelineStatus) -> bool:
    """Return whether both are the same in states, conditions, runs and all else but progress."""
    return _without_progress(before) == _without_progress(after)


def _without_progress(status: PipelineStatus) -> PipelineStatus:
    return status.model_copy(
        update={
            # Two operators of different versions would write it by turns, as fast as they can.
            "operator_version": None,
            "tables": tuple(_without_table_progress(table) for table in status.tables),
            "summary": _without_summary_progress(status.summary),
            "conditions": tuple(
                _without_message(condition)
                for condition in status.conditions
                # CaughtUp changes with every batch: it is lag as a condition.
                if condition.type != ConditionType.CAUGHT_UP
            ),
        }
    )


def _without_table_progress(table: TableStatus) -> TableStatus:
    return table.model_copy(update=_PROGRESS_OF_TABLE)


def _without_summary_progress(summary: Summary | None) -> Summary | None:
    return None if summary is None else summary.model_copy(update=_PROGRESS_OF_SUMMARY)


def _without_message(condition: Condition) -> Condition:
    """Return the condition without its message, which may count what is left to do."""
    return condition.model_copy(update={"message": ""})
