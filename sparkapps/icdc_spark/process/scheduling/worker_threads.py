"""Runs jobs on a number of threads, and does not wait for a job that is stuck.

A call into the JVM cannot be interrupted. A thread in one that never returns is given up: another
thread takes its place, and the end of the jobs does not wait for it. The threads are daemons, so
the end of the process does not wait for them either. It must not know what the jobs are.

Example, jobs a, b and c on one thread:

    a runs                      waiting: b, c
    mark_stuck("a", True)       a second thread runs b, then c
    b and c end                 `run` returns, if `may_leave` allows it; a is left behind
    a returns after all         mark_stuck("a", False): `run` waits for it again
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping

POLL_SECONDS = 0.2
"""`may_leave` changes without a notification, so it is polled."""


class WorkerThreads:
    """Run named jobs once each; `run` may be called once."""

    def __init__(self, threads: int, *, may_leave: Callable[[], bool]) -> None:
        """`may_leave` returns whether `run` may return although some jobs are stuck."""
        self._threads = threads
        self._may_leave = may_leave
        # Guards all that follows but the errors.
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        # Jobs that wait or run, by name.
        self._unfinished: set[str] = set()
        self._stuck: set[str] = set()
        self._errors: list[BaseException] = []

    def run(self, jobs: Mapping[str, Callable[[], None]]) -> None:
        """Return when every unfinished job is stuck, or none is left; raise the first error."""
        self._waiting.extend(jobs.items())
        self._unfinished.update(jobs)
        for _ in range(min(self._threads, len(jobs))):
            self._start()
        with self._changed:
            while self._unfinished - self._stuck or (self._unfinished and not self._may_leave()):
                self._changed.wait(POLL_SECONDS)
        if self._errors:
            raise self._errors[0]

    def mark_stuck(self, name: str, stuck: bool) -> None:
        """Record whether a job is stuck; start another thread in place of one that is."""
        with self._changed:
            if name not in self._unfinished:
                return
            (self._stuck.add if stuck else self._stuck.discard)(name)
            self._changed.notify_all()
            needs_thread = stuck and bool(self._waiting)
        if needs_thread:
            self._start()

    def _start(self) -> None:
        threading.Thread(target=self._work, name="table", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    return
                name, job = self._waiting.popleft()
            try:
                job()
            except BaseException as error:
                # Before the job counts as finished: `run` may return at that moment.
                self._errors.append(error)
                raise
            finally:
                with self._changed:
                    self._unfinished.discard(name)
                    self._stuck.discard(name)
                    self._changed.notify_all()
