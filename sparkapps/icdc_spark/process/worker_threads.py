"""Threads that do jobs, some at a time, and are not waited for where one of them is stuck.

A call into the JVM cannot be broken off. A thread in one that never returns is given up: another
takes its place, and the end of the jobs does not wait for it. So the threads are daemons, which
the end of the process does not wait for either. Knows nothing of what the jobs are.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping

LOOK_SECONDS = 0.2


class Crew:
    """Does named jobs once; `run` may be called once."""

    def __init__(self, threads: int, *, may_leave: Callable[[], bool]) -> None:
        """`may_leave`: whether the end is reached although some jobs are stuck."""
        self._threads = threads
        self._may_leave = may_leave
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        self._left: set[str] = set()
        self._stuck: set[str] = set()
        self._errors: list[BaseException] = []

    def run(self, jobs: Mapping[str, Callable[[], None]]) -> None:
        """Returns when no job is left that is not stuck; raises the first error of any."""
        self._waiting.extend(jobs.items())
        self._left.update(jobs)
        for _ in range(min(self._threads, len(jobs))):
            self._start()
        with self._changed:
            while self._left - self._stuck or (self._left and not self._may_leave()):
                self._changed.wait(LOOK_SECONDS)
        if self._errors:
            raise self._errors[0]

    def is_stuck(self, name: str, stuck: bool) -> None:
        """Says whether a job is stuck. For one that is, another thread takes up what waits."""
        with self._changed:
            if name not in self._left:
                return
            (self._stuck.add if stuck else self._stuck.discard)(name)
            self._changed.notify_all()
            replace = stuck and bool(self._waiting)
        if replace:
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
                self._errors.append(error)
                raise
            finally:
                with self._changed:
                    self._left.discard(name)
                    self._stuck.discard(name)
                    self._changed.notify_all()
