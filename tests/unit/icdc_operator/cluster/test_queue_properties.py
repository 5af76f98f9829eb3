"""The work queue against a model that keeps no heap: whatever happens, the same keys are due."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from icdc_operator.cluster.queue import PipelineKey, RetryBackoff, WorkQueue

pytestmark = pytest.mark.unit

KEYS = st.sampled_from([PipelineKey("default", name) for name in "abcd"])
DELAYS = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0])
BACKOFF = RetryBackoff(first_seconds=1.0, cap_seconds=8.0, event_seconds=2.0)


class QueueMachine(RuleBasedStateMachine):
    """Additions, workers and time in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.queue = WorkQueue(lambda: self.now, BACKOFF)
        self.due: dict[PipelineKey, float] = {}
        self.active: set[PipelineKey] = set()
        self.failures: dict[PipelineKey, int] = {}
        self.not_before: dict[PipelineKey, float] = {}

    def _expect(self, key: PipelineKey, due: float) -> None:
        due = max(due, self.not_before.get(key, 0.0))
        self.due[key] = min(due, self.due.get(key, due))

    @rule(key=KEYS, after=DELAYS)
    def add(self, key: PipelineKey, after: float) -> None:
        self.queue.add(key, after=after)
        self._expect(key, self.now + after)

    @rule(seconds=DELAYS)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        ready = {k: at for k, at in self.due.items() if at <= self.now and k not in self.active}
        key = self.queue.take()
        if key is None:
            assert not ready
            return
        assert ready[key] == min(ready.values())
        del self.due[key]
        self.active.add(key)

    @precondition(lambda self: self.active)
    @rule(data=st.data(), again=st.none() | DELAYS)
    def succeed(self, data: st.DataObject, again: float | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.active)))
        self.queue.finish(key, again_after=again)
        self.active.remove(key)
        self.failures.pop(key, None)
        self.not_before.pop(key, None)
        if again is not None:
            self._expect(key, self.now + again)

    @precondition(lambda self: self.active)
    @rule(data=st.data(), at_least=DELAYS)
    def fail(self, data: st.DataObject, at_least: float) -> None:
        key = data.draw(st.sampled_from(sorted(self.active)))
        wait = self.queue.retry(key, at_least=at_least)
        self.active.remove(key)
        self.failures[key] = self.failures.get(key, 0) + 1
        delay = max(at_least, BACKOFF.compute_seconds(self.failures[key]))
        floor = max(at_least, min(delay, BACKOFF.event_seconds))
        assert wait == (floor if self.due.pop(key, None) is not None else delay)
        self.not_before[key] = self.now + floor
        self._expect(key, self.now + wait)

    @invariant()
    def depth_and_age_are_those_of_the_model(self) -> None:
        ready = [at for k, at in self.due.items() if at <= self.now and k not in self.active]
        assert self.queue.depth == len(ready)
        assert self.queue.oldest_seconds == self.now - min(ready, default=self.now)
        assert self.queue.active == len(self.active)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=150, stateful_step_count=40)
