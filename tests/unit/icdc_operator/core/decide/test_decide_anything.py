"""`decide` in any state, also one that no operator of ours would leave: safe at once, then well."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import Observed, RunSeen
from icdc_testing.operator.deciding.pipelines import NOW, make_spec
from icdc_testing.operator.deciding.world import TABLES, DecideWorld, check

from . import any_state

pytestmark = pytest.mark.unit


def limit_seconds(examples: int) -> settings:
    """Seconds in all. A state that fails is printed as it was found, which shrinking takes minutes
    to better."""
    result = [Phase.explicit, Phase.reuse, Phase.generate]
    return settings(
        max_examples=examples, deadline=None, phases=result, suppress_health_check=list(HealthCheck)
    )


POLLS = 25

SPECS = (
    make_spec(*TABLES),
    make_spec(*TABLES, suspend=True),
    make_spec(TABLES[0], mode="ExportOnly", history={"successful": 0, "failed": 0}),
    make_spec(*TABLES, mode="StreamOnly", changelog={"trigger": "Continuous"}),
    make_spec(*TABLES, restartNonce=5, resync={"nonce": 5}, timeouts={"runSeconds": 60}),
    None,
)

heads = st.none() | st.dictionaries(
    st.sampled_from(TABLES), st.none() | st.integers(0, 9).map(str), max_size=2
)
observations = st.builds(
    Observed,
    namespace=st.just("default"),
    name=st.just("shop"),
    generation=st.integers(1, 4),
    spec=st.sampled_from(SPECS),
    status=any_state.statuses,
    problem=st.just("spec.tables: empty"),
    runs=any_state.draw_runs(),
    heads=heads,
    old_heads=st.sets(st.sampled_from(TABLES)),
    heads_watched=st.booleans(),
    asked_at=st.none() | any_state.moments,
    denied=st.none() | any_state.failures,
    closing=st.booleans(),
)


@limit_seconds(60)
@given(observations)
def test_a_decision_is_safe_whatever_is_found(observed: Observed) -> None:
    check(observed, decide(observed, NOW))


@limit_seconds(30)
@given(observations)
def test_looking_again_at_the_same_world_comes_to_rest(observed: Observed) -> None:
    """Nobody else does anything, and no action has any effect: the status stops changing."""
    for _ in range(6):
        decision = decide(observed, NOW)
        status = parse_status(decision.status.to_resource())
        if status == observed.status:
            assert decision.requeue_after != 0
            return
        observed = Observed(**{**vars(observed), "status": status})
    pytest.fail("the status is another one after each look")


@limit_seconds(20)
@given(any_state.statuses, any_state.draw_runs(), st.booleans())
def test_from_any_state_a_calm_world_becomes_well(
    status: PipelineStatus, runs: tuple[RunSeen, ...], heads_known: bool
) -> None:
    world = DecideWorld()
    world.heads_known = heads_known
    world.status = status
    world.generation = 9  # somebody looks after the pipeline and edits it
    world.runs = {run.name: run for run in runs}
    begun = {(run.name, run.epoch) for run in runs}
    for _ in range(POLLS):
        decision = world.step()
        ours = [run for run in world.live if (run.name, run.epoch) not in begun]
        assert len(ours) <= 1
        for run in world.live:
            world.work(run.name)
            world.end(run.name, finished=True)
        world.now += timedelta(seconds=min(decision.requeue_after or 1.0, 700.0))
    assert world.applied == world.heads
    assert world.status.holds(ConditionType.READY), world.status.find_condition(ConditionType.READY)
    assert world.status.holds(ConditionType.CAUGHT_UP)
    assert not world.live
