"""Turns whatever happens: no limit is ever exceeded, and nobody waits for ever."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from icdc_operator.cluster.loop.admission import EVERY_ELDEST
from icdc_operator.cluster.loop.slots import Limits
from icdc_operator.cluster.queue import PipelineKey
from icdc_testing.operator.adapter.site import ClusterPipeline, Site

LIMITS = Limits(total=3, per_namespace=2, per_target=2)
KEYS = [PipelineKey(namespace, f"shop-{number}") for namespace in "abc" for number in range(3)]
HOSTS = ("https://one", "https://two", "https://three")


class AdmissionMachine(RuleBasedStateMachine):
    """Pipelines want runs and lose interest; reconciles come late, fail, or come too often."""

    def __init__(self) -> None:
        super().__init__()
        self.site = Site(LIMITS)
        for number, key in enumerate(KEYS):
            self.site.pipelines[key] = ClusterPipeline(HOSTS[number % len(HOSTS)])

    @rule(key=st.sampled_from(KEYS), wants=st.sampled_from([True, True, True, False]))
    def change_whether_due(self, key: PipelineKey, wants: bool) -> None:
        self.site.pipelines[key].wants = wants
        self.site.reconcile(key)

    @rule(key=st.sampled_from(KEYS))
    def reconcile_any(self, key: PipelineKey) -> None:
        self.site.reconcile(key)

    @rule(key=st.sampled_from(KEYS), refused=st.booleans())
    def lose_plan(self, key: PipelineKey, refused: bool) -> None:
        self.site.reconcile(key, saved=False)
        if refused:
            self.site.admission.note_refused(key)

    @precondition(lambda self: self.site.woken)
    @rule(polls=st.booleans())
    def wake(self, polls: bool) -> None:
        key = self.site.woken.pop(0)
        if polls:
            self.site.reconcile(key)

    @precondition(lambda self: self.site.running)
    @rule(data=st.data(), again=st.booleans())
    def end_run(self, data: st.DataObject, again: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.site.running)))
        self.site.pipelines[key].wants = again
        self.site.end(key)

    @rule(seconds=st.integers(1, 100))
    def pass_time(self, seconds: int) -> None:
        self.site.seconds += seconds

    @rule(lost=st.sets(st.sampled_from(KEYS), max_size=3))
    def restart_operator(self, lost: set[PipelineKey]) -> None:
        self.site.restart()
        self.site.admission.note_listed(KEYS)
        for key in KEYS:
            if key in lost and key not in self.site.running:
                self.site.admission.note_reconciled(key)
            else:
                self.site.reconcile(key)

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        running = self.site.running
        assert len(running) <= LIMITS.total
        for namespace in "abc":
            mine = [key for key in running if key.namespace == namespace]
            assert len(mine) <= LIMITS.per_namespace
        for host in HOSTS:
            mine = [key for key in running if self.site.pipelines[key].host == host]
            assert len(mine) <= LIMITS.per_target

    @invariant()
    def what_is_counted_is_what_runs(self) -> None:
        assert self.site.admission.active >= len(self.site.running)

    @rule()
    def give_everybody_a_turn(self) -> None:
        site = self.site
        before = {key: site.pipelines[key].turns for key in KEYS}
        for key in KEYS:  # what was never asked for, or asked in vain, is asked again
            site.pipelines[key].wants = True
            site.reconcile(key)
        for _ in range(len(KEYS)):
            site.wake()
            for ended in sorted(site.running):
                site.pipelines[ended].wants = True  # they always have something to do
                site.end(ended)
        assert all(site.pipelines[key].turns > before[key] for key in KEYS)


AdmissionMachine.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestMachine = pytest.mark.unit(AdmissionMachine.TestCase)


@pytest.mark.unit
@pytest.mark.parametrize("others", [1, 5, 20])
def test_nobody_waits_for_ever_beside_runs_that_never_end(others: int) -> None:
    site = Site(Limits(total=2))
    endless, waits = PipelineKey("a", "endless"), PipelineKey("a", "waits")
    site.want(endless, *(PipelineKey("b", f"b{number}") for number in range(2)), waits)
    site.want(*(PipelineKey("b", f"c{number}") for number in range(others)))
    turns = 0
    while waits not in site.running:
        (short,) = site.running - {endless}
        site.pipelines[short].wants = True
        site.end(short)
        site.wake()
        turns += 1
        assert turns <= 3 * EVERY_ELDEST
