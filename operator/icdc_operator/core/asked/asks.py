"""Questions that people ask a pipeline, such as `icdc plan NAME`: one run each. Pure.

A question stands beside what the spec asks for: it is answered whether the pipeline is suspended,
stalled or waits for an attempt, and how its run ends changes none of these. No other run is active
meanwhile. A continuous run answers by itself, see `continuous_run`; where it cannot, it ends first
and is planned again afterwards. The answer is in the report of the run; the status only names that
run, and says whether it has ended.

    time  annotation icebergcdc.dev/ask    status.currentRun     status.observedAsk
    0     {"id": "a1", "mode": "Plan"}     shop-c7-1             -
    1     (unchanged)                      shop-c7-1 Stopping    -                  if it cannot
    2     (unchanged)                      shop-p8-1, ask a1     id a1, run shop-p8-1
    3     (unchanged)                      -                     id a1, finished
    4     {"id": "b2", "mode": "Verify"}   shop-v9-1, ask b2     id b2, run shop-v9-1
"""

from datetime import datetime

from icdc_api.errors import Bug, NodeLost
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure, RunState, RunStatus
from icdc_api.status.triggers import Ask, ObservedAsk
from icdc_operator.core import run_log
from icdc_operator.core.observed import Observed, RunSeen


def find_pending(status: PipelineStatus, observed: Observed) -> Ask | None:
    """Return the question that has no answer yet, if a run can answer it now."""
    ask, before = observed.ask, status.observed_ask
    # A run that starts while the adapter is closing would be stopped before it could answer.
    if ask is None or observed.spec is None or observed.closing:
        return None
    return None if before is not None and before.id == ask.id and before.finished else ask


def is_withdrawn(run: RunStatus, observed: Observed) -> bool:
    """Return whether the annotation no longer holds the question that `run` answers."""
    return observed.ask is None or observed.ask.id != run.ask


def plan_run(
    status: PipelineStatus, observed: Observed, ask: Ask, *, now: datetime
) -> PipelineStatus:
    """Return `status` with the record of the run that answers `ask`."""
    run = run_log.plan_run(status, observed, now=now, kind=ask.mode, ask=ask.id)
    observed_ask = ObservedAsk(id=ask.id, run=run.name)
    return status.model_copy(update={"current_run": run, "observed_ask": observed_ask})


def close_run(
    status: PipelineStatus,
    run: RunStatus,
    seen: RunSeen | None,
    *,
    observed: Observed,
    now: datetime,
) -> PipelineStatus:
    """Return `status` after `run` has ended: the question is answered, failed, or open again."""
    ended = run_log.finish_run(run, seen, now=now)
    failure = ended.failure
    report = None if seen is None else seen.report
    answered = report is not None and report.finished and report.result is not None
    # A run that was asked to stop ends without a failure and without an answer.
    if failure is None and not answered:
        if run.state == RunState.STOPPING and not is_withdrawn(run, observed):
            # It made room for a new generation, such as the one that the question is about.
            return status.model_copy(
                update={
                    "current_run": None,
                    "recent_runs": run_log.add_to_log(status.recent_runs, ended),
                }
            )
        failure = Failure.of(Bug(f"run {run.name} succeeded but reported no answer"))
        if is_withdrawn(run, observed):
            text = f"run {run.name} was stopped because its question was withdrawn"
            failure = Failure.of(NodeLost(text))
    # Finished even with a failure: it is not retried, since the person who asks sees it at once.
    answer = ObservedAsk(id=run.ask or run.name, run=run.name, finished=True, failure=failure)
    return status.model_copy(
        update={
            "current_run": None,
            "recent_runs": run_log.add_to_log(status.recent_runs, ended),
            "observed_ask": answer,
        }
    )
