"""Virtual time, and the processes that share it: one of them runs at any moment.

Each process is a thread that holds the turn until it waits; then whatever is next in time happens.
A world of hours passes in milliseconds, and in the same order for the same seed. An act that is due
is done by whoever waits: only drivers are threads, because each change of threads costs more than a
request does.
"""

import heapq
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""When each world begins."""


STUCK_SECONDS = 60.0
"""Real time after which a world stands still; one that goes on takes less than a second."""


class StuckWorldError(Exception):
    """A process holds a lock while it waits, and another, whose turn it is, waits for that lock."""


class Killed(BaseException):
    """Raised in a process that was killed, at its next wait or request: it does nothing more."""


class TaskKilled(BaseException):
    """Raised in a driver's process where the task that it stands for was killed."""


class PlayedProcess:
    """A driver, and the task that it waits for."""

    def __init__(self, name: str, turn: threading.Lock) -> None:
        self.name = name
        self.turn = turn
        self.dead = False
        """Killed: nothing that it does has an effect any more."""
        self.ended = False
        """Its thread has left its work."""
        self.in_task = False
        """It stands for a task of its driver just now."""
        self.orphaned = False
        """Its driver was killed while its task goes on: it is killed when the task ends."""
        self.loses_task = False
        """Its task is killed at the next request."""
        self.attempt = 0
        """The attempt of its task."""
        self.paused_until = 0.0
        """Stopped (SIGSTOP, or a machine that hangs) until then."""
        self.cut_until = 0.0
        """Cannot reach the target until then."""

    @property
    def alive(self) -> bool:
        """True if the driver itself lives."""
        return not (self.dead or self.ended or self.orphaned)


class _Thread(threading.Thread):
    """Does the work of one process after the other: starting a thread costs more than its work."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="simulated")
        self.turn = threading.Lock()
        self.turn.acquire()
        self.work: Callable[[], None] | None = None
        self.give_turn: Callable[[], None] | None = None
        self.start()

    def run(self) -> None:
        while True:
            self.turn.acquire()
            assert self.work is not None
            assert self.give_turn is not None
            self.work()
            give_turn = self.give_turn
            # Before the turn is given: the next process may take this thread.
            _IDLE.append(self)
            give_turn()


_IDLE: list[_Thread] = []


class Schedule:
    """Time since the world began, in seconds, and what happens when."""

    def __init__(self) -> None:
        turn = threading.Lock()
        turn.acquire()
        self.now = 0.0
        self.current = PlayedProcess("world", turn)
        self.failure: BaseException | None = None
        """The first error that no process expects: it ends the world."""
        self._main = self.current
        self._finished = False
        self._queue: list[tuple[float, int, PlayedProcess | Callable[[], None]]] = []
        self._count = 0
        self._processes: list[PlayedProcess] = []

    def start(self, name: str, work: Callable[[], None]) -> PlayedProcess:
        """Start a process that does `work` from now on."""
        thread = _IDLE.pop() if _IDLE else _Thread()
        process = PlayedProcess(name, thread.turn)
        self._processes.append(process)

        def run() -> None:
            try:
                if not process.dead:
                    work()
            except (Killed, TaskKilled):
                pass
            except BaseException as error:  # noqa: BLE001  the root of a thread
                self.fail(error)
            process.ended = True

        thread.work, thread.give_turn = run, self._give_turn
        self._push(self.now, process)
        return process

    def call_later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do `act`, which must not wait, in so many seconds."""
        self._push(self.now + seconds, act)

    def sleep(self, seconds: float) -> None:
        """Let time pass for the process that calls; Killed where it was killed meanwhile."""
        me = self.current
        if me.dead:
            raise Killed
        when = self.now + max(seconds, 0.0)
        if me.paused_until <= when and (not self._queue or self._queue[0][0] > when):
            self.now = when
        else:
            self._push(when, me)
            after = self._advance()
            self._hand_over(me, after)
        if me.dead:
            raise Killed
        if me.loses_task and me.in_task:
            me.loses_task = False
            raise TaskKilled

    def count_seconds_to_next(self) -> float:
        """Return the seconds until something happens that is known now."""
        return self._queue[0][0] - self.now if self._queue else 0.0

    def run(self) -> None:
        """Let everything happen, until `finish`. Raises StuckWorldError."""
        self._hand_over(self._main, self._advance(), STUCK_SECONDS)
        if self.failure is not None:
            raise self.failure

    def finish(self) -> None:
        """End the world after what happens now."""
        self._finished = True

    def fail(self, error: BaseException) -> None:
        """End the world with an error."""
        self.failure = self.failure or error
        self._finished = True

    def kill(self, process: PlayedProcess, *, task_too: bool = True) -> None:
        """End a driver, and at once or later the task that it waits for.

        It does nothing more then, not even in its `finally` blocks.
        """
        if process.in_task and not task_too:
            process.orphaned = True
        elif not process.ended and not process.dead:
            process.dead = True
            self._push(self.now, process)

    def close(self) -> None:
        """End all processes, unless the world is stuck."""
        self._finished = True
        if self.current is not self._main:
            return
        for process in self._processes:
            process.dead = True
            if not process.ended:
                self._hand_over(self._main, process)

    def _push(self, when: float, item: "PlayedProcess | Callable[[], None]") -> None:
        self._count += 1
        heapq.heappush(self._queue, (when, self._count, item))

    def _advance(self) -> PlayedProcess:
        """Let time pass up to the next process that runs, and return it."""
        while not self._finished:
            when, _, item = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            if not isinstance(item, PlayedProcess):
                try:
                    item()
                except BaseException as error:  # noqa: BLE001  it ends the world, not who waits
                    self.fail(error)
            elif item.paused_until > self.now and not (item.dead or item.ended):
                self._push(item.paused_until, item)
            elif not item.ended:
                return item
        return self._main

    def _hand_over(
        self, me: PlayedProcess, after: PlayedProcess, seconds: float = threading.TIMEOUT_MAX
    ) -> None:
        self.current = after
        if after is not me:
            after.turn.release()
            if not me.turn.acquire(timeout=seconds):
                raise StuckWorldError(_format_stacks())
            self.current = me

    def _give_turn(self) -> None:
        self.current = self._advance()
        self.current.turn.release()


def _format_stacks() -> str:
    stacks = map(traceback.format_stack, sys._current_frames().values())
    return "\n".join("".join(stack[-6:]) for stack in stacks)


class Flag:
    """A `threading.Event` in virtual time."""

    def __init__(self, schedule: Callable[[], Schedule]) -> None:
        self._schedule = schedule
        self._set = False

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._set

    def set(self) -> None:
        """Set it."""
        self._set = True

    def clear(self) -> None:
        """Forget that it was set."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or `timeout` seconds."""
        schedule = self._schedule()
        until = schedule.now + (1e9 if timeout is None else timeout)
        while not self._set and schedule.now < until:
            schedule.sleep(min(10.0, until - schedule.now))
        return self._set
