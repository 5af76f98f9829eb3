"""Answers `icdc plan`, `verify`, `verify --repair` and `dead-letters` for one table.

Plan, verify and the list of dead letters change nothing. A comparison that the operator has planned
is different: it finishes an open batch first, or an idle table could not be compared until its next
commit, and it renews the tag of a table that no other run reads.

Example, the entry of `icdc plan` for a table that is one commit behind:

    {"name": "shop.orders", "index": "orders", "mode": "Changelog",
     "fromSnapshotId": "77", "toSnapshotId": "78", "why": "", "mappingChanges": [],
     "filesAdded": 1, "filesRemoved": 1, "filesWithNewDeletes": 0, "rows": 20, "bytes": 4096,
     "tableBytes": 81920, "tableRows": 400, "strategy": "OneRead",
     "estimate": {"cpuSeconds": [0.5, 1.5], "seconds": [0.1, 1.5]},
     "exportEstimate": {"cpuSeconds": [0.5, 1.5], "seconds": [0.1, 1.5]}, "cheaper": None}

It must not know how the entries of all tables become one answer.
"""

from collections.abc import Callable, Iterable
from contextlib import closing

from pyspark.sql import SparkSession

from icdc_api.errors import PassingError, TableError
from icdc_api.job.answers import ComparisonEntry, PlanEntry, ReplayEntry, TableEntry
from icdc_spark.diff.change_plan import ChangePlan, choose_planner
from icdc_spark.diff.strategies import choose_strategy
from icdc_spark.iceberg.changes.stated_files import StatedFiles, read_totals
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.iceberg.table.tables import SnapshotInfo
from icdc_spark.protocol.state_document import IntentKind
from icdc_spark.protocol.steps import StepKind
from icdc_spark.readers.choose import can_read_lineage
from icdc_spark.replication import batches, export
from icdc_spark.replication.checks.table_observation import TableObservation, TableObserver
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import TableRun
from icdc_spark.verification import comparison, estimates, refused_rows

_NO_FILES: PlanEntry = {
    "filesAdded": 0,
    "filesRemoved": 0,
    "filesWithNewDeletes": 0,
    "rows": 0,
    "bytes": 0,
    "tableBytes": None,
    "tableRows": None,
    "strategy": None,
    "estimate": None,
    "exportEstimate": None,
    "cheaper": None,
}


def plan(context: TableContext) -> TableEntry:
    """Return what the next run would do, and which files, rows and bytes it would read."""
    return answer(context, lambda: _plan(context))


def verify(context: TableContext) -> TableEntry:
    """Compare index and table, and return counts and samples of what differs."""
    return answer(context, lambda: _compare(context, repair=False))


def repair(context: TableContext) -> TableEntry:
    """Compare index and table, and write the documents that differ again."""
    return answer(context, lambda: _compare(context, repair=True))


def list_dead_letters(context: TableContext) -> TableEntry:
    """Return the rows that the index refused."""
    return answer(context, lambda: refused_rows.list_refused(context))


def replay_dead_letters(context: TableContext) -> TableEntry:
    """Send rows that the index refused again."""
    return answer(context, lambda: _replay(context))


def _replay(context: TableContext) -> ReplayEntry:
    with closing(TableObserver(context)) as observer:
        return refused_rows.replay(context, observer)


def answer(context: TableContext, inspect: Callable[[], TableEntry]) -> TableEntry:
    """Return the table's entry; `reason` and `message` instead of an answer where it fails."""
    entry: TableEntry = {"name": context.table.name, "index": context.alias}
    try:
        return entry | inspect()
    except (TableError, PassingError) as error:
        # Everything else ends the answer as a whole: it would fail for the other tables as well.
        return entry | {"reason": type(error).__name__, "message": error.message}


def _compare(context: TableContext, *, repair: bool) -> ComparisonEntry:
    is_planned = context.request.tables is not None
    with closing(TableRun(context)) as run:
        # Not when a person asks, who wants to see what is there: an open batch is left as it is.
        if is_planned:
            comparison.finish_batch(run)
        entry = comparison.verify(context, run.observer, repair=repair)
        if is_planned:
            comparison.renew_tag(run)
        return entry


def _plan(context: TableContext) -> PlanEntry:
    with closing(TableObserver(context)) as observer:
        observation = observer.choose_cheaper(observer.observe(observer.load_state()))
        step = observation.step
        # A run would raise it before it wrote anything, so the plan is not what it shows.
        documents = observer.resolve_documents_at(observation, step.to_id)
        observer.check_filter(observation.table, step.to_id, documents)
        return {
            "mode": step.kind.value,
            "fromSnapshotId": step.from_id,
            "toSnapshotId": step.to_id,
            "why": step.reason,
            "mappingChanges": list(observation.compatibility.added),
            **_measure_files(observation, _find_means(context, observer.session, observation)),
        }


