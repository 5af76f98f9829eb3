"""Waits for a state with a deadline: what tests use instead of sleeping for a time."""

import time
from collections.abc import Callable

_POLL_SECONDS = 0.05


def until(
    reached: Callable[[], bool],
    what: str,
    *,
    seconds: float = 60.0,
    pause: float = _POLL_SECONDS,
) -> None:
    """Return once `reached` is true; AssertionError naming `what` after `seconds`.

    `pause` is the time between two looks, in seconds.
    """
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(pause)
