"""Pipelines of a company in all states that a person sees: for the page of `icdc ui`, and pictures.

    sales/shop            Stalled      one of three tables waits for its author, the others go on
    search/catalogue      Retrying     OpenSearch does not answer
    lake/clickstream      Exporting    with an estimate of its end, beside a table that is in place
    hr/people             Suspended
    sales/returns         Streaming    behind, while a run applies what is new
    billing/invoices      Streaming    caught up, with rows that the index refuses
    billing/payments      Streaming    caught up, and compared
    reference/countries   Complete     exported once, as was asked for

All times are counted from one moment. Conditions are those that the operator would write.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from icdc_api import naming
from icdc_api.errors import TargetUnavailable
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_api.status.table_parts import ExportProgress, LastBatch, Verification
from icdc_operator.core.conditions import summary
from icdc_testing.operator.deciding.pipelines import make_observed, make_spec

Resource = dict[str, Any]

_OLD, _NEW = "5139476312650311405", "7026431190458823316"
"""Snapshots."""


def make_resource(
    namespace: str,
    name: str,
    status: PipelineStatus,
    now: datetime,
    **spec: Any,
) -> Resource:
    """Return a pipeline of the tables in `status`, which gets its conditions, phase and totals."""
    parsed = make_spec(*(table.name for table in status.tables), **spec)
    observed = replace(make_observed(parsed), namespace=namespace, name=name)
    status = status.model_copy(update={"observed_generation": 1})
    conditions = summary.build_conditions(status, observed, now=now)
    status = summary.summarise(status.model_copy(update={"conditions": conditions}))
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.KIND,
        "metadata": {"namespace": namespace, "name": name, "generation": 1},
        "spec": parsed.to_resource(),
        "status": status.to_resource(),
    }


class ShownPipelines:
    """The pipelines at the moment `now`, in UTC."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def list_all(self) -> list[Resource]:
        """Return them, in no order that a page should depend on."""
        return [
            self._make_well("billing", "payments", "bank.payments", 8_214_907),
            self._make_refusing(),
            self.make_stalled(),
            self._make_behind(),
            self._make_exporting(),
            self._make_retrying(),
            self._make_suspended(),
            self._make_complete(),
        ]

    def make_stalled(self) -> Resource:
        """Return sales/shop."""
        lost = (
            "snapshot 5139476312650311405 has expired or was removed, so the changes since the "
            "last applied snapshot are unknown. Raise spec.resync.nonce to export the table again, "
            "or set changelog.onGap to Reexport."
        )
        orders = self._make_table(
            "shop.orders",
            4_182_220,
            state=TableState.STALLED,
            applied_snapshot_id=_OLD,
            snapshots_behind=14,
            lag_seconds=7_980,
            last_batch=self._make_batch(512, minutes=133),
            reason=TableReason.GAP,
            message=f"Table shop.orders: {lost}",
        )
        customers = self._make_table("shop.customers", 310_774, hours=3, upserted=1_204)
        items = self._make_table("shop.items", 12_640_051, hours=3, upserted=8_330)
        runs = [
            self._make_ended(number, seconds=seconds)
            for number, seconds in ((14, 41), (13, 38), (12, 64), (11, 36), (10, 39), (9, 112))
        ]
        status = PipelineStatus(
            tables=(orders, customers, items),
            mode=RunKind.CHANGELOG,
            last_run=runs[0],
            recent_runs=tuple(runs),
        )
        return self._make("sales", "shop", status, changelog={"onGap": "Stop"})

    def _make_retrying(self) -> Resource:
        error = TargetUnavailable(
            "https://search.example:9200 does not answer: connection refused (it was tried for 5m)"
        )
        products = self._make_table(
            "search.products", 88_120, hours=26, snapshots_behind=2, lag_seconds=340
        )
        last = self._make_ended(7, name="catalogue", seconds=318, failure=Failure.of(error))
        status = PipelineStatus(
            tables=(products,),
            mode=RunKind.CHANGELOG,
            last_run=last,
            recent_runs=(last,),
            consecutive_failures=2,
            next_attempt_time=self._now + timedelta(seconds=50),
        )
        return self._make("search", "catalogue", status)

    def _make_exporting(self) -> Resource:
        export = ExportProgress(
            snapshot_id=_NEW,
            chunks_total=96,
            chunks_done=41,
            rows=51_904_000,
            rows_total=118_220_416,
            rows_per_second=86_300,
            estimated_end=self._now + timedelta(seconds=768),
        )
        clicks = TableStatus(
            name="web.clicks",
            index="clicks",
            state=TableState.EXPORTING,
            current_snapshot_id=_NEW,
            export=export,
            rows_upserted=export.rows,
        )
        status = PipelineStatus(
            tables=(clicks, self._make_table("web.sessions", 9_400_118)),
            mode=RunKind.EXPORT,
            current_run=self._make_running(1, name="clickstream", kind=RunKind.EXPORT, minutes=11),
        )
        return self._make("lake", "clickstream", status)

    def _make_suspended(self) -> Resource:
        people = self._make_table(
            "hr.people", 2_911, hours=50, snapshots_behind=1, lag_seconds=5_000
        )
        last = self._make_ended(3, name="people", seconds=33)
        status = PipelineStatus(tables=(people,), last_run=last)
        return self._make("hr", "people", status, suspend=True)

    def _make_behind(self) -> Resource:
        returns = self._make_table(
            "shop.returns", 96_470, hours=20, snapshots_behind=3, lag_seconds=42
        )
        status = PipelineStatus(
            tables=(returns,),
            mode=RunKind.CHANGELOG,
            current_run=self._make_running(5, name="returns"),
        )
        return self._make("sales", "returns", status)

    def _make_refusing(self) -> Resource:
        invoices = self._make_table("bank.invoices", 1_730_006, hours=3, dead_letters=12)
        status = PipelineStatus(tables=(invoices,), last_run=self._make_ended(9, name="invoices"))
        return self._make("billing", "invoices", status)

    def _make_well(self, namespace: str, name: str, table: str, rows: int) -> Resource:
        status = PipelineStatus(
            tables=(self._make_table(table, rows, hours=3),),
            mode=RunKind.CHANGELOG,
            current_run=self._make_running(2, name=name),
        )
        return self._make(namespace, name, status, changelog={"trigger": "Continuous"})

    def _make_complete(self) -> Resource:
        countries = self._make_table("ref.countries", 249, hours=700, state=TableState.COMPLETE)
        last = self._make_ended(1, name="countries", kind=RunKind.EXPORT, seconds=31)
        status = PipelineStatus(tables=(countries,), last_run=last)
        return self._make("reference", "countries", status, mode="ExportOnly")

    def _make(self, namespace: str, name: str, status: PipelineStatus, **spec: Any) -> Resource:
        # What is so has been so for a while.
        since = self._now - timedelta(hours=2, minutes=13)
        return make_resource(namespace, name, status, since, **spec)

    def _make_table(
        self, name: str, rows: int, *, hours: int = 0, upserted: int = 512, **more: Any
    ) -> TableStatus:
        """Return a table that is caught up, compared so many hours ago, or never."""
        fields: dict[str, Any] = {
            "index": name.rpartition(".")[2],
            "state": TableState.STREAMING,
            "applied_snapshot_id": _NEW,
            "current_snapshot_id": _NEW,
            "snapshots_behind": 0,
            "lag_seconds": 0,
            "rows_upserted": rows,
            "rows_deleted": rows // 90,
            "last_batch": self._make_batch(upserted),
        }
        if hours:
            at = self._now - timedelta(hours=hours)
            fields["verification"] = Verification(at=at, equal=True, rows=rows, documents=rows)
        return TableStatus(name=name, **(fields | more))

    def _make_batch(self, upserted: int, *, minutes: int = 0) -> LastBatch:
        return LastBatch(
            from_snapshot_id=_OLD,
            to_snapshot_id=_NEW,
            at=self._now - timedelta(minutes=minutes, seconds=40 + upserted // 60),
            upserted=upserted,
            deleted=upserted // 12,
            files_bytes=upserted * 2_300,
            request_bytes=upserted * 410,
            requests=1 + upserted // 2_000,
            planning_millis=380 + upserted // 20,
            writing_millis=900 + upserted,
        )

    def _make_running(
        self, sequence: int, *, name: str, kind: RunKind = RunKind.CHANGELOG, minutes: int = 1
    ) -> RunStatus:
        return RunStatus(
            name=f"{name}-{kind.letter}{sequence}-1",
            kind=kind,
            sequence=sequence,
            epoch=1000 + sequence,
            state=RunState.RUNNING,
            generation=1,
            planned_at=self._now - timedelta(minutes=minutes, seconds=20),
            started_at=self._now - timedelta(minutes=minutes),
        )

    def _make_ended(
        self,
        sequence: int,
        *,
        name: str = "shop",
        kind: RunKind = RunKind.CHANGELOG,
        seconds: int = 35,
        failure: Failure | None = None,
    ) -> RunStatus:
        # Ten minutes apart, the last one a moment ago.
        finished = self._now - timedelta(minutes=(14 - min(sequence, 14)) * 10, seconds=40)
        running = self._make_running(sequence, name=name, kind=kind)
        return running.model_copy(
            update={
                "state": RunState.SUCCEEDED if failure is None else RunState.FAILED,
                "planned_at": finished - timedelta(seconds=seconds + 20),
                "started_at": finished - timedelta(seconds=seconds),
                "finished_at": finished,
                "failure": failure,
            }
        )
