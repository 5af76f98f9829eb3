"""Brings one table up to date, and keeps it so in a continuous run. What fails is tried again.

A continuous run may be asked something meanwhile, such as to compare or repair the table
(`question_file`). It answers between two steps: nothing else writes the table's index then, and
other tables go on.

    failure                     run that ends         continuous run
    TableError                  stalls the table      stalls it; tried again now and then
    Gap amid a step             the next step is decided at once: an export, or the same Gap
    Bug                         BUG_ATTEMPTS, then the same as a TableError
    PassingError, RunError      the operator retries  tried again here, with backoff
    Fenced, DriverLost, BadSpec end the run: no table could go on

Example, a continuous run with `retry.initialSeconds` 1:

    step fails, SourceUnavailable    reported; tried again after 1 s, then 2 s, 4 s …
    step succeeds                    the count of failures is 0 again
    step fails, Gap                  the table is stalled; tried again after 30 s
    a Secret changes meanwhile       tried again at once, with the new credentials
    asked to compare meanwhile       answered at once: the index can be compared, or it says why not

Each attempt begins with the state document, as a new run would. What the last one had open, its
session and catalog, is closed when it fails: a table that waits has no connection, and the next
attempt has the catalog's Secrets of its time, whatever failed. An attempt costs 0.03 CPU seconds of
the JVM and, of 500 in a row, no memory. It must know no other table.
"""

import logging
import time
from dataclasses import replace

from icdc_api.errors import (
    BadSpec,
    Bug,
    DriverLost,
    Fenced,
    Gap,
    IcdcError,
    TableError,
    Unauthorized,
)
from icdc_api.job.answers import TableEntry
from icdc_api.job.log_lines import label_lines
from icdc_api.job.run_files import RunQuestion
from icdc_spark.process import table_modes
from icdc_spark.process.failures import report_failure, translate_errors
from icdc_spark.process.question_file import RunQuestions, build_failed_entry
from icdc_spark.process.scheduling.fair_semaphore import FairSemaphore
from icdc_spark.process.scheduling.linger import Linger
from icdc_spark.protocol.steps import StepKind
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import TableRun

LOG = logging.getLogger(__name__)

ROTATION_SECONDS = 1.0
"""A stalled table checks for changed Secrets this often; it costs no request."""
MAX_BUG_WAIT_SECONDS = 60.0
"""Most time between two of the attempts below, whatever `spec.retry` says of runs."""
BUG_ATTEMPTS = 3
"""Attempts at an unforeseen error before a person is called. Much of it passes, such as a Spark
job that failed for a reason which no error class stands for yet."""

QUESTION_SECONDS = 5.0
"""A table that waits checks this often whether it is asked something; it costs no request."""

ENDS_RUN = (Fenced, DriverLost, BadSpec)
"""Fenced: whoever took this table over has taken over the pipeline. A spec that is wrong by itself
must be seen at once, and a continuous run would go on without end."""


