"""One run of a pipeline: all its tables in one Spark application, each in a thread of its own.

A table that fails, stalls or waits changes nothing for the others. A run ends when every table
is caught up, complete or stalled, or, when continuous, when it is told to stop.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pyspark.sql import SparkSession

from icdc_api.errors import AliasTaken, BadSpec, Bug, Fenced, IcdcError
from icdc_api.job import RunMode, RunRequest
from icdc_api.secrets import load_catalog_properties
from icdc_api.spec import Pipeline
from icdc_api.status import TableStatus
from icdc_api.tables import Table
from icdc_spark.iceberg.jvm import session
from icdc_spark.opensearch.stores.access import Rotation
from icdc_spark.process.call_watch import CallWatch
from icdc_spark.process.fair_semaphore import Turns
from icdc_spark.process.following import ENDS_RUN, Following, complain, faults
from icdc_spark.process.worker_threads import Crew
from icdc_spark.replication import deletion
from icdc_spark.replication.context import Stop, TableContext
from icdc_spark.reporting.reporter import Reporter
from icdc_spark.verification import inspection

LOG = logging.getLogger(__name__)

MAX_TABLES_AT_ONCE = 8
"""Tables worked on at the same time; more cost memory and no longer save time."""
CATALOG_SECONDS = 300.0
"""How long a catalog may take for one call, its own time-outs and repetitions included."""


@dataclass(frozen=True)
class Answer:
    """How a run ended: its failure as a whole, and what any other mode than `run` found."""

    outcome: IcdcError | None = None
    result: dict[str, Any] | None = None


class Application:
    """One run; `run` may be called once."""

    def __init__(
        self,
        request: RunRequest,
        spark: SparkSession,
        stop: Stop | None = None,
        *,
        catalog_seconds: float = CATALOG_SECONDS,
    ) -> None:
        self.request = request
        self.stop = stop or threading.Event()
        self._spark = spark
        self._pipeline = _pipeline(request)
        self._secrets = Path(request.secrets_dir) if request.secrets_dir else None
        self._tables = self._pipeline.spec.tables
        known = [TableStatus(name=each.name, index=each.index_name) for each in self._tables]
        self._reporter = Reporter(request, known)
        self._failures: list[IcdcError] = []
        self._turns = Turns(MAX_TABLES_AT_ONCE)
        # A thread that follows a table without end keeps it; what it works in takes turns.
        threads = len(self._tables) if request.continuous else MAX_TABLES_AT_ONCE
        self._crew = Crew(
            threads, may_leave=lambda: self.stop.is_set() or not self.request.continuous
        )
        self._call_watch = CallWatch(catalog_seconds)

    def run(self) -> Answer:
        """Works until done; every failure is in the report, none is raised."""
        answer = self._answer()
        self._reporter.finish(outcome=answer.outcome, result=answer.result)
        return answer

    def _answer(self) -> Answer:
        try:
            rotation = Rotation(self._pipeline.spec.sink.opensearch, self._secrets)
        except IcdcError as error:
            return Answer(outcome=error)
        try:
            if self.request.mode is not RunMode.RUN:
                result = self._entries(rotation)
                return Answer(outcome=self._worst(), result=result)
            self._each_table(self._follow, rotation, self._tables)
        finally:
            rotation.close()
        return Answer(outcome=self._worst())

    @property
    def _deletes(self) -> bool:
        return self.request.mode is RunMode.DELETE

    def _entries(self, rotation: Rotation) -> dict[str, Any]:
        """What every mode but `run` answers: one entry per table, in the spec's order."""
        entries: dict[str, dict[str, Any]] = {}
        answer = deletion.delete if self._deletes else inspection.inspect

        planned = self.request.tables is not None

        def work(context: TableContext) -> None:
            if planned and self.stop.is_set():
                return  # no answer: whoever planned it asks again, or knows why not
            entries[context.table.name] = answer(context)

        request = self.request
        wanted = request.only or request.tables or tuple(table.name for table in self._tables)
        tables = [table for table in self._tables if table.name in wanted]
        self._each_table(work, rotation, tables)
        return {"tables": [entries[table.name] for table in self._tables if table.name in entries]}

    def _each_table(
        self,
        work: Callable[[TableContext], None],
        rotation: Rotation,
        tables: Sequence[Table],
    ) -> None:
        contexts = [self._context(table, rotation) for table in tables]
        with self._call_watch:
            self._crew.run(
                {each.table.name: partial(self._guarded, work, each) for each in contexts}
            )

    def _context(self, table: Table, rotation: Rotation) -> TableContext:
        access = rotation.newest()
        return TableContext(
            request=self.request,
            spec=self._pipeline.spec,
            table=table,
            connection=access.connection,
            store=access.store,
            newest_access=rotation.newest,
            catalog_call=partial(self._catalog_call, table.name),
            open_session=lambda: self._open_session(table),
            reporter=self._reporter.table(table.name),
            stop=self.stop,
        )

    @contextmanager
    def _catalog_call(self, table: str) -> Iterator[None]:
        """Bounds how long the others wait for one table's catalog."""
        try:
            with self._call_watch.call(table, partial(self._overdue, table)):
                yield
        finally:
            self._crew.is_stuck(table, False)

    def _overdue(self, table: str) -> None:
        fault = self._call_watch.too_slow(table)
        LOG.warning("%s", fault)
        self._reporter.table(table).failed(fault)
        if not self.request.continuous:
            self._failures.append(fault)
        self._turns.give_away(table)
        self._crew.is_stuck(table, True)

    def _open_session(self, table: Table) -> SparkSession:
        catalog = self._pipeline.spec.catalog_of(table)
        properties = load_catalog_properties(catalog, self._secrets)
        opened = session.create_table_session(self._spark, catalog.name, properties)
        session.use_pool(opened, table.name)
        return opened

    def _guarded(self, work: Callable[[TableContext], None], context: TableContext) -> None:
        """Runs a table's work; what goes wrong becomes a failure of this table or of the run."""
        try:
            with faults(context.table.name):
                work(context)
        except ENDS_RUN as fault:
            LOG.error("%s: %s", context.table.name, fault)
            self._failures.append(fault)
            self.stop.set()
        except IcdcError as fault:
            self._failed(context, fault)
        finally:
            context.close()

    def _failed(self, context: TableContext, fault: IcdcError) -> None:
        """The other tables go on."""
        complain(context, fault)
        # What belongs to somebody else stays; everything else must be deleted sooner or later.
        undeleted = self._deletes and not isinstance(fault, AliasTaken)
        # A question has no table that could stall: it is answered, or the run says why not.
        unanswered = isinstance(fault, Bug) and self.request.mode is not RunMode.RUN
        if fault.retryable or undeleted or unanswered:
            self._failures.append(fault)

    def _follow(self, context: TableContext) -> None:
        Following(context, self._turns).run()

    def _worst(self) -> IcdcError | None:
        """The failure that the run stands for: what cannot be retried comes first, then Fenced,
        which ended the run for all tables and says what epoch the next one needs: the highest."""

        def weight(error: IcdcError) -> tuple[bool, int]:
            fenced = 1 + (error.epoch or 0) if isinstance(error, Fenced) else 0
            return error.retryable, -fenced

        return min(self._failures, key=weight, default=None)


def _pipeline(request: RunRequest) -> Pipeline:
    try:
        return Pipeline.model_validate(request.pipeline)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise BadSpec(f"The pipeline in the request is not valid: {where}: {problem['msg']}") from (
            error
        )
