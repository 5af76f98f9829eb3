"""Waits between attempts: jittered exponential backoff under one deadline.

It must not know requests: callers say what is worth another attempt.
"""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from icdc_api.errors import IcdcError, PassingError

LOG = logging.getLogger(__name__)

Result = TypeVar("Result")

FIRST_SECONDS = 0.2
"""The longest first pause."""
LONGEST_SECONDS = 20.0
"""The longest pause of all."""
DRIVER_SECONDS = 60.0
"""Seconds for which the driver's own small requests are repeated."""


@dataclass
class RetryDelay:
    """The pauses of one series of attempts, which ends `seconds` after the first failure.

    Example: pauses of up to 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20, 20 s, each at least half of
    that. The random part keeps the tasks of a batch from coming back all at once.
    """

    seconds: float
    """The time from the first failure to the end of the series."""
    first: float = FIRST_SECONDS
    """The longest first pause, in seconds; it doubles with each failure."""
    longest: float = LONGEST_SECONDS
    """The longest pause of all, in seconds."""
    pause: Callable[[float], object] = time.sleep
    """Waits for some seconds; may return earlier."""
    _failures: int = 0
    """Failures so far; the ceiling of the next pause doubles with each."""
    _deadline: float | None = None
    """On the monotonic clock, in seconds; None before the first failure."""
    _logged: str = ""
    """The last reason that was logged."""
    _random: random.Random = field(default_factory=random.Random)
    """A generator for each series, so that no two draw the same pauses."""

    def extend(self, seconds: float) -> None:
        """Postpone the end of a series that has begun, by the time an attempt waited to begin."""
        if self._deadline is not None:
            self._deadline += seconds

    def wait(self, at_least: float = 0.0, *, reason: IcdcError | None = None) -> bool:
        """Wait before the next attempt; return False, without waiting, when the time is used up.

        `at_least`: the seconds that the server asked for with Retry-After. `reason` is logged
        when it is a new one: who reads the log of a run that stands still sees what it waits for.
        """
        now = time.monotonic()
        if self._deadline is None:
            # From the first failure, not from the first attempt, which may itself take long.
            self._deadline = now + self.seconds
        # Doubled each time; the half below is random, see the class.
        ceiling = min(self.longest, self.first * 2**self._failures)
        seconds = max(at_least, self._random.uniform(ceiling / 2, ceiling))
        self._failures += 1
        # Not cut to the rest of the time: the server asked for the whole pause.
        if now + seconds > self._deadline:
            return False
        if reason is not None and str(reason) != self._logged:
            self._logged = str(reason)
            LOG.warning("%s Tried again for up to %g s.", reason, self.seconds)
        self.pause(seconds)
        return True


def retry_passing(
    call: Callable[[], Result],
    *,
    seconds: float = DRIVER_SECONDS,
    unless: Callable[[PassingError], bool] = lambda _: False,
) -> Result:
    """Repeat `call` while it raises a PassingError; only for requests that may be repeated.

    One for which `unless` is true is raised at once.
    """
    delay: RetryDelay | None = None
    while True:
        try:
            return call()
        except PassingError as error:
            delay = delay or RetryDelay(seconds)
            if unless(error) or not delay.wait(reason=error):
                raise
