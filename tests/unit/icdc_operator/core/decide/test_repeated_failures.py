"""Runs that fail again and again for what is outside of the pipeline: who learns of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from icdc_api import errors
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import MAX_RECENT_RUNS
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_operator.core import retry, run_log
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    decide_after_failure,
    make_active,
    make_observed,
    make_seen,
    make_spec,
    run_record,
)

pytestmark = pytest.mark.unit

REFUSED = Failure.of(errors.Submission('pods "x" is forbidden: violates PodSecurity'))


def test_a_submission_that_the_cluster_refused_needs_no_edit_once_it_is_admitted() -> None:
    """Else each pipeline would have to be touched after a wrong rule, or a late service account."""
    refused = decide_after_failure(make_spec(), REFUSED).status
    assert refused.next_attempt_time is not None
    again = decide(make_observed(make_spec(), refused), refused.next_attempt_time).status
    assert again.current_run is not None
    assert again.current_run.name == "shop-e1-2"
    for status in (refused, again):
        stalled = status.find_condition(ConditionType.STALLED)
        assert stalled is not None
        assert stalled.message.endswith("the platform engineer; retried until then")


@pytest.mark.parametrize(
    ("before", "minutes", "stalled"), [(6, 1, False), (7, 1, True), (9, 1, True), (9, 31, False)]
)
def test_runs_that_are_lost_again_and_again_need_a_person_and_those_of_hours_do_not(
    before: int, minutes: int, stalled: bool
) -> None:
    lost = Failure.of(errors.NodeLost("evicted"))
    began = NOW - timedelta(minutes=minutes)
    log = [run_record(name=f"shop-c{n}-1", epoch=n, failure=lost) for n in range(before, 0, -1)]
    recent = [
        run.model_copy(update={"state": RunState.FAILED, "started_at": began, "finished_at": NOW})
        for run in log
    ]
    world = make_active(make_spec(), make_seen(RunPhase.FAILED, failure=lost))
    status = world.status.model_copy(update={"recent_runs": tuple(recent), "last_run": recent[0]})
    decision = decide(replace(world, status=status), NOW)
    condition = decision.status.find_condition(ConditionType.STALLED)
    assert condition is not None
    assert decision.status.holds(ConditionType.STALLED) == stalled
    assert decision.status.consecutive_failures == 0
    if stalled:
        assert decision.settled
        assert condition.message.startswith(
            f"failed {before + 1} times in a row: NodeLost: evicted"
        )
        assert condition.message.endswith("action required: the platform engineer")


def test_questions_in_between_do_not_hide_that_runs_are_lost_again_and_again() -> None:
    """A person who looks for the cause asks, and a script may ask every hour."""
    lost = {"state": RunState.FAILED, "failure": Failure.of(errors.NodeLost("evicted"))}
    log: tuple[RunStatus, ...] = ()
    for epoch in range(0, 60, 3):
        for answer in (epoch, epoch + 1):
            asked = run_record(epoch=answer, kind=RunKind.PLAN, ask=f"a{answer}")
            log = run_log.add_to_log(log, asked)
        log = run_log.add_to_log(log, run_record(epoch=epoch + 2, **lost))
    assert len(log) == MAX_RECENT_RUNS
    assert retry.count_losses(log) == retry.MANY_LOSSES
    assert [run.epoch for run in log if run.ask is not None] == [58, 57], "the newest"
