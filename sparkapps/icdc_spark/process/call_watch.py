"""Notices calls that take longer than anybody should wait, and says so while they still last.

A catalog that accepts connections and never answers keeps a call into the JVM for ever: what has
time-outs of its own ends before (`iceberg.jvm.time_outs`), this is for everything else. One thread
watches all calls. Knows neither catalogs nor tables.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from icdc_api.errors import SourceUnavailable

LOOK_SECONDS = 0.5


@dataclass(eq=False)
class _Call:
    deadline: float
    overdue: Callable[[], None]
    is_overdue: bool = False


class Patience:
    """A context manager, outside of which nothing is watched: calls may last `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._calls: set[_Call] = set()
        self._closed = threading.Event()

    def __enter__(self) -> "Patience":
        threading.Thread(target=self._watch, name="patience", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()

    @contextmanager
    def call(self, what: str, overdue: Callable[[], None]) -> Iterator[None]:
        """Watches what is done inside. When it lasts too long, `overdue` is called, once, in
        another thread; and SourceUnavailable is raised as soon as it returns after all."""
        call = _Call(time.monotonic() + self._seconds, overdue)
        with self._lock:
            self._calls.add(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls.discard(call)
        if call.is_overdue:
            raise self.too_slow(what)

    def too_slow(self, what: str) -> SourceUnavailable:
        """The failure that a call stands for that takes too long."""
        return SourceUnavailable(
            f"{what}: the catalog has accepted a request and not answered it within "
            f"{self._seconds:.0f} s; it is tried again"
        )

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            now = time.monotonic()
            with self._lock:
                late = [each for each in self._calls if now > each.deadline and not each.is_overdue]
                for each in late:
                    each.is_overdue = True
            for each in late:
                each.overdue()
