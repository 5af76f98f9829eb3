"""The work queue: which key comes when, by a clock of the test."""

import asyncio
import time

import pytest

from icdc_operator.cluster.queue import PipelineKey, RetryBackoff, WorkQueue
from icdc_testing.waiting.manual_clock import ManualClock

pytestmark = pytest.mark.unit

SHOP, TAXI, LAKE = (PipelineKey("default", name) for name in ("shop", "taxi", "lake"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def queue(clock: ManualClock) -> WorkQueue:
    return WorkQueue(clock, RetryBackoff(first_seconds=1.0, cap_seconds=60.0, event_seconds=5.0))


def take_due(queue: WorkQueue) -> list[PipelineKey]:
    """Return all keys that are due, given back at once."""
    keys: list[PipelineKey] = []
    while (key := queue.take()) is not None:
        keys.append(key)
        queue.finish(key)
    return keys


def test_keys_come_in_the_order_in_which_they_became_due(
    queue: WorkQueue, clock: ManualClock
) -> None:
    queue.add(TAXI, after=2.0)
    queue.add(SHOP, after=1.0)
    queue.add(LAKE)
    clock.seconds += 3
    assert take_due(queue) == [LAKE, SHOP, TAXI]


def test_a_key_that_is_added_again_while_it_waits_is_one_key(queue: WorkQueue) -> None:
    for _ in range(3):
        queue.add(SHOP)
    assert queue.depth == 1
    assert take_due(queue) == [SHOP]


@pytest.mark.parametrize("delays", [(5.0, 1.0), (1.0, 5.0)])
def test_the_earliest_of_several_times_counts(
    queue: WorkQueue, clock: ManualClock, delays: tuple[float, float]
) -> None:
    for delay in delays:
        queue.add(SHOP, after=delay)
    clock.seconds += 0.9
    assert take_due(queue) == []
    clock.seconds += 0.1
    assert take_due(queue) == [SHOP]
    clock.seconds += 60
    assert take_due(queue) == []


def test_a_key_is_worked_on_by_one_worker_at_a_time(queue: WorkQueue) -> None:
    queue.add(SHOP)
    assert queue.take() == SHOP
    queue.add(SHOP)
    assert queue.take() is None
    assert queue.depth == 0
    queue.finish(SHOP)
    assert queue.take() == SHOP


def test_a_key_in_work_does_not_hold_up_others(queue: WorkQueue) -> None:
    queue.add(SHOP)
    queue.take()
    queue.add(SHOP)
    queue.add(TAXI)
    assert queue.take() == TAXI


def test_an_addition_during_work_goes_before_the_next_planned_look(
    queue: WorkQueue, clock: ManualClock
) -> None:
    queue.add(SHOP)
    queue.take()
    queue.add(SHOP)
    queue.finish(SHOP, again_after=30.0)
    assert take_due(queue) == [SHOP]
    clock.seconds += 60
    assert take_due(queue) == []


def test_the_wait_after_failures_doubles_up_to_the_cap(
    queue: WorkQueue, clock: ManualClock
) -> None:
    waits = []
    queue.add(SHOP)
    for _ in range(9):
        assert queue.take() == SHOP
        waits.append(queue.retry(SHOP))
        clock.seconds += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_thousand_failures_do_not_overflow() -> None:
    assert RetryBackoff(cap_seconds=60.0).compute_seconds(5000) == 60.0


def test_a_success_forgives_the_failures_before_it(queue: WorkQueue, clock: ManualClock) -> None:
    queue.add(SHOP)
    for _ in range(3):
        queue.take()
        clock.seconds += queue.retry(SHOP)
    queue.take()
    queue.finish(SHOP, again_after=0.0)
    queue.take()
    assert queue.retry(SHOP) == 1.0


def test_a_change_shortens_a_long_wait_but_not_below_the_bound(
    queue: WorkQueue, clock: ManualClock
) -> None:
    queue.add(SHOP)
    for _ in range(7):
        queue.take()
        wait = queue.retry(SHOP)
        clock.seconds += wait
    queue.take()
    assert queue.retry(SHOP) == 60.0
    queue.add(SHOP)
    clock.seconds += 4.9
    assert queue.take() is None
    clock.seconds += 0.2
    assert queue.take() == SHOP


def test_a_change_during_work_that_fails_does_not_wait_for_the_whole_backoff(
    queue: WorkQueue, clock: ManualClock
) -> None:
    queue.add(SHOP)
    for _ in range(6):
        queue.take()
        clock.seconds += queue.retry(SHOP)
    queue.take()
    queue.add(SHOP)
    assert queue.retry(SHOP) == 5.0


def test_no_change_goes_before_the_time_a_server_asked_for(
    queue: WorkQueue, clock: ManualClock
) -> None:
    queue.add(SHOP)
    queue.take()
    assert queue.retry(SHOP, at_least=20.0) == 20.0
    queue.add(SHOP)
    clock.seconds += 19.9
    assert queue.take() is None
    clock.seconds += 0.2
    assert queue.take() == SHOP


def test_depth_and_age_tell_of_keys_that_wait_for_a_worker_alone(
    queue: WorkQueue, clock: ManualClock
) -> None:
    queue.add(SHOP)
    queue.add(TAXI, after=10.0)
    clock.seconds += 3
    assert (queue.depth, queue.oldest_seconds, queue.active) == (1, 3.0, 0)
    queue.take()
    assert (queue.depth, queue.oldest_seconds, queue.active) == (0, 0.0, 1)
    clock.seconds += 8
    assert (queue.depth, queue.oldest_seconds) == (1, 1.0)


def test_a_key_that_is_put_off_again_and_again_does_not_grow_the_queue(
    queue: WorkQueue, clock: ManualClock
) -> None:
    for _ in range(10_000):
        queue.add(SHOP, after=3600.0)
        queue.add(SHOP)
        assert take_due(queue) == [SHOP]
        clock.seconds += 0.001
    assert len(queue._heap) < 200


def test_a_closed_queue_hands_out_nothing_and_waits_for_what_is_in_work(queue: WorkQueue) -> None:
    async def play() -> None:
        queue.add(SHOP)
        queue.add(TAXI)
        assert await queue.get() == SHOP
        queue.close()
        assert await queue.get() is None
        queue.add(LAKE)
        drained = asyncio.create_task(queue.wait_idle())
        await asyncio.sleep(0)
        assert not drained.done()
        queue.finish(SHOP, again_after=0.0)
        await drained
        assert queue.take() is None

    asyncio.run(play())


def test_waiting_workers_get_what_is_added_or_becomes_due_each_key_once() -> None:
    async def play() -> list[PipelineKey]:
        queue = WorkQueue(time.monotonic)
        got: list[PipelineKey] = []

        async def work() -> None:
            while (key := await queue.get()) is not None:
                got.append(key)
                await asyncio.sleep(0)
                queue.finish(key)
                if len(got) == 3:
                    queue.close()

        workers = [asyncio.create_task(work()) for _ in range(4)]
        await asyncio.sleep(0)
        queue.add(TAXI, after=0.5)
        queue.add(LAKE, after=0.01)
        queue.add(SHOP)
        await asyncio.gather(*workers)
        return got

    assert asyncio.run(play()) == [SHOP, LAKE, TAXI]
