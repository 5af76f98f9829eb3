"""Questions that people ask a pipeline (`icdc plan NAME`, `icdc verify NAME`): one run each. Pure.

A question stands beside what the spec wants: it is answered whether the pipeline is suspended,
stalled or waits for an attempt, and how its run ends changes nothing of that. While the run is at
work no other is, so a continuous run makes room and comes back afterwards. The answer is in the
report of the run; the status only says which run that is, and whether it has ended.

    annotation set -> run planned, observedAsk names it -> run ended, observedAsk is finished
"""

from datetime import datetime

from icdc_api.errors import Bug, NodeLost
from icdc_api.runs import Failure, RunState, RunStatus
from icdc_api.spec import PipelineSpec, Trigger
from icdc_api.status import PipelineStatus
from icdc_api.triggers import Ask, ObservedAsk
from icdc_operator.core import run_log
from icdc_operator.core.observed import Observed, RunSeen


def find_pending(known: PipelineStatus, observed: Observed) -> Ask | None:
    """The question that waits for its answer, if there is one that can be answered."""
    ask, before = observed.ask, known.observed_ask
    if ask is None or observed.spec is None or observed.closing:
        return None
    return None if before is not None and before.id == ask.id and before.finished else ask


def must_make_room(known: PipelineStatus, observed: Observed, run: RunStatus) -> bool:
    """Whether the run at work would stay without end, and a question waits for it to go."""
    spec = observed.spec
    stays = spec is not None and spec.changelog.trigger == Trigger.CONTINUOUS
    return stays and not run.kind.inspects and find_pending(known, observed) is not None


def is_withdrawn(run: RunStatus, observed: Observed) -> bool:
    """Whether nobody waits for the answer of that run any more."""
    return observed.ask is None or observed.ask.id != run.ask


def plan_run(
    known: PipelineStatus, observed: Observed, spec: PipelineSpec, ask: Ask, *, now: datetime
) -> PipelineStatus:
    """`known` with the record of the run that answers."""
    run = run_log.plan_run(known, observed, spec, now=now, kind=ask.mode, ask=ask.id)
    taken_up = ObservedAsk(id=ask.id, run=run.name)
    return known.model_copy(update={"current_run": run, "observed_ask": taken_up})


def close_run(
    known: PipelineStatus, run: RunStatus, seen: RunSeen | None, observed: Observed, now: datetime
) -> PipelineStatus:
    """`known`, whose run has ended: the question is answered, or is to be taken up again."""
    ended = run_log.finish_run(run, seen, now=now)
    failure = ended.failure
    report = None if seen is None else seen.report
    answered = report is not None and report.finished and report.result is not None
    if failure is None and not answered:
        if run.state == RunState.STOPPING and not is_withdrawn(run, observed):
            # It had to go for a new generation of the spec, such as the one that is asked about.
            return known.model_copy(
                update={
                    "current_run": None,
                    "recent_runs": run_log.add_to_log(known.recent_runs, ended),
                }
            )
        failure = Failure.of(Bug(f"run {run.name} ended well, but gave no answer"))
        if is_withdrawn(run, observed):
            failure = Failure.of(NodeLost(f"run {run.name} was ended: nobody waits for its answer"))
    answer = ObservedAsk(id=run.ask or run.name, run=run.name, finished=True, failure=failure)
    return known.model_copy(
        update={
            "current_run": None,
            "recent_runs": run_log.add_to_log(known.recent_runs, ended),
            "observed_ask": answer,
        }
    )
