"""Reports calls that take longer than anybody should wait, while they still run.

A catalog that accepts connections and never answers keeps a call into the JVM for ever. Calls
with time-outs of their own end before (`icdc_spark.iceberg.jvm.clients.time_outs`); this is for all
others. One thread watches all calls. It must know neither catalogs nor tables.

Example, calls may last 300 s, and the watch polls every 0.5 s:

    call A ends after 299.0 s   nothing happens
    call B ends after 300.2 s   nothing happens: it ended before the watch saw that it was late
    call C runs for 400 s       its `on_overdue` runs at 300.5 s; at 400 s SourceUnavailable is
                                raised in the thread that made the call
    call D never ends           its `on_overdue` runs once, and its thread is lost

A call has either ended or been reported: whichever of the two comes first takes the call's lock
and decides. Without it a call that ended in time could be reported afterwards, and what the report
gives away on its behalf (a permit, for other tables) would be somebody else's by then.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from icdc_api.errors import SourceUnavailable
from icdc_spark.process.failures import outlive_errors

POLL_SECONDS = 0.5


@dataclass(eq=False)
class _Call:
    deadline: float
    """On the monotonic clock, in seconds."""
    on_overdue: Callable[[], None]
    """Runs once, if the call is under way at its deadline."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the call is reported, so that it cannot end in the middle of it."""
    has_ended: bool = False
    """It came back; what is reported from here on would be wrong."""
    is_reported: bool = False
    """`on_overdue` has run, or runs now."""

    def report(self) -> None:
        """Run `on_overdue`, unless the call has ended or was reported already."""
        with self.lock:
            if self.has_ended or self.is_reported:
                return
            self.is_reported = True
            self.on_overdue()

    def end(self) -> None:
        """Let no report begin from here on; wait for one that has begun."""
        with self.lock:
            self.has_ended = True


class CallWatch:
    """Watch calls that may last `seconds` each.

    A context manager: outside of it no call is watched.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # Guards the calls only. A report has a lock of its own: it may write files, and no other
        # call should wait for that.
        self._lock = threading.Lock()
        self._calls: dict[_Call, None] = {}
        self._closed = threading.Event()

    def __enter__(self) -> "CallWatch":
        threading.Thread(target=self._poll, name="call-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()

    @contextmanager
    def call(self, what: str, on_overdue: Callable[[], None]) -> Iterator[None]:
        """Watch the block. Where it takes too long, run `on_overdue` once, in another thread.

        SourceUnavailable once a call that was reported ends after all, also where it succeeded:
        others act on the report. `on_overdue` must be quick, and must not wait for the call.
        """
        call = _Call(time.monotonic() + self._seconds, on_overdue)
        with self._lock:
            self._calls[call] = None
        try:
            yield
        finally:
            with self._lock:
                del self._calls[call]
            call.end()
        # Read without the lock: after `end` no report can begin.
        if call.is_reported:
            raise self.build_source_unavailable(what)

    def build_source_unavailable(self, what: str) -> SourceUnavailable:
        """Build the failure of a call for `what` that takes too long."""
        return SourceUnavailable(
            f"{what}: the catalog has accepted a request but has not answered it within "
            f"{self._seconds:.0f} s; the request is retried"
        )

    def report_overdue(self, now: float) -> None:
        """Report all calls whose deadline lies before `now`, in the order in which they began."""
        with self._lock:
            overdue = [call for call in self._calls if call.deadline < now]
        for call in overdue:
            with outlive_errors("the watch of calls"):
                call.report()

    def _poll(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            self.report_overdue(time.monotonic())
