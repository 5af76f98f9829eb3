"""Waits on an event loop for a state with a deadline: what tests use instead of sleeping."""

import asyncio
from collections.abc import Callable

from icdc_testing.waiting.wait import WAIT_SECONDS

_POLL_SECONDS = 0.005


async def wait_until(
    reached: Callable[[], bool], what: str, *, seconds: float = WAIT_SECONDS
) -> None:
    """Return once `reached` is true; AssertionError naming `what` after `seconds`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not reached():
        assert loop.time() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(_POLL_SECONDS)
