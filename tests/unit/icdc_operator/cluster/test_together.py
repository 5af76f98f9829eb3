"""Works that run side by side end together."""

import asyncio

import pytest

from icdc_operator.cluster.together import run_until_first

pytestmark = pytest.mark.unit


class EndlessWork:
    """Waits for ever, and takes a moment to end."""

    def __init__(self) -> None:
        self.ended = False

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended = True


def test_the_end_of_one_ends_all_and_is_waited_for() -> None:
    works = [EndlessWork(), EndlessWork()]

    async def play() -> None:
        await run_until_first(*(work.run() for work in works), asyncio.sleep(0))

    asyncio.run(play())
    assert all(work.ended for work in works)


def test_the_error_of_one_is_raised_after_all_have_ended() -> None:
    work = EndlessWork()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def play() -> None:
        await run_until_first(work.run(), fail())

    with pytest.raises(ZeroDivisionError):
        asyncio.run(play())
    assert work.ended


def test_whoever_is_cancelled_ends_all_first() -> None:
    work = EndlessWork()

    async def play() -> None:
        task = asyncio.create_task(run_until_first(work.run()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(play())
    assert work.ended
