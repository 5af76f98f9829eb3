"""What `icdc plan`, `verify` and `dead-letters` answer for one table. Plan, verify and the list of
dead letters change nothing.

A comparison that the operator has planned finishes first what it finds under way."""

from collections.abc import Iterable
from typing import Any

from icdc_api.errors import PassingError, TableError
from icdc_api.job import RunMode
from icdc_spark.diff.change_plan import ChangePlan, choose_planner
from icdc_spark.diff.strategies import choose_strategy
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.protocol import next_step
from icdc_spark.readers.choose import can_read_lineage
from icdc_spark.replication import export
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import Look, TableRun
from icdc_spark.verification import comparison, refused_rows

Entry = dict[str, Any]

_NO_FILES: Entry = {
    "filesAdded": 0,
    "filesRemoved": 0,
    "filesWithNewDeletes": 0,
    "rows": 0,
    "bytes": 0,
    "strategy": None,
}


def inspect(context: TableContext) -> Entry:
    """The entry of one table; a table that cannot be inspected has `reason` and `message`."""
    entry: Entry = {"name": context.table.name, "index": context.alias}
    try:
        if context.request.mode is RunMode.LETTERS:
            return entry | refused_rows.listed(context)
        run = TableRun(context)
        if context.request.mode is RunMode.REPLAY:
            return entry | refused_rows.replay(context, run)
        if context.request.mode is RunMode.PLAN:
            look = run.look(run.load())
            run.check_filter(look, run.documents_at(look, look.step.to_id))
            return entry | _plan(look)
        if context.request.tables is not None:
            comparison.finish_batch(run)
        repair = context.request.mode is RunMode.REPAIR
        return entry | comparison.verify(context, run, repair=repair)
    except (TableError, PassingError) as error:
        return entry | {"reason": type(error).__name__, "message": error.message}


def _plan(look: Look) -> Entry:
    """What the next run would do."""
    step = look.step
    return {
        "mode": step.kind.value,
        "fromSnapshotId": step.from_id,
        "toSnapshotId": step.to_id,
        "why": step.reason,
        "mappingChanges": list(look.added_fields),
        **_work(look),
    }


def _work(look: Look) -> Entry:
    """Files, rows and bytes that the step would read."""
    step = look.step
    exports = step.kind is next_step.StepKind.EXPORT or (
        step.intent is not None and step.intent.kind == "Export"
    )
    if step.to_id is None or step.kind in (next_step.StepKind.IDLE, next_step.StepKind.COMPLETE):
        return _NO_FILES
    to_id = int(step.to_id)
    if exports:
        chunks = export.plan(look.table, to_id)
        groups = [chunk.group for chunk in chunks]
        return _NO_FILES | {"filesAdded": _sum(groups, "files"), **_size(groups)}
    if step.kind is next_step.StepKind.BEGIN:
        return _NO_FILES
    plan = choose_planner(look.documents)(
        look.table, int(step.from_id) if step.from_id else None, to_id
    )
    return {
        "filesAdded": plan.added.files,
        "filesRemoved": plan.removed.files,
        "filesWithNewDeletes": plan.shared_after.files
        + sum(each.data.files for each in plan.value_deletes),
        **_size(plan.groups),
        "strategy": _strategy(look, plan),
    }


def _strategy(look: Look, plan: ChangePlan) -> str | None:
    """How rows would be compared; None where none are."""
    if plan.is_empty:
        return None
    lineage = can_read_lineage(look.table, plan.to_id, look.documents)
    return choose_strategy(plan, lineage=lineage).value


def _size(groups: Iterable[FileGroup]) -> Entry:
    listed = list(groups)
    return {"rows": _sum(listed, "records"), "bytes": _sum(listed, "bytes")}


def _sum(groups: Iterable[FileGroup], what: str) -> int:
    return sum(int(getattr(group, what)) for group in groups)
