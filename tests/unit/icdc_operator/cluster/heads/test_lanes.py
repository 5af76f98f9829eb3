"""Blocking calls with time-outs, of which some never come back."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from icdc_api.errors import SourceUnavailable
from icdc_operator.cluster.heads.lanes import Lane, Threads
from support_async import until

pytestmark = pytest.mark.unit

LONG, SHORT = 30.0, 0.05


async def refused(call: Awaitable[object]) -> str:
    with pytest.raises(SourceUnavailable) as told:
        await call
    return told.value.message


def test_a_call_answers_or_raises_what_it_raised() -> None:
    async def story() -> None:
        lane = Lane(Threads())
        assert await lane.call(lambda: 7, LONG) == 7
        with pytest.raises(ZeroDivisionError):
            await lane.call(lambda: 1 // 0, LONG)
        nothing: list[object] = [None]
        assert await lane.call(nothing.pop, LONG) is None

    asyncio.run(story())


def test_the_event_loop_goes_on_while_a_call_blocks() -> None:
    async def story() -> None:
        free = threading.Event()
        call = asyncio.create_task(Lane(Threads()).call(free.wait, LONG))
        await asyncio.sleep(0)
        free.set()
        assert await call is True

    asyncio.run(story())


def test_calls_of_one_lane_come_one_after_the_other() -> None:
    at_work, most = 0, 0

    def work() -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        time.sleep(0.001)
        at_work -= 1

    async def story() -> None:
        lane = Lane(Threads())
        await asyncio.gather(*(lane.call(work, LONG) for _ in range(20)))

    asyncio.run(story())
    assert most == 1


def test_a_lane_that_hangs_refuses_at_once_and_heals_when_the_call_comes_back() -> None:
    async def story() -> None:
        free, threads = threading.Event(), Threads(1)
        lane, other = Lane(threads), Lane(threads)
        assert "within 0.05 s" in await refused(lane.call(free.wait, SHORT))
        before = threading.active_count()
        for _ in range(50):
            assert "earlier request" in await refused(lane.call(free.wait, LONG))
        assert threading.active_count() == before
        assert len(threads.overdue) == 1
        # Its place among the threads, here the only one, is free for others.
        assert await other.call(lambda: "answer", LONG) == "answer"
        free.set()
        await until(lambda: not threads.overdue, "the threads have come back")
        assert await lane.call(lambda: "healed", LONG) == "healed"

    asyncio.run(story())


def test_all_who_wait_for_a_lane_that_hangs_are_told_together() -> None:
    async def story() -> None:
        free = threading.Event()
        lane = Lane(Threads())
        started = time.monotonic()
        told = await asyncio.gather(*(refused(lane.call(free.wait, 0.2)) for _ in range(10)))
        assert time.monotonic() - started < 1.5
        assert len(told) == 10
        free.set()

    asyncio.run(story())


def test_overdue_threads_are_bounded_over_all_lanes() -> None:
    async def story() -> None:
        free, threads = threading.Event(), Threads(max_overdue=2)
        for _ in range(2):
            await refused(Lane(threads).call(free.wait, SHORT))
        assert "too many" in await refused(Lane(threads).call(lambda: 7, LONG))
        free.set()
        await until(lambda: not threads.overdue, "the threads have come back")
        assert await Lane(threads).call(lambda: 7, LONG) == 7

    asyncio.run(story())


def cancelled_while(free: threading.Event) -> Callable[[Lane], Awaitable[None]]:
    async def story(lane: Lane) -> None:
        begun = threading.Event()

        def work() -> None:
            begun.set()
            free.wait()

        call = asyncio.create_task(lane.call(work, LONG))
        await until(begun.is_set, "the call is at work")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    return story


def test_a_call_that_nobody_waits_for_any_more_is_waited_for_by_the_next() -> None:
    async def story() -> None:
        free, lane = threading.Event(), Lane(Threads())
        await cancelled_while(free)(lane)
        assert lane.busy
        following = asyncio.create_task(lane.call(lambda: "next", LONG))
        await asyncio.sleep(0)
        assert not following.done()
        free.set()
        assert await following == "next"

    asyncio.run(story())


def test_a_loop_that_ends_is_not_held_up_by_a_call() -> None:
    free = threading.Event()

    async def story() -> None:
        await refused(Lane(Threads()).call(free.wait, SHORT))

    asyncio.run(story())
    threads = [each for each in threading.enumerate() if each.name == "catalog"]
    assert all(each.daemon for each in threads)
    free.set()
    for each in threads:
        each.join(LONG)
        assert not each.is_alive()
