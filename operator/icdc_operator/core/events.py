"""Events for people: what changed between two statuses. Pure.

Each change is one event; the present state is in the conditions. Reasons are part of the API.
Whether Kubernetes or a terminal shows them is not known here.

    before                  after                        events
    -                       generation 2, SpecValid      SpecAccepted
    run shop-c7-1           run ended with a failure     RunFailed, RunRetrying
    no current run          shop-c7-2 Planned            RunPlanned
    orders Streaming        orders Stalled (Gap)         TableStalled (warning)
    orders Stalled          orders Exporting             TableResumed, Reexporting
    orders Streaming        orders Exporting ("gap: …")  Gap (warning), Reexporting
    resync nonce 4          resync nonce 5               ResyncRequested
    500 tables Streaming    500 tables Stalled           TableStalled (warning) of 500 tables
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from icdc_api import naming
from icdc_api.base import MAX_TABLES, drop_name, format_count, shorten
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus
from icdc_api.status.runs import RunState, RunStatus
from icdc_api.status.table_parts import GAP_CAUSE
from icdc_operator.core.asked import verification
from icdc_operator.core.asked.verification import ComparisonResult
from icdc_operator.core.conditions import deleting
from icdc_operator.core.conditions.messages import (
    AFTER_DIFFERENCES,
    AFTER_REFUSALS,
    MAX_LIST,
    MAX_LISTED,
    join_clauses,
    list_some,
    list_tables,
    require_owners,
)

_EVENT_BY_RESULT = {
    ComparisonResult.EQUAL: ("Verified", False),
    ComparisonResult.REPAIRED: ("Repaired", False),
    ComparisonResult.DIFFERENT: ("DifferencesFound", True),
    ComparisonResult.NOT_VERIFIED: ("NotVerified", True),
}
"""Reason of the event for a result, and whether it is a warning."""


@dataclass(frozen=True)
class Event:
    """One change, in the words of the API."""

    reason: str
    """One CamelCase word for scripts."""
    message: str
    """What changed, for a person."""
    warning: bool = False
    """Whether somebody should read it: type Warning in Kubernetes, else Normal."""


def derive_events(before: PipelineStatus, after: PipelineStatus) -> list[Event]:
    """Return the events from `before` to `after`, in the order in which they are shown."""
    # In the order of causes: the spec explains what tables and runs do, an end comes before a plan.
    return [
        *_list_spec_events(before, after),
        *_list_request_events(before, after),
        *_list_tables_events(before, after),
        *_list_ended_run_events(before, after),
        *_list_comparison_events(before, after),
        *_list_current_run_events(before, after),
        *_list_export_window_events(before, after),
        *_list_deletion_events(before, after),
    ]


def _list_spec_events(before: PipelineStatus, after: PipelineStatus) -> Iterator[Event]:
    valid = after.find_condition(ConditionType.SPEC_VALID)
    if valid is not None and before.observed_generation != after.observed_generation:
        if after.holds(ConditionType.SPEC_VALID):
            text = f"the spec of generation {after.observed_generation} is accepted"
            # A message of a valid spec is a caution: it is allowed, but hardly wanted.
            message = f"{text}; {valid.message}" if valid.message else text
            yield Event("SpecAccepted", message, warning=bool(valid.message))
        else:
            text = f"no run starts until the spec of generation {after.observed_generation}"
            yield Event("SpecInvalid", f"{text} is corrected: {valid.message}", warning=True)
    was, now = (status.holds(ConditionType.SUSPENDED) for status in (before, after))
    if now and not was:
        yield Event("Suspended", "the pipeline is suspended; progress is retained")
    if was and not now:
        yield Event("Resumed", "the pipeline is resumed from where it stopped")


def _list_request_events(before: PipelineStatus, after: PipelineStatus) -> Iterator[Event]:
    """Yield an event where `spec.resync.nonce` was raised, once a run is planned for it."""
    was, now = before.observed_triggers, after.observed_triggers
    # Without a status before nobody knows whether the nonce is new.
    if was is None or now is None or now.resync is None or now.resync_nonce <= was.resync_nonce:
        return
    request, names = now.resync, now.resync.tables
    which = list_some(names, total=len(names)) if names else "all tables"
    text = f"spec.resync.nonce {request.nonce} asks for {request.mode.value} of {which}"
    yield Event("ResyncRequested", text)


def _list_ended_run_events(before: PipelineStatus, after: PipelineStatus) -> Iterator[Event]:
    last = after.last_run
    if last is None or (before.last_run is not None and before.last_run.epoch == last.epoch):
        return
    if last.failure is None:
        yield Event("RunSucceeded", f"run {last.name} has succeeded")
        return
    text = f"run {last.name} has failed: {last.failure.failure_class.value}"
    yield Event("RunFailed", f"{text}: {last.failure.message}", warning=True)
    # Without a next attempt the run is given up, which the condition Stalled explains.
    run, due = after.current_run, after.next_attempt_time
    if due is not None:
        yield Event("RunRetrying", f"run {last.name} is retried at {due:%H:%M:%S} UTC")
    elif run is not None and run.sequence == last.sequence and run.attempt > last.attempt:
        yield Event("RunRetrying", f"run {last.name} is retried at once, as {run.name}")


def _list_comparison_events(before: PipelineStatus, after: PipelineStatus) -> Iterator[Event]:
    """Yield one event for each result, however many tables were compared."""
    old = {table.name: table.verification for table in before.tables}
    compared = [table for table in after.tables if table.verification != old.get(table.name)]
    for result, tables in verification.group_by_result(compared).items():
        if tables:
            reason, warning = _EVENT_BY_RESULT[result]
            text = list_tables(tables, verification.describe_table)
            if result is ComparisonResult.DIFFERENT:
                text = join_clauses(text, AFTER_DIFFERENCES)
            yield Event(reason, text, warning)


def _list_current_run_events(before: PipelineStatus, after: PipelineStatus) -> Iterator[Event]:
    run = after.current_run
    if run is None:
        return
    # By epoch, not by name: after a lost status a name may return for another run.
    old = before.current_run
    if old is not None and old.epoch != run.epoch:
        old = None
    if old is None:
        text = f"run {run.name} is planned ({run.kind.value}, attempt {run.attempt})"
        yield Event("RunPlanned", text)
    if _is_running(run) and not (old is not None and _is_running(old)):
        yield Event("RunStarted", f"the driver of run {run.name} has started")


def _list_export_window_events(before: PipelineStatus, after: PipelineStatus) -> Iterator[Event]:
    """Yield an event where no run is active and exports begin to wait."""
    was, now = (status.find_condition(ConditionType.RUN_ACTIVE) for status in (before, after))
    if (
        now is not None
        and now.reason == "ExportWindow"
        and (was is None or was.reason != now.reason)
    ):
        yield Event("ExportWaits", now.message)


def _list_deletion_events(before: PipelineStatus, after: PipelineStatus) -> Iterator[Event]:
    """Yield the last event of a pipeline that is removed: what became of its indices."""
    was, now = (status.find_condition(ConditionType.READY) for status in (before, after))
    ends = (deleting.REASON_DELETED, deleting.REASON_RETAINED)
    if now is None or now.reason not in ends or (was is not None and was.reason == now.reason):
        return
    yield Event(now.reason, now.message, warning=now.reason == deleting.REASON_RETAINED)


def _is_running(run: RunStatus) -> bool:
    return run.state in (RunState.RUNNING, RunState.STOPPING) and run.started_at is not None


def _list_tables_events(before: PipelineStatus, after: PipelineStatus) -> Iterator[Event]:
    """Yield the events of the tables; those of many tables with one reason as one event."""
    old = {table.name: table for table in before.tables}
    every = [
        (event, table)
        for table in after.tables
        for event in _list_table_events(old.get(table.name), table)
    ]
    by_reason: dict[str, list[tuple[Event, TableStatus]]] = {}
    for event, table in every:
        by_reason.setdefault(event.reason, []).append((event, table))
    for event, table in every:
        same = by_reason[event.reason]
        if len(same) <= MAX_LISTED:
            yield _say_next(event, event.message, [table])
        elif event is same[0][0]:
            text = list_some([one.message for one, _ in same], total=len(same))
            # The number first: an Event has fewer bytes than a condition.
            yield _say_next(event, f"{len(same)} tables: {text}", [table for _, table in same])


def _say_next(event: Event, text: str, tables: Sequence[TableStatus]) -> Event:
    """Return `event` with the message `text`, which is about `tables`, and with who does what."""
    match event.reason:
        case "TableStalled":
            what_next = require_owners(tables) or "it is retried"
        case "DeadLetters":
            what_next = AFTER_REFUSALS
        case _:
            return replace(event, message=text)
    # Cut here, or the end would be cut where the Event is posted; the number of tables fits too.
    text = shorten(text, MAX_LIST + len(f"{MAX_TABLES} tables: "))
    return replace(event, message=join_clauses(text, what_next))


def _count_repeats(table: TableStatus | None) -> int:
    return (table.export.repeats or 0) if table is not None and table.export is not None else 0


def _list_table_events(old: TableStatus | None, new: TableStatus) -> Iterator[Event]:
    was = TableState.PENDING if old is None else old.state
    in_place = (TableState.STREAMING, TableState.COMPLETE)
    # Another reason is another event: somebody else may have to act now.
    if new.state == TableState.STALLED and (
        old is None or (old.state, old.reason) != (new.state, new.reason)
    ):
        reason = "" if new.reason is None else f" {new.reason.value}:"
        message = drop_name(new.name, new.message or "")
        yield Event("TableStalled", f"{new.name}:{reason} {message}".strip(), True)
    if was == TableState.STALLED and new.state != TableState.STALLED:
        yield Event("TableResumed", f"{new.name} is no longer stalled")
    was_waiting = old is not None and bool(old.export_waits)
    begins = not new.export_waits and (was_waiting or was != TableState.EXPORTING)
    if new.state == TableState.EXPORTING and begins:
        # With an applied snapshot there is an older index, which readers see meanwhile.
        if old is not None and old.applied_snapshot_id is not None:
            yield from _list_reexport_events(new)
        else:
            yield _say_started(new)
    # Without progress nothing was exported: StreamOnly began, or a lost status is known again.
    unseen = was == TableState.PENDING and new.export is not None
    if new.state in in_place and (unseen or was == TableState.EXPORTING):
        if unseen:  # over before a report of it was read
            yield _say_started(new)
        export = new.export or (old.export if old is not None else None)
        rows = "all rows" if export is None else format_count(export.rows, "row")
        yield Event("ExportCompleted", f"{new.name}: the index {new.index} has {rows}")
    yield from _list_index_events(old, new)


def _say_started(table: TableStatus) -> Event:
    text = f"readers find it as {table.index} once it is complete"
    return Event("ExportStarted", f"{table.name} is exported to a new index; {text}")


def _list_reexport_events(table: TableStatus) -> Iterator[Event]:
    """Yield why a table that has an index is exported to another one."""
    # The driver of an earlier version reports no cause; with a reason, the message is of a failure.
    cause = table.message or "" if table.reason is None else ""
    if cause.startswith(GAP_CAUSE):
        lost = cause.removeprefix(GAP_CAUSE)
        text = f"{table.name}: {lost}, so the changes since the applied snapshot are unknown"
        yield Event("Gap", text, warning=True)
    because = f" ({cause})" if cause else ""
    text = f"until it is complete, readers of {table.index} stay where they are"
    yield Event("Reexporting", f"{table.name} is exported to a new index{because}; {text}")


def _list_index_events(old: TableStatus | None, new: TableStatus) -> Iterator[Event]:
    """Yield what happened to the index of a table, whatever its state is."""
    # A warning although it is repeated: whoever writes into our indices will do it again.
    if _count_repeats(new) > _count_repeats(old):
        text = f"{new.name}: the new index did not hold what was written into it"
        yield Event("ExportRepeated", f"{text}; the export is repeated once", warning=True)
    # A warning although it is restored: whoever moves our aliases will most likely do it again.
    if new.alias_restored_at not in (None, old.alias_restored_at if old is not None else None):
        text = f"{new.name}: somebody moved or removed the alias {new.index}; it is restored"
        yield Event("AliasMoved", text, warning=True)
    if new.rolled_back_at not in (None, old.rolled_back_at if old is not None else None):
        text = f"{new.name}: readers of {new.index} see the previous index again"
        yield Event("RolledBack", f"{text}; what was committed since is applied to it")
    if new.dead_letters > (0 if old is None else old.dead_letters):
        stored = naming.name_dead_letters_index(new.index)
        rows = format_count(new.dead_letters, "row")
        text = f"{new.name}: the index refuses {rows}, stored in {stored}"
        yield Event("DeadLetters", text, warning=True)
