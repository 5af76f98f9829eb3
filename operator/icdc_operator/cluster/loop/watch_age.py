"""Whether the watch still works: judged by what it missed, since a quiet cluster says nothing.

From time to time everything is listed. What a list shows in a newer version than the watch ever
told of is missed; if the watch does not tell of it soon, the watch is dead. Pure, but for memory.
"""

from collections.abc import Callable, Mapping

from icdc_operator.cluster.queue import PipelineKey


class WatchAge:
    """What the watch of pipelines has told, compared with lists. `clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[PipelineKey, str] = {}
        self._missed: dict[PipelineKey, float] = {}
        self._last_event: float | None = None

    def note_event(self, key: PipelineKey, version: str, *, deleted: bool) -> None:
        """Notes an event of the watch."""
        self._last_event = self._clock()
        self._missed.pop(key, None)
        if deleted:
            self._told.pop(key, None)
        else:
            self._told[key] = version

    def note_list(
        self, versions: Mapping[PipelineKey, str], *, began: Mapping[PipelineKey, str]
    ) -> None:
        """Compares with a whole list; `began` is what `versions` gave before it was asked for."""
        now = self._clock()
        for key, version in began.items():
            # A watch that had to list anew itself never tells what went meanwhile: no loss.
            if key not in versions and self._told.get(key) == version:
                del self._told[key]
        missed = {
            key
            for key, version in versions.items()
            if key not in self._told or _is_newer(version, self._told[key])
        }
        self._missed = {key: self._missed.get(key, now) for key in missed}

    def versions(self) -> dict[PipelineKey, str]:
        """What the watch told last of each pipeline that exists."""
        return dict(self._told)

    def note_restart(self) -> None:
        """A new watch tells of everything first, so nothing is owed yet."""
        self._missed.clear()
        self._told.clear()

    @property
    def missed_seconds(self) -> float:
        """For how long the watch has owed an event; 0 while it owes none."""
        oldest = min(self._missed.values(), default=None)
        return 0.0 if oldest is None else self._clock() - oldest

    @property
    def last_event_seconds(self) -> float:
        """How long ago the watch told anything; infinite before it ever did."""
        last = self._last_event
        return float("inf") if last is None else self._clock() - last


def _is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion is newer; they are numbers wherever one can watch (KEP-5504).

    The list may come from a server that lags behind the one that is watched: older is no loss.
    """
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
