"""Waits for a state with a deadline: what tests use instead of sleeping for a time."""

import time
from collections.abc import Callable

WAIT_SECONDS = 180.0
"""Seconds until a state must be reached that takes a few, on a host with ten times the work that
it has cores for. Who waits for a state pays nothing for it: only a failure comes later."""
_POLL_SECONDS = 0.05


def wait_until(
    reached: Callable[[], bool],
    what: str,
    *,
    seconds: float = WAIT_SECONDS,
    pause: float = _POLL_SECONDS,
) -> None:
    """Return once `reached` is true; AssertionError naming `what` after `seconds`.

    `pause` is the time between two looks, in seconds.
    """
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(pause)
