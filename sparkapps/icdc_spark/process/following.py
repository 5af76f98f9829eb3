"""Brings one table up to date, and keeps it so in a continuous run. What fails is tried again.

    fault                       run that ends         continuous run
    TableError                  stalls the table      stalls it, looked at again now and then
    Bug                         BUG_ATTEMPTS, then the same as a TableError
    PassingError, RunError      the operator retries  tried again here, ever less often
    Fenced, DriverLost, BadSpec end the run: no table could go on

Each attempt begins with the state document, as a new run would. It knows no other table.
"""

import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from icdc_api import redaction
from icdc_api.errors import (
    BadSpec,
    Bug,
    DriverLost,
    Fenced,
    IcdcError,
    TableError,
    Unauthorized,
)
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.process.fair_semaphore import Turns
from icdc_spark.protocol.next_step import StepKind
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import TableRun

LOG = logging.getLogger(__name__)

STALLED_RECHECK_SECONDS = 30
"""How often a continuous run looks again at a table that waits for a person."""
ROTATION_SECONDS = 1.0
"""How often a stalled table looks for changed Secrets, at the cost of no request."""
BUG_ATTEMPTS = 3
"""How often what nobody foresaw is tried before a person is called: much of it passes, such as a
job that failed for a reason which no border knows yet."""

ENDS_RUN = (Fenced, DriverLost, BadSpec)
"""Fenced: whoever took this table over has taken over the pipeline. A spec that is wrong by itself
must be seen at once, and a continuous run would go on without end."""


def crashed(error: BaseException) -> Bug:
    """The failure that stands for an error nobody foresaw."""
    # Its text may quote a row; where it is caught, the log gets all of it.
    return Bug(f"{type(error).__name__}: {redaction.hide_quoted(str(error))}")


@contextmanager
def faults(table: str) -> Iterator[None]:
    """Turns whatever goes wrong in a table's work into an error of the project."""
    try:
        with source_errors(table):
            yield
    except IcdcError:
        raise
    except Exception as error:
        log_unforeseen(f"{table}: unforeseen", error)
        raise crashed(error) from error


def log_unforeseen(words: str, error: Exception) -> None:
    """Log an error with its own traceback, for whoever mends the program.

    Errors before it in its chain may be of Spark, which quotes the row on which a task failed.
    """
    trace = "".join(traceback.format_exception(error, chain=False))
    LOG.error("%s\n%s", words, trace)


def complain(context: TableContext, error: IcdcError) -> None:
    """Says in log and report why the table does not advance."""
    LOG.warning("%s: %s: %s", context.table.name, type(error).__name__, error)
    context.reporter.failed(error)


class Following:
    """One table of one run; `run` may be called once."""

    def __init__(self, context: TableContext, turns: Turns) -> None:
        self._context = context
        self._turns = turns
        self._run: TableRun | None = None
        self._failures = 0
        """In a row."""

    def run(self) -> None:
        """Returns when the table is caught up or the run is asked to end; raises what ends either
        the run or this table's part in it."""
        try:
            self._follow()
        finally:
            self._context.close()

    def _follow(self) -> None:
        context = self._context
        while not context.stop.is_set():
            try:
                step = self._advance()
            except IcdcError as fault:
                self._after(fault)
                continue
            if step is None:
                return
            self._failures = 0
            idle = step in (StepKind.IDLE, StepKind.COMPLETE)
            if step is StepKind.COMPLETE or (idle and not context.request.continuous):
                return
            if idle:
                context.stop.wait(context.request.poll_seconds)

    def _advance(self) -> StepKind | None:
        """The step that was done; None when the run is asked to end."""
        context = self._context
        with self._turns.take(context.table.name), faults(context.table.name):
            if context.stop.is_set():
                return None
            self._renew()
            if self._run is None:
                self._context.store.ensure_index()
                self._run = TableRun(self._context)
            return self._run.advance()

    def _renew(self) -> bool:
        """Whether credentials have changed: the table is begun anew with them."""
        before, self._context = self._context, self._context.with_newest_access()
        if self._context is before:
            return False
        LOG.info("%s: goes on with changed Secrets", before.table.name)
        self._run = None
        return True

    def _after(self, fault: IcdcError) -> None:
        """Waits until the table may be tried again; raises the fault where it is not."""
        context = self._context
        self._run = None
        self._failures += 1
        if isinstance(fault, ENDS_RUN):
            raise fault
        if isinstance(fault, Unauthorized) and self._renew():
            # A password or certificate was changed in the middle of a step: no person is needed.
            return
        if isinstance(fault, Bug) and self._failures < BUG_ATTEMPTS and not context.stop.is_set():
            LOG.warning("%s: %s; it is tried again", context.table.name, fault)
            context.stop.wait(self._backoff())
            return
        if not context.request.continuous:
            raise fault
        complain(context, fault)
        if isinstance(fault, TableError | Bug):
            self._wait_stalled()
        else:
            context.stop.wait(self._backoff())

    def _wait_stalled(self) -> None:
        """Waits for the next recheck, or until a Secret has changed: Kubernetes takes a minute or
        two to bring a new password into the pod."""
        stop, poll = self._context.stop, self._context.request.poll_seconds
        until = time.monotonic() + max(STALLED_RECHECK_SECONDS, poll)
        while time.monotonic() < until and not stop.wait(ROTATION_SECONDS):
            if self._renew():
                return

    def _backoff(self) -> float:
        retry = self._context.spec.retry
        doubled = retry.initial_seconds * 2.0 ** min(self._failures - 1, 30)
        return min(doubled, retry.max_seconds)
