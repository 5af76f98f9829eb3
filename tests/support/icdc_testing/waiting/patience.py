"""The patience of whoever waits for the answer to a question, in the process of a test."""

import time

WAIT = ("--wait", "3600")
"""Longer than any test."""


class ImpatientClock:
    """Stands for the module `time` of a command: it goes as usual, and ahead once told so."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self._ahead = 0.0

    def monotonic(self) -> float:
        """Return the time that the command reads."""
        return time.monotonic() + self._ahead

    def end_waits(self) -> None:
        """Go ahead so far that a command with WAIT waits no more."""
        self._ahead += float(WAIT[1])
