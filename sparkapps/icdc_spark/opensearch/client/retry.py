"""Waiting between attempts: jittered exponential backoff under one deadline.

It must not know requests: callers say what is worth another attempt.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from icdc_api.errors import PassingError

Answer = TypeVar("Answer")

FIRST_SECONDS = 0.2
LONGEST_SECONDS = 20.0
DRIVER_SECONDS = 60.0
"""How long the driver's own small requests are repeated."""


@dataclass
class RetryDelay:
    """One series of attempts, which ends `seconds` after the first failure."""

    seconds: float
    first: float = FIRST_SECONDS
    longest: float = LONGEST_SECONDS
    pause: Callable[[float], object] = time.sleep
    _failures: int = 0
    _deadline: float | None = None
    _random: random.Random = field(default_factory=random.Random)

    def wait(self, at_least: float = 0.0) -> bool:
        """Waits before the next attempt; False, without waiting, when the time is used up.

        `at_least` is what the server asked for with Retry-After, in seconds.
        """
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self.seconds
        ceiling = min(self.longest, self.first * 2**self._failures)
        seconds = max(at_least, self._random.uniform(ceiling / 2, ceiling))
        self._failures += 1
        if now + seconds > self._deadline:
            return False
        self.pause(seconds)
        return True


def retrying(call: Callable[[], Answer], *, seconds: float = DRIVER_SECONDS) -> Answer:
    """Repeats `call` while it raises a PassingError; only for requests that may be repeated."""
    backoff = RetryDelay(seconds)
    while True:
        try:
            return call()
        except PassingError:
            if not backoff.wait():
                raise
