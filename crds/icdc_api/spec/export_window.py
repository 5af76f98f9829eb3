"""The time of the day in which exports may write, as sink.opensearch.limits.exportWindow in a spec.

    22:00-06:00     open at 23:15 and at 05:59, not at 06:00; the next opening is at 22:00

In UTC, where every day has 24 hours. It must not know what waits for it.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]"
WINDOW_PATTERN = f"^({_TIME}-{_TIME})?$"
WINDOW_RULE = "it must be HH:MM-HH:MM in UTC with two different times, or empty for no window"


@dataclass(frozen=True)
class ExportWindow:
    """A part of each day."""

    text: str
    """As in the spec, such as 22:00-06:00."""

    def is_open(self, now: datetime) -> bool:
        """Return whether exports may write at `now`, a time with a zone."""
        start, end = (_parse_offset(part) for part in self.text.split("-"))
        passed = now - _find_midnight(now)
        # Across midnight: all but the time from its end to its start.
        return start <= passed < end if start < end else not end <= passed < start

    def find_opening(self, now: datetime) -> datetime:
        """Return the first time from `now` on at which exports may write."""
        if self.is_open(now):
            return now
        opening = _find_midnight(now) + _parse_offset(self.text.split("-")[0])
        return opening if opening > now else opening + timedelta(days=1)

    def describe(self) -> str:
        """Return why an export waits, as a clause."""
        return f"waiting for the export window {self.text} UTC"


def is_window(text: str) -> bool:
    """Return whether the text is one of a window."""
    start, _, end = text.partition("-")
    return bool(text) and re.match(WINDOW_PATTERN, text) is not None and start != end


def _parse_offset(text: str) -> timedelta:
    hours, minutes = text.split(":")
    return timedelta(hours=int(hours), minutes=int(minutes))


def _find_midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
