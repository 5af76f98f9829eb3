"""Judge whether the watch still works, by what it missed: a quiet cluster sends no events.

A watch can die without an error (a connection that a firewall forgot). From time to time all
pipelines are listed. A version that a list shows and the watch did not report is missed; if it
stays so (`health.MISSED_SECONDS`), the watch is dead and the process is restarted. No I/O.

    watch reported shop@7     list shows shop@7     nothing is missed
                              list shows shop@9     missed, since now
    watch reports shop@9                            nothing is missed
                              two lists show shop@5 missed: etcd was restored to an older copy
"""

from collections.abc import Callable, Mapping

from icdc_operator.cluster.queue import PipelineKey


class WatchAge:
    """Versions that the watch reported, compared with lists. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reported: dict[PipelineKey, str] = {}
        self._missed: dict[PipelineKey, float] = {}
        # Listed last in a version of before the reported one.
        self._older: set[PipelineKey] = set()
        self._last_event: float | None = None

    def note_event(self, key: PipelineKey, version: str, *, deleted: bool) -> None:
        """Take in an event of the watch."""
        self._last_event = self._clock()
        # Whatever its version: the next list finds out whether the watch is still behind.
        self._missed.pop(key, None)
        self._older.discard(key)
        if deleted:
            self._reported.pop(key, None)
        else:
            self._reported[key] = version

    def note_list(
        self, versions: Mapping[PipelineKey, str], *, began: Mapping[PipelineKey, str]
    ) -> None:
        """Compare with a list of everything. `began`: `get_versions()` before the request.

        Both without the namespaces that could not be listed: nothing is known to be missed there.
        """
        now = self._clock()
        for key, version in began.items():
            # After 410 Gone kopf lists by itself, and never reports what was deleted meanwhile.
            if key not in versions and self._reported.get(key) == version:
                del self._reported[key]
        missed = {
            key
            for key, version in versions.items()
            if key not in self._reported or _is_newer(version, self._reported[key])
        }
        older = {
            key
            for key, version in versions.items()
            if key in self._reported and key in began and _is_newer(began[key], than=version)
        }
        # By two lists: one may come from an API server that lags. After etcd was restored, a watch
        # waits in vain until versions have passed the one that it had seen.
        missed |= older & self._older
        self._older = older
        # The time of the list that first showed it, so that the age grows from list to list.
        self._missed = {key: self._missed.get(key, now) for key in missed}

    def get_versions(self) -> dict[PipelineKey, str]:
        """Return the last reported resourceVersion of each pipeline."""
        return dict(self._reported)

    def note_restart(self, namespace: str | None) -> None:
        """Forget a namespace, or all by None: a new watch begins with an event for each object."""
        for key in self._missed.keys() | self._reported.keys():
            if namespace in (None, key.namespace):
                self._missed.pop(key, None)
                self._reported.pop(key, None)

    @property
    def missed_seconds(self) -> float:
        """Return for how long the oldest missed version has been missed; 0 for none."""
        oldest = min(self._missed.values(), default=None)
        return 0.0 if oldest is None else self._clock() - oldest

    @property
    def last_event_seconds(self) -> float:
        """Return how long ago the last event came; infinity before the first."""
        last = self._last_event
        return float("inf") if last is None else self._clock() - last


def _is_newer(version: str, than: str) -> bool:
    """Return whether a resourceVersion is newer. They are numbers in practice (KEP-5504)."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than
