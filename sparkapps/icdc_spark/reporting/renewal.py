"""Renews the report of a run of which nothing changes, as long as the run is not frozen.

The operator takes a driver whose report stays as it is for one that is frozen. So the report is
renewed only by whoever could not do it otherwise, and asks the engine first. Tables that hang have
watches of their own. It must not know the engine.

    what is frozen                             why the report is not renewed
    the process, its host                      nothing runs
    all threads of Python, or the main one     `poll` is not called
    the JVM, such as by garbage collections    `ask` does not return
    whoever holds the lock of the reporter     `renew` does not return
"""

import time
from collections.abc import Callable

from icdc_api.errors import IcdcError
from icdc_spark.reporting.reporter import RENEWAL_SECONDS, Reporter


class Renewal:
    """Renews one report. For one thread, which calls `poll` again and again."""

    def __init__(
        self,
        reporter: Reporter,
        ask: Callable[[], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ask` returns once the engine has answered, or raises why it cannot any more."""
        self._reporter = reporter
        self._ask = ask
        self._clock = clock
        self._due = clock() + RENEWAL_SECONDS

    def poll(self) -> None:
        """Renew the report if it is time."""
        # Not by the time in the report: a clock that was set back would put it off.
        now = self._clock()
        if now < self._due:
            return
        self._due = now + RENEWAL_SECONDS
        try:
            self._ask()
        except IcdcError:
            # Of a JVM that has ended every table hears by itself, and that ends the run.
            return
        self._reporter.renew()
