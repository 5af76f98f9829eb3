"""Read the status of a pipeline again and again until a request has ended, or nobody works on it.

Knows time, terminal and cluster; what a status says of a request is for `requests`. An API server
that is upgraded meanwhile, or a login that has expired, does not end what goes on in the cluster.
"""

import time
from collections.abc import Callable
from functools import partial

from icdc_api.base import format_count
from icdc_api.errors import StartTimeout
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableState
from icdc_api.status.runs import RunState
from icdc_cli import terminal
from icdc_cli.cluster import status as statuses
from icdc_cli.cluster.awaiting.requests import AwaitedRestart, AwaitedResync, RequestEnd
from icdc_cli.cluster.session import Target
from icdc_cli.exits import Exit
from icdc_operator.cluster.kube import api_errors

POLL_SECONDS = 2.0
"""Between two reads of the pipeline."""

TAKEN_UP_SECONDS = 60.0
"""How long an operator may take to read a changed spec, whether a run is active or not."""

SETTLED_SECONDS = 60.0
"""How long a continuous run reports until a table that still waits for a person does so because of
this run: before, the table is shown as the run before has left it."""

MAX_UNANSWERED = 30
"""Reads in a row that the API server may leave unanswered, such as while it is upgraded."""


async def wait(target: Target, request: AwaitedResync | AwaitedRestart, *, seconds: int) -> Exit:
    """Wait until the request has ended; say how, and return the exit code.

    `seconds` 0: without limit. StartTimeout after that time, and where no operator reads the spec.
    """
    began, shown = time.monotonic(), ""
    running: tuple[int, float] | None = None  # the epoch of the run that reports, and since when
    while True:
        try:
            status = await _read_status(target)
        # Not a bad command line: it was let in when it began, and the request was accepted.
        except (api_errors.Denied, api_errors.Unavailable) as error:
            text = f"{request.what} goes on in the cluster, but cannot be followed: {error.message}"
            raise api_errors.Unavailable(text) from error
        waited = time.monotonic() - began
        seen = (status.observed_generation or 0) >= request.generation
        running = _follow_run(status, running, waited)
        settled = running is not None and waited - running[1] >= SETTLED_SECONDS
        ending = _find_end(status, partial(request.find_end, settled=settled)) if seen else None
        if ending is not None:
            (terminal.say if ending.code == Exit.DONE else terminal.complain)(
                f"{target.name}: {ending.text}"
            )
            return ending.code
        if not seen and waited >= TAKEN_UP_SECONDS:
            raise StartTimeout(
                f"no operator has read generation {request.generation} of {target.name} within "
                f"{waited:.0f} s; action required: the platform engineer must check that an "
                f"operator is running and watches the namespace {target.namespace}"
            )
        progress = _describe_progress(status, seen=seen, taken_up=request.is_taken_up(status))
        if seconds and waited >= seconds:
            raise StartTimeout(
                f"{request.what} has not ended within {seconds} s and goes on: {progress}"
            )
        if progress != shown:
            terminal.complain(f"{request.what}: {progress}")
            shown = progress
        # The last read falls on the deadline, however the two divide.
        _sleep(min(POLL_SECONDS, max(0.0, seconds - waited)) if seconds else POLL_SECONDS)


async def _read_status(target: Target) -> PipelineStatus:
    for reads_left in reversed(range(MAX_UNANSWERED)):
        try:
            resource = await target.read_pipeline()
        except api_errors.Unavailable:
            if not reads_left:
                raise
            _sleep(POLL_SECONDS)
        else:
            break
    return statuses.parse_status_of(resource)


def _sleep(seconds: float) -> None:
    """Wait, and with it the whole command: it has nothing else to do, see `thin_client`."""
    time.sleep(seconds)


def _follow_run(
    status: PipelineStatus, before: tuple[int, float] | None, waited: float
) -> tuple[int, float] | None:
    """Return the epoch of the run that reports, and how long was waited when it was first seen."""
    run = status.current_run
    if run is None or run.state != RunState.RUNNING:
        return None
    return before if before is not None and before[0] == run.epoch else (run.epoch, waited)


def _find_end(
    status: PipelineStatus, find_end: Callable[[PipelineStatus], RequestEnd | None]
) -> RequestEnd | None:
    # With a spec that is wrong no run starts, and nothing is going to end.
    valid = status.find_condition(ConditionType.SPEC_VALID)
    if valid is not None and valid.status == ConditionStatus.FALSE:
        return RequestEnd(*statuses.choose_exit(status))
    return find_end(status)


def _describe_progress(status: PipelineStatus, *, seen: bool, taken_up: bool) -> str:
    """Return what is waited for, as one line that changes only with the state of a run or table."""
    run, hindrance = status.current_run, statuses.describe_hindrance(status)
    if status.holds(ConditionType.SUSPENDED):
        return "the pipeline is suspended; it begins when it is resumed"
    if not seen:
        return "no operator has read it yet"
    if run is None:
        queue = statuses.describe_queue(status)
        return f"the run is queued: {queue}" if queue else "no run is active"
    if not taken_up:
        return f"the run {run.name} is active and must end first{hindrance}"
    exporting = sum(1 for table in status.tables if table.state == TableState.EXPORTING)
    exports = f", {format_count(exporting, 'table')} exporting" if exporting else ""
    return f"the run {run.name} is {run.state.value}{exports}{hindrance}"
