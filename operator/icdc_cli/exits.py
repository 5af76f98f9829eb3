"""Exit codes, once: what a script may rely on.

A scheduler that calls `icdc` must decide by the code alone whether to go on, to call a person or to
call again later. So the codes say who acts, and not which module failed, see `Exit`.

    status of a pipeline, or error                              code
    every table Streaming, Verified=False: 3 documents differ   1
    Stalled by Gap of one table, the last run Succeeded         1
    the last run Failed by BadSpec                              2
    Stalled by TargetUnavailable after retry.maxAttempts runs   3
    no JDK on this host (Submission)                            3

A code never changes its meaning: scripts of users hold it. 2 is also what argparse exits with.
"""

from enum import IntEnum

from icdc_api import errors
from icdc_api.errors import BadSpec, FailureClass, IcdcError, PassingError
from icdc_api.job.answers import BATCH_UNDER_WAY
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure


class Exit(IntEnum):
    """The codes; the page of all commands has these texts."""

    DONE = 0
    """Done, a requested suspend included: nobody has to act."""
    STALLED = 1
    """A table is stalled, `verify` found differences, or `doctor` a problem: a person has to act on
    a table, an index or a defect of ours. Calling again changes nothing."""
    USAGE = 2
    """Bad usage, or a spec that is wrong by itself: the author of the command line or of the
    pipeline has to change it."""
    OUTLASTED = 3
    """A passing fault outlasted the retries, `verify` met a batch under way, `run --once` a window
    that is closed before the first export, or this host cannot run the application: calling again
    later, or on another host, may be enough."""
    INTERRUPTED = 130
    """Interrupted by Ctrl-C, as shells have it (128 and the number of SIGINT, 2), where nothing
    could be finished first. `icdc run` ends with its status instead, since it lets a batch
    finish."""
    PIPE_CLOSED = 141
    """The reader of the output went away, such as `head`, as shells have it (128 and the number of
    SIGPIPE, 13)."""
    TERMINATED = 143
    """Ended by SIGTERM, as shells have it (128 and 15). `icdc run` ends with its status instead."""


_HOST_CLASSES = frozenset(
    {
        FailureClass.SUBMISSION,
        FailureClass.IMAGE_PULL,
        FailureClass.UNSCHEDULABLE,
        FailureClass.START_TIMEOUT,
        FailureClass.OUT_OF_MEMORY,
        FailureClass.NODE_LOST,
    }
)
"""Classes of faults of the host or cluster, whatever `retryable` says: Submission, such as of a
missing JDK, does not pass by itself, and yet pipeline and tables are innocent of it."""


def choose_for_error(error: IcdcError) -> Exit:
    """Return the exit code of a command that ended with this error."""
    return choose_for_failure(Failure.of(error))


def choose_for_failure(failure: Failure) -> Exit:
    """Return the exit code for a failure of the whole command."""
    # By the reason: errors that stall one table share the class BadSpec, but are no bad usage.
    if failure.reason == BadSpec.__name__:
        return Exit.USAGE
    if failure.retryable or failure.failure_class in _HOST_CLASSES:
        return Exit.OUTLASTED
    return Exit.STALLED


def choose_for_end(status: PipelineStatus) -> tuple[Exit, str]:
    """Return the same for `icdc run --once`.

    Nothing is wrong with a pipeline whose first export waits for its window, but nothing is done
    either.
    """
    code, message = choose_for_status(status)
    waits = status.find_condition(ConditionType.RUN_ACTIVE)
    is_held = waits is not None and waits.reason == "ExportWindow"
    # A requested suspend is reached, whatever waits for the time after it.
    done = status.holds(ConditionType.EXPORTED) or status.holds(ConditionType.SUSPENDED)
    if code is Exit.DONE and waits is not None and is_held and not done:
        return Exit.OUTLASTED, waits.message
    return code, message


def may_pass(reason: str | None) -> bool:
    """Return whether a table's question was left without an answer by what may pass by itself."""
    kind = getattr(errors, reason or "", None)
    return reason == BATCH_UNDER_WAY or (isinstance(kind, type) and issubclass(kind, PassingError))


def choose_for_status(status: PipelineStatus) -> tuple[Exit, str]:
    """Return the exit code for a pipeline's last status, and the message for standard error.

    The message is empty with DONE. `icdc run` and `icdc status` share it, so a pipeline on a host
    and one in a cluster end a script in the same way.
    """
    # Stalled before Verified: a table that waits for a person may be the very reason for a
    # difference, and its message says what to do.
    stalled = status.find_condition(ConditionType.STALLED)
    if stalled is None or not status.holds(ConditionType.STALLED):
        verified = status.find_condition(ConditionType.VERIFIED)
        if verified is not None and verified.status == ConditionStatus.FALSE:
            return Exit.STALLED, verified.message
        return Exit.DONE, ""
    # A question (plan, verify) that failed says nothing about whether tables are followed.
    last = status.last_run
    if last is not None and last.failure is not None and not last.kind.inspects:
        return choose_for_failure(last.failure), stalled.message
    tables = {table.name for table in status.tables if table.reason is not None}
    # The last run ended well, so a count of failures comes from a table that waits for a server.
    code = Exit.OUTLASTED if status.consecutive_failures and tables else Exit.STALLED
    return code, stalled.message
