"""Runs a pipeline once: all its tables in one Spark application, each in a thread of its own.

A table that fails, stalls or waits changes nothing for the others. A run ends when every table
is caught up (and nothing came while it lingered), complete or stalled, or, when continuous, when it
is asked to stop. It must not know what is done with a table: see `table_follower`, `table_modes`.

Example, a run that is not continuous, of three tables:

    orders   caught up                        reported Streaming
    users    Gap, a person must act           reported Stalled; the run ends without a failure
    items    SourceUnavailable                the run's failure: the operator starts another run
    any      Fenced                           ends all tables at their next step
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from icdc_api.errors import AliasTaken, Bug, Fenced, IcdcError
from icdc_api.job.answers import RunAnswer, TableEntry
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunRequest
from icdc_api.spec.secrets import load_catalog_properties
from icdc_api.spec.tables import Table
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.iceberg.jvm import session
from icdc_spark.iceberg.jvm.session import TableSession
from icdc_spark.iceberg.jvm.table_jobs import TableJobs
from icdc_spark.opensearch.stores.access import Rotation
from icdc_spark.process import table_modes
from icdc_spark.process.call_watch import CallWatch
from icdc_spark.process.executor_watch import ExecutorWatch
from icdc_spark.process.failures import report_failure, translate_errors
from icdc_spark.process.question_file import RunQuestions
from icdc_spark.process.scheduling.fair_semaphore import FairSemaphore
from icdc_spark.process.scheduling.linger import Linger
from icdc_spark.process.scheduling.permits import QUESTION_PERMITS, count_permits, measure_lag
from icdc_spark.process.scheduling.worker_threads import WorkerThreads
from icdc_spark.process.step_watch import StepWatch
from icdc_spark.process.table_follower import ENDS_RUN, TableFollower
from icdc_spark.replication.context import Stop, TableContext
from icdc_spark.reporting.reporter import Reporter

LOG = logging.getLogger(__name__)

CATALOG_SECONDS = 300.0
"""Limit of one call to a catalog, its own time-outs and repetitions included."""
PROGRESS_SECONDS = 900.0
"""A step in which nothing is done for so long is cancelled. What may be silent ends before: a bulk
request with its repetitions after 7 minutes, the wait for those of an older run after 11, a call to
a catalog after 5; a task in which rows are read or sent is not silent, however long it takes."""
STALLED_RECHECK_SECONDS = 30.0
"""A continuous run tries a table that waits for a person again after this long."""


@dataclass(frozen=True)
class RunResult:
    """The end of a run."""

    outcome: IcdcError | None = None
    """The failure of the run as a whole; None if only tables, or nothing, failed."""
    result: RunAnswer | None = None
    """What any other mode than `run` answers: `{"tables": [entry, …]}`."""


class PipelineRun:
    """Schedule the tables of one run; `run` may be called once."""

    def __init__(
        self,
        request: RunRequest,
        spark: SparkSession,
        stop: Stop | None = None,
        *,
        catalog_seconds: float = CATALOG_SECONDS,
        progress_seconds: float = PROGRESS_SECONDS,
        recheck_seconds: float | None = None,
        question_path: str | None = None,
    ) -> None:
        """`stop` asks the run to end after the present steps. BadSpec for an invalid request.

        `question_path` names the file of what a continuous run is asked. `recheck_seconds`, for
        tests, lie between two attempts of a stalled table instead of STALLED_RECHECK_SECONDS.
        """
        self.request = request
        usual = max(STALLED_RECHECK_SECONDS, request.poll_seconds)
        self._recheck_seconds = usual if recheck_seconds is None else recheck_seconds
        self.stop = stop or threading.Event()
        self._spark = spark
        self._pipeline = request.parse_pipeline()
        self._secrets = Path(request.secrets_dir) if request.secrets_dir else None
        self._tables = self._pipeline.spec.tables
        names = [table.name for table in self._tables]
        statuses = [TableStatus(name=table.name, index=table.index_name) for table in self._tables]
        path = question_path if request.continuous else None
        self.reporter = Reporter(request, statuses, takes_questions=path is not None)
        self._failures: list[IcdcError] = []  # the tables' threads append to it
        permits = count_permits(self._pipeline.spec.spark.driver)
        self._semaphore = FairSemaphore(
            permits, lag=lambda name: measure_lag(self.reporter.get_status(name))
        )
        self._question_semaphore = FairSemaphore(QUESTION_PERMITS)
        # A thread that follows a table without end stays with it; the semaphore bounds their steps.
        stays = request.continuous or request.linger_seconds
        threads = len(names) if stays else permits
        self._threads = WorkerThreads(
            threads, may_leave=lambda: self.stop.is_set() or not self.request.continuous
        )
        self._call_watch = CallWatch(catalog_seconds)
        self._step_watch = StepWatch(progress_seconds, TableJobs(spark))
        self._linger = Linger(request.linger_seconds or 0, names, self.reporter.mark_lingering)
        self._questions = RunQuestions(
            path,
            {table.name: table.index_name for table in self._tables},
            jobs=TableJobs(spark),
            publish=self.reporter.set_result,
        )

    def run(self) -> RunResult:
        """Run to the end and report it; every failure is in the report, none is raised."""
        result = self._run()
        self.reporter.finish(outcome=result.outcome, result=result.result)
        return result

    def _run(self) -> RunResult:
        try:
            rotation = Rotation(self._pipeline.spec.sink.opensearch, self._secrets)
        except IcdcError as error:
            return RunResult(outcome=error)
        try:
            handler = table_modes.HANDLERS.get(self.request.mode)
            if handler is None:
                self._follow_tables(rotation)
                return RunResult(outcome=self._find_worst_failure())
            result: RunAnswer = {"tables": self._collect_entries(handler, rotation)}
            return RunResult(outcome=self._find_worst_failure(), result=result)
        finally:
            rotation.close()

    def _follow_tables(self, rotation: Rotation) -> None:
        contexts = [self._build_context(table, rotation) for table in self._tables]

        def follow(context: TableContext) -> None:
            TableFollower(
                context,
                self._semaphore,
                self._questions,
                question_semaphore=self._question_semaphore,
                recheck_seconds=self._recheck_seconds,
                linger=self._linger,
            ).run()

        with self._questions.watch():
            self._schedule(contexts, follow)

    def _collect_entries(
        self, handler: Callable[[TableContext], TableEntry], rotation: Rotation
    ) -> list[TableEntry]:
        """Return the entries of the tables that the request names, in the spec's order.

        A table that failed has none. Nor has one that was not reached when a planned run was asked
        to stop: whoever planned it asks again, or knows why not.
        """
        request = self.request
        names = request.only or request.tables or tuple(table.name for table in self._tables)
        entries: dict[str, TableEntry] = {}

        def handle(context: TableContext) -> None:
            if request.tables is not None and self.stop.is_set():
                return
            with context.step(), translate_errors(context.table.name):
                entries[context.table.name] = handler(context)

        tables = [table for table in self._tables if table.name in names]
        self._schedule([self._build_context(table, rotation) for table in tables], handle)
        return [entries[table.name] for table in tables if table.name in entries]

    def _schedule(
        self, contexts: Iterable[TableContext], work: Callable[[TableContext], None]
    ) -> None:
        """Do `work` for each table in a thread of its own; return when all have ended."""
        jobs = {context.table.name: partial(self._guard, work, context) for context in contexts}
        executors = ExecutorWatch(TableJobs(self._spark), self.reporter)
        with self._call_watch, self._step_watch, executors:
            self._threads.run(jobs)

    def _build_context(self, table: Table, rotation: Rotation) -> TableContext:
        access = rotation.get_newest()
        return TableContext(
            request=self.request,
            spec=self._pipeline.spec,
            table=table,
            connection=access.connection,
            store=access.store,
            newest_access=rotation.get_newest,
            catalog_call=partial(self._watch_catalog_call, table.name),
            step=partial(self._watch_step, table),
            note_progress=partial(self._step_watch.note, table.name),
            open_session=lambda: self._open_session(table),
            reporter=self.reporter.get_table_reporter(table.name),
            stop=self.stop,
        )

    @contextmanager
    def _watch_catalog_call(self, table: str) -> Iterator[None]:
        """Limit how long the others wait for one table's catalog."""
        error = self._call_watch.build_source_unavailable(table)
        give_up = partial(self._give_up_waiting, table, error)
        try:
            with self._step_watch.call(table), self._call_watch.call(table, give_up):
                yield
        finally:
            # After the call has ended in the watch: from then on nothing marks it as stuck.
            self._go_on_waiting(table)

    @contextmanager
    def _watch_step(self, table: Table) -> Iterator[None]:
        """Limit how long the others wait for a step of one table that makes no progress."""
        give_up = partial(self._give_up_waiting, table.name)
        try:
            with self._step_watch.step(table.name, table.index_name, give_up):
                yield
        finally:
            self._go_on_waiting(table.name)

    def _give_up_waiting(self, table: str, error: IcdcError) -> None:
        """Report why a table hangs, and let others have its permit and its thread."""
        LOG.warning("%s", error)
        self.reporter.get_table_reporter(table).fail(error)
        if not self.request.continuous:
            # The run may end before the table does, and its failure must be known by then.
            self._failures.append(error)
            # The next run tries it again, so this one must not stay.
            self._linger.end()
        self._semaphore.release(table)
        self._question_semaphore.release(table)
        self._questions.mark_silent(table, error)
        self._threads.mark_stuck(table, True)

    def _go_on_waiting(self, table: str) -> None:
        self._questions.mark_audible(table)
        self._threads.mark_stuck(table, False)

    def _open_session(self, table: Table) -> TableSession:
        catalog = self._pipeline.spec.get_catalog(table)
        properties = load_catalog_properties(catalog, self._secrets)
        report = partial(self.reporter.mark_session, table.name)
        opened = session.open_table_session(self._spark, catalog.name, properties, report)
        # This is the table's own thread, and Spark's pool and tags are properties of the thread.
        session.mark_jobs(opened.spark, table.name, tag=table.index_name)
        return opened

    def _guard(self, work: Callable[[TableContext], None], context: TableContext) -> None:
        """Do a table's work; turn what it raises into a failure of this table or of the run."""
        try:
            with translate_errors(context.table.name):
                work(context)
        except ENDS_RUN as error:
            LOG.error("%s: %s", context.table.name, error)
            self._failures.append(error)
            self.stop.set()
        except IcdcError as error:
            report_failure(context, error)
            if self._fails_run(error):
                self._failures.append(error)
        finally:
            # Where the run is to end, its question stays open: another run answers it as a whole.
            if not self.stop.is_set():
                self._questions.mark_silent(context.table.name, None)
            context.close()

    def _fails_run(self, error: IcdcError) -> bool:
        """Return whether a table's failure is one of the run, which is then started again."""
        mode = self.request.mode
        # What belongs to somebody else stays; everything else must be deleted sooner or later.
        undeleted = mode is RunMode.DELETE and not isinstance(error, AliasTaken)
        # A question has no table that could stall: it is answered, or the run says why not.
        unanswered = isinstance(error, Bug) and mode is not RunMode.RUN
        return error.retryable or undeleted or unanswered

    def _find_worst_failure(self) -> IcdcError | None:
        """Return the failure that the run stands for; None if there is none.

        Failures that cannot be retried come first, then Fenced, whose highest epoch counts: the
        next run must be above it.
        """

        def weigh(error: IcdcError) -> tuple[bool, int]:
            fenced = 1 + (error.epoch or 0) if isinstance(error, Fenced) else 0
            return error.retryable, -fenced

        return min(self._failures, key=weigh, default=None)
