"""Say in one line what the operator does next by itself with a pipeline, or who must act first.

`icdc plan NAME` opens with it: what a run would find out is of little use to a person who does not
see that no run will start, because the pipeline is suspended, queued or stalled.

    situation, the first that applies         line
    is being deleted                          nothing new: …
    no operator has seen it                   unknown: …
    the spec is newer than the status         takes in generation 8 …
    a run is active                           follows the run shop-c4-1 …
    suspended                                 nothing: suspended until …
    stalled, no attempt planned               stalled: TableStalled: …; action required: …
    due, and other pipelines have all runs    starts the next run when it is its turn: …
    else                                      waits 40s, until 10:00:00 UTC, and starts a run

The times come from `core.schedule`, the very code by which the operator acts, so that the two
cannot disagree. Read from the resource alone, as the operator left it. Pure; asks nobody, and
promises nothing that only a run can find out.
"""

from datetime import datetime

from icdc_api.base import shorten
from icdc_api.spec.changelog import Trigger
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunState, RunStatus
from icdc_cli.cluster import status as statuses
from icdc_cli.tables import text_tables
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.core import schedule
from icdc_operator.core.observed import Observed

MAX_LINE = 1200
"""Characters of the line: a message of the status, and as much around it as a line may say."""


def explain_next_step(
    resource: Resource, status: PipelineStatus, spec: PipelineSpec, *, now: datetime
) -> str:
    """Return the next step as one line of text; `now` has a time zone."""
    # Messages of the status may have several lines; callers print or store one.
    text = " ".join(_describe_next(resource, status, spec, now).split())
    return shorten(text, MAX_LINE)


def _describe_next(
    resource: Resource, status: PipelineStatus, spec: PipelineSpec, now: datetime
) -> str:
    metadata = resource["metadata"]
    name, generation = metadata["name"], metadata.get("generation")
    if metadata.get("deletionTimestamp"):
        return "nothing new: the pipeline is being deleted"
    if status.observed_generation is None:
        return (
            "unknown: no operator has seen the pipeline yet; if this lasts, the platform engineer "
            "must check that an operator is running and watches this namespace"
        )
    # Before the run: it may be that of the old spec, about to be stopped for the new one.
    if generation not in (None, status.observed_generation):
        return (
            f"reads generation {generation} of the spec, which no operator has seen yet; the "
            f"status is about generation {status.observed_generation}"
        )
    run = status.current_run
    if run is not None:
        # A suspended pipeline answers questions all the same.
        is_ended = spec.suspend and run.ask is None
        ends = "; it ends after its batch, as the pipeline is suspended" if is_ended else ""
        hindrance = statuses.describe_hindrance(status)
        stall = _describe_stall(status, "; meanwhile stalled")
        return _describe_active(run) + ends + hindrance + stall
    if spec.suspend:
        return f"nothing: suspended until somebody sets spec.suspend to false (icdc resume {name})"
    stalled = _describe_stall(status, "stalled")
    # With a time the pipeline is retried by itself, stalled as it is: both are said.
    if stalled and status.next_attempt_time is None:
        return stalled
    planned = _describe_schedule(resource, status, spec, now)
    return f"{stalled}; {planned}" if stalled else planned


def _describe_active(run: RunStatus) -> str:
    what = f"{run.name} ({run.kind.value}, attempt {run.attempt})"
    if run.state == RunState.PLANNED:
        return f"creates the run {what} now"
    words = {
        RunState.SUBMITTED: "is submitted and has not reported yet",
        RunState.STOPPING: "is asked to end",
    }
    return f"follows the run {what}, which {words.get(run.state, 'runs now')}"


def _describe_stall(status: PipelineStatus, lead: str) -> str:
    """Return why a person must act, and who, after `lead`; empty when nobody must."""
    condition = status.find_condition(ConditionType.STALLED)
    if condition is None or not status.holds(ConditionType.STALLED):
        return ""
    return f"{lead}: {condition.reason}: {condition.message}"


def _describe_schedule(
    resource: Resource, status: PipelineStatus, spec: PipelineSpec, now: datetime
) -> str:
    metadata = resource["metadata"]
    observed = Observed(
        namespace=metadata["namespace"],
        name=metadata["name"],
        generation=metadata.get("generation") or 0,
        spec=spec,
        status=status,
        # That it polls current snapshots by itself is what the operator does where it can.
        heads_watched=spec.changelog.trigger == Trigger.ON_COMMIT,
    )
    due = schedule.find_next_due(status, observed, spec, now=now)
    if due.at is not None:
        wait = int((due.at - now).total_seconds())
        failed = status.next_attempt_time is not None and status.consecutive_failures > 0
        why = f" (attempt after failure {status.consecutive_failures})" if failed else ""
        if wait <= 0:
            queue = statuses.describe_queue(status)
            when = f"when it is its turn: {queue}" if queue else "now"
            return f"starts the next run {when}{why}"
        duration = text_tables.format_duration(wait)
        return f"waits {duration}, until {due.at:%H:%M:%S} UTC, and starts a run{why}"
    if due.poll_after is None:
        return "nothing: every table is complete; only a change of the spec starts another run"
    seconds = spec.changelog.poll_interval_seconds
    return f"polls for a new snapshot every {seconds} s, and then starts a run"
