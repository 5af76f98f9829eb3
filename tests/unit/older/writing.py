"""Writes with the code of today all that a version stores, of a fixed table at fixed moments.

`python tests/unit/older/writing.py` prints the file of a version: state documents, mapping, status,
report and request, as JSON. A file is never edited: where the form changes, a new one is written.
"""

import json
import sys
from datetime import UTC, datetime
from typing import Any

from icdc_api import errors
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.status.conditions import Condition, ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import (
    Duplicates,
    ExportProgress,
    PipelineStatus,
    TableReason,
    TableState,
    TableStatus,
)
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.documents.schema import parse_schema
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.protocol.state_document import (
    Applied,
    Intent,
    IntentKind,
    Owner,
    Shards,
    SourceTable,
    StateDocument,
    Totals,
)

TEXT = "2026-03-01T10:00:00Z"
MOMENT = datetime(2026, 3, 1, 10, tzinfo=UTC)


def build_all() -> dict[str, Any]:
    """Return all that is stored, by what it is."""
    report = build_report()
    return {
        "states": {name: document.to_source() for name, document in build_states().items()},
        "mapping": build_index_mapping(build_documents(), table_uuid="t-1"),
        "status": build_status().to_resource(),
        "report": report.to_resource(),
        "annotation": report_text.to_annotation(report),
        "termination": report_text.to_termination_message(report),
        "request": build_request().to_resource(),
    }


def build_documents() -> DocumentSpec:
    """Return the documents of the table."""
    fields = [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "total", "required": False, "type": "decimal(9, 2)"},
    ]
    form = {"type": "struct", "schema-id": 4, "identifier-field-ids": [1], "fields": fields}
    wishes = DocumentWishes(row_filter="total > 0", mapping={"total": {"type": "double"}})
    return resolve_spec("shop.orders", parse_schema(json.dumps(form)), wishes)


def build_states() -> dict[str, StateDocument]:
    """Return the state document at each point of the life of a table."""
    begun = StateDocument(
        alias="orders",
        owner=Owner(pipeline="default/shop", epoch=4, run_id="run-4"),
        source=SourceTable(table="shop.orders", uuid="t-1", branch="main"),
        document_spec=build_documents().hash,
        updated_at=TEXT,
    )
    export = _make_intent(IntentKind.EXPORT, None, "77", ordinal=1, chunks=2)
    cut = "entries of manifests, 2097152 bytes, 25000 rows"
    export = export.model_copy(update={"cut": cut})
    exporting = begun.with_intent(export, now=TEXT).complete_chunk(0, rows=10, now=TEXT)
    shards = Shards(histories="abc", max_seq_nos=[14, -1])
    written = exporting.complete_chunk(1, rows=5, now=TEXT)
    swapping = written.begin_swap(shards=shards, now=TEXT)
    applied = Applied(snapshot_id="77", sequence_number=3, committed_at=TEXT, ordinal=1)
    exported = swapping.advance(applied, now=TEXT, batch=Totals(upserted=15))
    batch = _make_intent(IntentKind.CHANGELOG, "77", "78", ordinal=2, chunks=1)
    again = _make_intent(IntentKind.EXPORT, None, "78", ordinal=2, chunks=1)
    again = again.model_copy(update={"index": "orders-000002", "index_uuid": "another uuid"})
    return {
        "begun": begun,
        "exporting": exporting,
        "swapping": swapping,
        "exported": exported,
        "replacing": exported.retain_served(None, now=TEXT).with_intent(again, now=TEXT),
        "changing": exported.with_intent(batch, now=TEXT).with_nodes({"b": 2}, {"a": 1}, now=TEXT),
    }


def _make_intent(
    kind: IntentKind, from_: str | None, to: str, *, ordinal: int, chunks: int
) -> Intent:
    return Intent(
        kind=kind,
        from_=from_,
        to=to,
        ordinal=ordinal,
        index="orders-000001",
        index_uuid="uuid of orders-000001",
        chunks_total=chunks,
    )


def build_tables() -> tuple[TableStatus, ...]:
    """Return a table that is followed, one that is exported, and a stalled one."""
    return (
        TableStatus(
            name="shop.orders",
            index="orders",
            state=TableState.STREAMING,
            table_uuid="t-1",
            applied_snapshot_id="77",
            applied_sequence_number=3,
            applied_at=MOMENT,
            current_snapshot_id="77",
            snapshots_behind=0,
            lag_seconds=0,
            rows_upserted=15,
            rows_deleted=1,
            dead_letters=2,
            duplicates=Duplicates(count=1, samples=("7",)),
        ),
        TableStatus(
            name="shop.parts",
            index="parts",
            state=TableState.EXPORTING,
            export=ExportProgress(snapshot_id="5", chunks_total=4, chunks_done=1, rows=100),
        ),
        TableStatus(
            name="shop.gone",
            index="gone",
            state=TableState.STALLED,
            reason=TableReason.TABLE_NOT_FOUND,
            message="shop.gone does not exist",
        ),
    )


def build_status() -> PipelineStatus:
    """Return the status while a second attempt is at work."""
    down = Failure.of(errors.TargetUnavailable("OpenSearch cannot be reached"))
    failed = _make_run(1, RunState.FAILED, finished_at=MOMENT, failure=down)
    ready = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.FALSE,
        reason="Exporting",
        message="1 of 3 tables",
        observed_generation=1,
        last_transition_time=MOMENT,
    )
    return PipelineStatus(
        observed_generation=1,
        conditions=(ready,),
        mode=RunKind.EXPORT,
        tables=build_tables(),
        current_run=_make_run(2, RunState.RUNNING),
        last_run=failed,
        recent_runs=(failed,),
        consecutive_failures=1,
    )


def _make_run(attempt: int, state: RunState, **more: Any) -> RunStatus:
    name = f"shop-e1-{attempt}"
    return RunStatus(
        name=name,
        kind=RunKind.EXPORT,
        sequence=1,
        attempt=attempt,
        epoch=1000 + attempt,
        state=state,
        run_id=f"{name}.{1000 + attempt}",
        generation=1,
        planned_at=MOMENT,
        started_at=MOMENT,
        **more,
    )


def build_report() -> RunReport:
    """Return the last report of that attempt."""
    return RunReport(
        run_id="shop-e1-2.1002",
        started_at=MOMENT,
        updated_at=MOMENT,
        tables=build_tables(),
        finished=True,
        outcome=Failure.of(errors.SourceUnavailable("the catalog cannot be reached")),
    )


def build_request() -> RunRequest:
    """Return the request of that attempt."""
    return RunRequest(
        run_id="shop-e1-2.1002",
        pipeline={"apiVersion": "icebergcdc.dev/v1alpha1"},
        owner="default/shop",
        epoch=1002,
        report_path="/r/report.json",
    )


if __name__ == "__main__":
    sys.stdout.write(json.dumps(build_all(), indent=1, sort_keys=True) + "\n")
