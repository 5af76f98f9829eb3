"""Calls in turn, of which some never end."""

import asyncio
from collections.abc import Awaitable

import pytest

from icdc_api.errors import SourceUnavailable, Unauthorized
from icdc_operator.cluster.heads.lanes import MAX_CALLS, CallLimits, Lane
from icdc_testing.waiting.async_wait import wait_until

pytestmark = pytest.mark.unit

LONG, SHORT = 30.0, 0.05


async def hang() -> int:
    await asyncio.Event().wait()
    return 0


async def return_seven() -> int:
    return 7


async def catch_message(call: Awaitable[object]) -> str:
    with pytest.raises(SourceUnavailable) as raised:
        await call
    return raised.value.message


def test_a_call_answers_or_raises_what_it_raised() -> None:
    async def fail() -> int:
        return 1 // 0

    async def play() -> None:
        lane = Lane(CallLimits(), "one")
        assert await lane.call(return_seven, LONG) == 7
        with pytest.raises(ZeroDivisionError):
            await lane.call(fail, LONG)

    asyncio.run(play())


def test_calls_of_one_lane_come_one_after_the_other() -> None:
    under_way, most = 0, 0

    async def work() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    async def play() -> None:
        lane = Lane(CallLimits(), "one")
        await asyncio.gather(*(lane.call(work, LONG) for _ in range(20)))

    asyncio.run(play())
    assert most == 1


def test_a_late_call_is_ended_and_all_who_wait_behind_it_are_refused_with_it() -> None:
    async def play() -> None:
        lane = Lane(CallLimits(), "one")
        messages = await asyncio.gather(*(catch_message(lane.call(hang, SHORT)) for _ in range(10)))
        assert sum("within 0.05 s" in message for message in messages) == 1
        assert sum("earlier request" in message for message in messages) == 9
        assert lane.late
        assert await lane.call(return_seven, LONG) == 7
        assert not lane.late

    asyncio.run(play())


def test_a_catalog_that_refuses_in_time_is_not_late_any_more() -> None:
    async def refuse() -> int:
        raise Unauthorized("403")

    async def play() -> None:
        lane = Lane(CallLimits(), "one")
        await catch_message(lane.call(hang, SHORT))
        with pytest.raises(Unauthorized):
            await lane.call(refuse, LONG)
        assert not lane.late

    asyncio.run(play())


def test_a_call_that_nobody_waits_for_any_more_is_ended() -> None:
    async def play() -> None:
        lane = Lane(CallLimits(), "one")
        call = asyncio.create_task(lane.call(hang, LONG))
        await wait_until(lambda: lane.busy, "the call is under way")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await lane.call(return_seven, LONG) == 7

    asyncio.run(play())


def test_a_namespace_whose_catalogs_hang_leaves_places_to_the_others() -> None:
    async def play() -> None:
        positions = CallLimits()
        hanging = [
            asyncio.create_task(Lane(positions, "hostile").call(hang, LONG)) for _ in range(128)
        ]
        await asyncio.sleep(0)
        # No time passes: none of them has to end first.
        for _ in range(3 * MAX_CALLS):
            assert await Lane(positions, "healthy").call(return_seven, SHORT) == 7
        for call in hanging:
            call.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    asyncio.run(play())