def _find_means(
    context: TableContext, session: SparkSession, observation: TableObservation
) -> estimates.Means:
    """Return what the next run would do its work with."""
    spark, limits = context.spec.spark, context.opensearch.limits
    cores = spark.most_executors * spark.executor.cores
    # On a host the driver is all there is; in a cluster a plan has no executors to count.
    if str(session.sparkContext.master).startswith("local"):
        cores = session.sparkContext.defaultParallelism
    return estimates.Means(
        columns=len(observation.documents.columns),
        cores=cores,
        documents_per_second=(limits and limits.documents_per_second) or 0,
    )


def _measure_files(observation: TableObservation, means: estimates.Means) -> PlanEntry:
    """Return the files, rows and bytes that the step would read, and what that costs."""
    step, table = observation.step, observation.table
    is_export = step.kind is StepKind.EXPORT or (
        step.intent is not None and step.intent.kind is IntentKind.EXPORT
    )
    if step.to_id is None or step.kind in (StepKind.IDLE, StepKind.COMPLETE):
        return _NO_FILES
    to_id = int(step.to_id)
    if is_export:
        planned = export.plan(table, to_id)
        size: PlanEntry = {"rows": planned.records, "bytes": planned.bytes}
        cost = estimates.estimate(estimates.measure_export(planned.records), means)
        return _NO_FILES | {"filesAdded": planned.files, **size, "estimate": cost}
    if step.kind is StepKind.BEGIN:
        # The index is created empty: StreamOnly reads nothing at its start.
        return _NO_FILES
    from_id, totals = int(step.from_id) if step.from_id else None, read_totals(table, to_id)
    whole: PlanEntry = {"tableBytes": totals.bytes, "tableRows": totals.rows}
    if unplanned := batches.list_unplanned(table, from_id, to_id):
        return _NO_FILES | whole | _add_up(unplanned)
    changes = choose_planner(observation.documents)(table, from_id, to_id)
    # Not among `shared_after`: to whoever reads the answer, both have new deletes.
    by_equality = sum(part.data.files for part in changes.value_deletes)
    return {
        "filesAdded": changes.added.files,
        "filesRemoved": changes.removed.files,
        "filesWithNewDeletes": changes.shared_after.files + by_equality,
        **_measure_size(changes.groups),
        **whole,
        **_compare_costs(observation, changes, totals.rows, means),
    }


def _add_up(unplanned: Iterable[tuple[SnapshotInfo, StatedFiles]]) -> PlanEntry:
    """Return the files, rows and bytes of a backlog as the writers of its snapshots state them."""
    # Of a compaction no file is read.
    stated = [one for snapshot, one in unplanned if snapshot.operation != "replace"]
    return {
        "filesAdded": sum(one.added for one in stated),
        "filesRemoved": sum(one.removed for one in stated),
        "rows": sum(one.rows for one in stated),
        "bytes": sum(one.bytes for one in stated),
        "message": f"more than {batches.BATCH_FILES:,} files changed: they are applied in several "
        "batches, and the counts are what the writers of the snapshots state",
    }


def _compare_costs(
    observation: TableObservation,
    changes: ChangePlan,
    table_rows: int | None,
    means: estimates.Means,
) -> PlanEntry:
    """Return how rows would be compared, what that costs, and whether an export would cost less."""
    if changes.is_empty:
        return {"strategy": None, "estimate": None, "exportEstimate": None, "cheaper": None}
    lineage = can_read_lineage(observation.table, changes.to_id, observation.documents)
    strategy = choose_strategy(changes, lineage=lineage)
    cost = estimates.estimate(estimates.measure_changes(changes, strategy), means)
    export_cost = None
    if table_rows is not None:
        export_cost = estimates.estimate(estimates.measure_export(table_rows), means)
    return {
        "strategy": strategy.value,
        "estimate": cost,
        "exportEstimate": export_cost,
        "cheaper": export_cost and estimates.choose_cheaper(cost, export_cost),
    }


def _measure_size(groups: Iterable[FileGroup]) -> PlanEntry:
    # Taken twice: `groups` may be an iterator.
    groups = list(groups)
    return {"rows": _sum(groups, "records"), "bytes": _sum(groups, "bytes")}


def _sum(groups: Iterable[FileGroup], field: str) -> int:
    return sum(int(getattr(group, field)) for group in groups)
