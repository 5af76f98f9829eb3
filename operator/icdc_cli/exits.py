"""Exit codes, once: what a script may rely on.

0  done, a requested suspend included
1  a table stalled, or verify found differences
2  bad usage, or a spec that is wrong by itself
3  a passing fault outlasted the retries, or this host cannot run the application
"""

from enum import IntEnum

from icdc_api.errors import BadSpec, FailureClass, IcdcError
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure


class Exit(IntEnum):
    """See the module."""

    DONE = 0
    STALLED = 1
    USAGE = 2
    OUTLASTED = 3
    INTERRUPTED = 130
    """By Ctrl-C, as shells have it, where nothing could be finished first."""


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


def of_error(error: IcdcError) -> Exit:
    """The code for a command that ended with this error."""
    return of_failure(Failure.of(error))


def of_failure(failure: Failure) -> Exit:
    """The code for a failure of the whole command."""
    # By the reason: errors that stall one table share the class BadSpec, but are no bad usage.
    if failure.reason == BadSpec.__name__:
        return Exit.USAGE
    if failure.retryable or failure.failure_class in _HOST_CLASSES:
        return Exit.OUTLASTED
    return Exit.STALLED


def of_status(status: PipelineStatus) -> tuple[Exit, str]:
    """The code for a pipeline that was left in this status, and what to say on stderr."""
    stalled = status.condition(ConditionType.STALLED)
    if stalled is None or not status.holds(ConditionType.STALLED):
        verified = status.condition(ConditionType.VERIFIED)
        if verified is not None and verified.status == ConditionStatus.FALSE:
            return Exit.STALLED, verified.message
        return Exit.DONE, ""
    last = status.last_run
    if last is not None and last.failure is not None and not last.kind.inspects:
        return of_failure(last.failure), stalled.message
    tables = {table.name for table in status.tables if table.reason is not None}
    # The last run ended well, so a count of failures comes from a table that waits for a server.
    code = Exit.OUTLASTED if status.consecutive_failures and tables else Exit.STALLED
    return code, stalled.message
