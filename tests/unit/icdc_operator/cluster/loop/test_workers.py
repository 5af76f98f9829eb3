"""Workers: each key gets its answer, whatever a look does."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

import pytest

from icdc_operator.cluster.kube.api_errors import Conflict, NameTaken, Unavailable
from icdc_operator.cluster.loop.workers import Workers
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey, RetryBackoff, WorkQueue

pytestmark = pytest.mark.unit

SHOP, TAXI = PipelineKey("default", "shop"), PipelineKey("default", "taxi")


class WorkerBench:
    """Workers on a queue of the test, until a look closes it."""

    def __init__(self) -> None:
        self.queue = WorkQueue(time.monotonic, RetryBackoff(first_seconds=0.001))
        self.metrics = Metrics()
        self.moments: list[float] = []

    def work(
        self,
        poll: Callable[[PipelineKey], Awaitable[float | None]],
        *keys: PipelineKey,
        count: int = 2,
        reconcile_seconds: float = 5.0,
    ) -> None:
        async def note(key: PipelineKey) -> float | None:
            self.moments.append(time.monotonic())
            return await poll(key)

        async def play() -> None:
            for key in keys:
                self.queue.add(key)
            workers = Workers(self.queue, note, self.metrics, reconcile_seconds=reconcile_seconds)
            began = workers.last_finished
            await asyncio.wait_for(workers.run(count), timeout=60)
            assert workers.last_finished > began

        asyncio.run(play())

    def build_failing_poll(
        self, error: Exception
    ) -> Callable[[PipelineKey], Awaitable[float | None]]:
        faults = [error]

        async def poll(_: PipelineKey) -> float | None:
            if faults:
                raise faults.pop()
            self.queue.close()
            return None

        return poll

    @property
    def results(self) -> dict[str, float]:
        return {
            sample.labels["result"]: sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "icdc_reconciles_total"
        }


@pytest.fixture
def bench() -> WorkerBench:
    return WorkerBench()


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (Unavailable("no answer"), "failed"),
        (Conflict("written since"), "conflict"),
        (NameTaken("not ours"), "failed"),
        (ZeroDivisionError("a bug"), "error"),
    ],
)
def test_a_look_that_fails_is_counted_and_repeated(
    bench: WorkerBench, error: Exception, result: str
) -> None:
    bench.work(bench.build_failing_poll(error), SHOP)
    assert bench.results == {result: 1.0, "done": 1.0}


def test_an_error_that_nobody_foresaw_is_counted_apart(bench: WorkerBench) -> None:
    bench.work(bench.build_failing_poll(ZeroDivisionError("a bug")), SHOP)
    assert bench.metrics.registry.get_sample_value("icdc_unexpected_errors_total") == 1.0


def test_a_look_that_hangs_is_ended_and_repeated(bench: WorkerBench) -> None:
    async def poll(_: PipelineKey) -> float | None:
        if len(bench.moments) == 1:
            await asyncio.Event().wait()
        bench.queue.close()
        return None

    bench.work(poll, SHOP, reconcile_seconds=0.02)
    assert bench.results == {"timeout": 1.0, "done": 1.0}


def test_the_next_look_comes_when_the_last_one_asked_for_it(bench: WorkerBench) -> None:
    async def poll(_: PipelineKey) -> float | None:
        if len(bench.moments) == 3:
            bench.queue.close()
        return 0.03

    bench.work(poll, SHOP)
    assert all(later - earlier >= 0.03 for earlier, later in itertools.pairwise(bench.moments))


def test_the_time_a_server_asks_for_is_waited(bench: WorkerBench) -> None:
    bench.work(bench.build_failing_poll(Unavailable("too many requests", 0.05)), SHOP)
    assert bench.moments[1] - bench.moments[0] >= 0.05


def test_pipelines_are_looked_at_side_by_side_but_each_by_one_worker(bench: WorkerBench) -> None:
    active: set[PipelineKey] = set()
    met = asyncio.Event()

    async def poll(key: PipelineKey) -> float | None:
        assert key not in active
        active.add(key)
        bench.queue.add(key)
        if len(active) == 2:
            met.set()
        await met.wait()
        active.remove(key)
        if len(bench.moments) > 20:
            bench.queue.close()
        return None

    bench.work(poll, SHOP, TAXI, count=4)
    assert met.is_set()