class TableFollower:
    """Follow one table of one run; `run` may be called once."""

    def __init__(
        self,
        context: TableContext,
        semaphore: FairSemaphore,
        questions: RunQuestions,
        *,
        question_semaphore: FairSemaphore,
        recheck_seconds: float,
        linger: Linger,
    ) -> None:
        """`semaphore` admits the tables whose steps may run at the same time.

        `question_semaphore` admits those that answer a person. A stalled table is tried again after
        `recheck_seconds`. `linger` says how long a table stays once it has caught up.
        """
        self._context = context
        self._semaphore = semaphore
        self._question_semaphore = question_semaphore
        self._questions = questions
        self._recheck_seconds = recheck_seconds
        self._linger = linger
        # None before the first attempt, and whenever the next one must begin anew.
        self._run: TableRun | None = None
        # In a row; the second one of gaps alone.
        self._failures = 0
        self._gaps = 0
        # The planned comparison before which one more step was made.
        self._stepped_for = ""

    def run(self) -> None:
        """Return when the table is caught up or complete, or the run is asked to end.

        Raise the failure that ends the run, or this table's part in it.
        """
        try:
            with label_lines(table=self._context.table.name):
                self._follow()
        finally:
            self._end_attempt()
            self._context.close()

    def _end_attempt(self) -> None:
        """Close what the present attempt has open, if there is one."""
        # Forgotten first: whatever happens, the next attempt opens its own.
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _follow(self) -> None:
        context, is_settled = self._context, False
        while not context.stop.is_set():
            try:
                if self._answer(is_settled=is_settled):
                    continue
                step = self._advance()
            except IcdcError as error:
                self._handle_failure(error)
                is_settled = True
                continue
            if step is None:
                continue
            self._failures = self._gaps = 0
            is_settled = idle = step in (StepKind.IDLE, StepKind.COMPLETE, StepKind.WAIT)
            (self._linger.mark_idle if idle else self._linger.mark_busy)(context.table.name)
            stays = context.request.continuous or self._linger.must_stay()
            if step is StepKind.COMPLETE or (idle and not stays):
                return
            if idle:
                # Outside the semaphore: an idle table takes no permit from one that has work.
                self._wait(context.request.poll_seconds)

    def _answer(self, *, is_settled: bool) -> bool:
        """Answer the question that the run is asked, if there is one; return whether there was.

        `is_settled`: the last step found nothing to do, or failed.
        """
        context, questions, name = self._context, self._questions, self._context.table.name
        question = self._find_question()
        if question is None:
            return False
        # A planned comparison is of an index that is up to date, or that cannot be. Of a table that
        # never comes to rest, it is of one that a step has brought nearer since it was asked.
        if question.tables is not None and not is_settled and self._stepped_for != question.id:
            self._stepped_for = question.id
            return False
        permits = self._semaphore if question.tables is not None else self._question_semaphore

        def gives_up() -> bool:
            # Another table was quicker: this one goes on with its steps, and is asked again.
            return (
                question.tables is None or context.stop.is_set() or not questions.is_open(question)
            )

        with permits.acquire(name, give_up=gives_up) as admitted:
            # Checked again: the wait for a permit may have been long.
            if context.stop.is_set() or not questions.is_open(question) or not admitted:
                return False
            # What it remembers of the state document would be older than a repair.
            self._end_attempt()
            with questions.mark_comparing(name, question):
                self._renew_access()
                entry = self._inspect(question)
        questions.answer(name, question, entry, backoff=self._compute_backoff)
        return True

    def _inspect(self, question: RunQuestion) -> TableEntry:
        """Return the table's entry in the answer. Raises what ends the run."""
        context, name = self._context, self._context.table.name
        asked = question.model_dump(by_alias=False, exclude={"id"})
        # All but the request is shared: what is still under way of this run is known to both.
        work = replace(context, request=context.request.model_copy(update=asked))
        try:
            with context.step(), translate_errors(name):
                return table_modes.HANDLERS[question.mode](work)
        except ENDS_RUN:
            raise
        except IcdcError as error:
            return build_failed_entry(name, error)

    def _wait(self, seconds: float) -> None:
        """Wait until the run is asked to end, or the table is asked something."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._context.stop.wait(
            min(left, QUESTION_SECONDS)
        ):
            if self._find_question() is not None:
                return

    def _find_question(self) -> RunQuestion | None:
        """Return what the table is asked; None also while other tables hold all permits for it."""
        question = self._questions.find(self._context.table.name)
        is_due = question is None or question.tables is not None or self._question_semaphore.is_free
        return question if is_due else None

    def _gives_up(self) -> bool:
        """Return whether something comes before the step for which the table awaits a permit."""
        question = self._find_question()
        # A planned comparison may want that very step.
        is_asked = question is not None and question.tables is None
        return is_asked or self._context.stop.is_set()

    def _advance(self) -> StepKind | None:
        """Do one step and return its kind; None where something comes before it."""
        context, name = self._context, self._context.table.name
        with (
            self._semaphore.acquire(name, give_up=self._gives_up) as admitted,
            context.step(),
            translate_errors(name),
        ):
            # Checked again: the wait for a permit may have been long.
            if context.stop.is_set() or not admitted:
                return None
            self._renew_access()
            if self._run is None:
                # Also after a failure: somebody may have deleted icdc-state.
                self._context.store.ensure_index()
                self._run = TableRun(self._context)
            return self._run.advance()

    def _renew_access(self) -> bool:
        """Take up changed credentials; return whether there are any, and begin anew with them."""
        before, self._context = self._context, self._context.with_newest_access()
        if self._context is before:
            return False
        LOG.info("%s: continues with changed Secrets", before.table.name)
        # It holds the clients of the old credentials.
        self._end_attempt()
        return True

    def _handle_failure(self, error: IcdcError) -> None:
        """Wait until the table may be tried again; raise `error` where it is not."""
        context = self._context
        # What it remembers of the state document may be what failed.
        self._end_attempt()
        self._failures += 1
        self._gaps += isinstance(error, Gap)
        if isinstance(error, ENDS_RUN):
            raise error
        if isinstance(error, Unauthorized) and self._renew_access():
            # A password or certificate was changed in the middle of a step: no person is needed.
            return
        if isinstance(error, Gap) and self._gaps == 1 and not context.stop.is_set():
            # Where the spec allows it, no person is needed; else that step says what to do.
            LOG.warning("%s: %s; the next step is decided anew", context.table.name, error)
            return
        if isinstance(error, Bug) and self._failures < BUG_ATTEMPTS and not context.stop.is_set():
            LOG.warning("%s: %s; the step is retried", context.table.name, error)
            # Other tables' commits wait for the end of a run, which waits for this table.
            context.stop.wait(min(self._compute_backoff(self._failures), MAX_BUG_WAIT_SECONDS))
            return
        again = error.retryable and self._linger.tries_again(context.table.name, self._failures)
        if not context.request.continuous and not again:
            self._linger.end()
            raise error
        report_failure(context, error)
        if isinstance(error, TableError | Bug):
            self._wait_stalled()
        else:
            self._wait(self._compute_backoff(self._failures))

    def _wait_stalled(self) -> None:
        """Wait for the next recheck, or until a Secret has changed or the table is asked something.

        Kubernetes takes a minute or two to bring a new password into the pod.
        """
        until = time.monotonic() + self._recheck_seconds
        while time.monotonic() < until and not self._context.stop.wait(ROTATION_SECONDS):
            if self._renew_access() or self._find_question():
                return

    def _compute_backoff(self, failures: int) -> float:
        retry = self._context.spec.retry
        # Bounded, or the power overflows a float after a thousand failures.
        doubled = retry.initial_seconds * 2.0 ** min(failures - 1, 30)
        return min(doubled, retry.max_seconds)
