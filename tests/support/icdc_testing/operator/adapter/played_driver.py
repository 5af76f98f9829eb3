"""The process in a driver pod, played: what it is asked to do, what it does, what it reports.

It reads its real request and reports in the real form. Its target is a number for each table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from icdc_api.errors import SourceUnavailable
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.spec.pipeline import Mode, PipelineSpec
from icdc_api.spec.tables import Table
from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_api.status.runs import Failure
from icdc_testing.operator.deciding.pipelines import make_caught_up


class Course(StrEnum):
    """How a run goes."""

    WELL = "works, then ends well"
    FAILS = "works, then fails in a way that may pass"
    HOLDS = "works until it is asked to end"
    STUCK = "never starts: its image cannot be pulled"


@dataclass
class PlayedDriver:
    """One process. `applied` is the target: the newest sequence number of each table."""

    request: RunRequest
    course: Course
    applied: dict[str, int]
    now: Callable[[], datetime]
    begun: datetime
    due: float
    """When it is done, by the clock of the loop."""

    def work(self) -> RunReport | None:
        """Do all that there is to do; return its last report, None if it has never done enough."""
        if self.course is Course.HOLDS:
            return None
        if self.course is Course.FAILS:
            return self.make_last_report(
                Failure.of(SourceUnavailable("the catalog does not answer"))
            )
        if self.request.mode not in (RunMode.RUN, RunMode.DELETE):
            entries = [{"name": table, "equal": True} for table in self._names]
            return self.make_last_report(None).model_copy(update={"result": {"tables": entries}})
        # The n-th run of a pipeline finds the n-th snapshot.
        number = int(self.request.run_id.split("-")[-2][1:])
        for table in self._names:
            self.applied[table] = max(number, self.applied.get(table, 0))
        return self.make_last_report(None)

    def make_last_report(self, outcome: Failure | None) -> RunReport:
        """Return the last report of the driver."""
        return self.make_report().model_copy(update={"finished": True, "outcome": outcome})

    def make_report(self) -> RunReport:
        """Return the report of a running driver."""
        return RunReport(
            run_id=self.request.run_id,
            started_at=self.begun,
            updated_at=self.now(),
            tables=tuple(self._make_table(table) for table in self._tables),
        )

    @property
    def _tables(self) -> tuple[Table, ...]:
        return self._spec.tables

    @property
    def _names(self) -> list[str]:
        return [table.name for table in self._tables]

    @property
    def _spec(self) -> PipelineSpec:
        return PipelineSpec.model_validate(self.request.pipeline["spec"], by_alias=True)

    def _make_table(self, table: Table) -> TableStatus:
        name, index = table.name, table.index_name
        number = self.applied.get(name)
        if number is None:
            return TableStatus(name=name, index=index, state=TableState.EXPORTING)
        snapshot = {f"{which}_snapshot_id": str(number) for which in ("applied", "current")}
        more: dict[str, Any] = {"applied_sequence_number": number, "applied_at": self.now()}
        if self._spec.mode == Mode.EXPORT_ONLY:
            more["state"] = TableState.COMPLETE
        table_status = make_caught_up(name, rows_upserted=10 * number, **snapshot, **more)
        return table_status.model_copy(update={"index": index})
