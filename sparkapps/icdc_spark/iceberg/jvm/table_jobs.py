"""Observes and cancels the Spark jobs of one table, by the tag that its thread gives them.

Spark hands the tag on to the threads in which it broadcasts and runs subqueries. What a running
task has done so far reaches the driver every few seconds, with the heartbeats of its executor. It
must not know what the jobs are for, nor how long they may take.

Example, what is read of a table with two jobs, one after the other:

    job 11 has run, job 12 runs     newest 12, 3 of 8 tasks ended, 20,000 rows read
    a minute later                  newest 12, 3 of 8 tasks ended, 30,000 rows read
    and another                     newest 12, 3 of 8 tasks ended, 30,000 rows read: no progress
"""

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm.bridge import Statics
from icdc_spark.iceberg.jvm.engine_errors import CANCELLED
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors


@dataclass(frozen=True)
class JobProgress:
    """What the jobs of a table have done; equal to an earlier one if nothing was done since."""

    newest: int = -1
    """Id of its newest job; -1 where Spark remembers none. Not all of them: Spark forgets old jobs
    as those of other tables end, which is no progress of this one."""
    running: tuple[str, ...] = ()
    """The running ones for a person, with how many of their tasks have ended."""
    is_waiting: bool = False
    """True if none of their tasks runs: the executors work for others, or are not there yet."""
    metrics: tuple[str, ...] = ()
    """Spark's metrics of the queries that they are of: rows and bytes read, shuffled and sent."""


class TableJobs:
    """The jobs of one Spark application; for one thread at a time."""

    def __init__(self, application: SparkSession) -> None:
        self._application = application

    def read(self, tag: str) -> JobProgress:
        """Return what the jobs with a tag have done so far; an IcdcError if Spark has ended."""
        with translate_source_errors(tag):
            return self._read(tag)

    def cancel(self, tag: str) -> None:
        """Cancel the running jobs with a tag, and return at once.

        Whoever waits for them gets NoProgress. A later job is not cancelled. A task for which Spark
        reads rows ends at once, and its Python worker gets no further ones; where the task waits
        for its worker, Spark kills the worker within seconds.
        """
        with translate_source_errors(tag):
            self._context.cancelJobsWithTag(tag, CANCELLED)

    def lack_executors(self) -> bool:
        """Return whether a job runs although no executor is there; not where the driver is one."""
        with translate_source_errors("executors"):
            context = self._context
            if context.isLocal() or context.getExecutorIds().size() > 0:
                return False
            # Of the scheduler itself: the tracker may never hear of the end of a job.
            return bool(context.dagScheduler().activeJobs().size() > 0)

    def answer(self) -> None:
        """Return once the JVM has answered; an IcdcError if it has ended."""
        with translate_source_errors("the driver's JVM"):
            # A number that never changes: nothing in the JVM is waited for but the JVM.
            self._context.startTime()

    @property
    def _context(self) -> Any:
        return self._application.sparkContext._jsc.sc()

    def _read(self, tag: str) -> JobProgress:
        context = self._context
        tracker, store = context.statusTracker(), context.statusStore()
        queries = self._application._jsparkSession.sharedState().statusStore()
        # As text: an element of a Java array is a call of its own, and there are hundreds.
        gateway: Any = self._application.sparkContext._gateway
        arrays = Statics("java.util.Arrays", gateway._gateway_client)
        jobs = set(json.loads(arrays.toString(tracker.getJobIdsForTag(tag))))
        # Of the whole application: the tracker does not list active jobs by their tag.
        active = set(json.loads(arrays.toString(tracker.getActiveJobIds())))
        running: list[str] = []
        metrics: list[str] = []
        active_tasks = 0
        for number in sorted(active & jobs):
            pair = store.jobWithAssociatedSql(number)
            job, query = pair._1(), pair._2()
            running.append(
                f"Spark job {number}, {job.numCompletedTasks()} of {job.numTasks()} tasks ended"
            )
            active_tasks += job.numActiveTasks()
            if query.isDefined():
                metrics.append(queries.executionMetrics(query.get()).toString())
        is_waiting = bool(running) and active_tasks == 0
        return JobProgress(max(jobs, default=-1), tuple(running), is_waiting, tuple(metrics))
