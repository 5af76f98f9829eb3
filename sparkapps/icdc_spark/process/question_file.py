"""The question that a continuous run is asked while it follows its tables, and its answer so far.

Whoever started the run puts the question into a file, replaces it, or removes it. Each table
answers between two of its steps, in its own thread, so that nothing else writes its index
meanwhile; the other tables go on. The answer is in the report, until there is another question.

    file              tables orders, users             result in the report
    question a        orders answers, users is busy    question a, entry of orders
    question a        users answers                    question a, both entries, complete
    question b        none has answered yet            question b, no entry
    none              orders skips b, or is cancelled  as before, a minute later none

A table that hangs, or is no longer followed, is not waited for. It must not know how a question is
answered, nor how the file came to be.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from icdc_api.base import MAX_TEXT, ShortText, shorten
from icdc_api.errors import BadSpec, IcdcError, PassingError
from icdc_api.job.answers import RunAnswer, TableEntry
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunQuestion
from icdc_spark.process.failures import outlive_errors
from icdc_spark.process.step_watch import Jobs

LOG = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Seconds between two reads of the file, which is a few hundred bytes."""
ANSWER_SECONDS = 60.0
"""How long an answer stays after its question was removed: whoever asked may still be reading."""

_WRITES = (RunMode.REPAIR, RunMode.REPLAY)
"""Modes of questions that change documents."""

ATTEMPTS = 5
"""Attempts at a planned comparison that meets a passing fault, before that is its answer."""
_PASSING = {kind.__name__ for kind in PassingError.__subclasses__()}


def build_failed_entry(table: str, error: IcdcError) -> TableEntry:
    """Return the entry of a table that could not answer."""
    return {"name": table, "reason": type(error).__name__, "message": error.message}


def _parse_id(content: bytes) -> str | None:
    """Return the id in what is no question of this version; None without one that is an id."""
    try:
        return TypeAdapter(ShortText).validate_python(json.loads(content)["id"], strict=True)
    except (ValidationError, ValueError, RecursionError, TypeError, LookupError):
        return None


class RunQuestions:
    """The question in the file at `path`; None where no question can be asked."""

    def __init__(
        self,
        path: str | None,
        tags: Mapping[str, str],
        *,
        jobs: Jobs,
        publish: Callable[[RunAnswer | None], None],
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """`tags` has the tag of each table's Spark jobs, `publish` takes the whole answer so far.

        `publish` gets None `answer_seconds` after the question was removed. `jobs` is for this
        object alone.
        """
        self._path = None if path is None else Path(path)
        self._tags = tags
        self._jobs = jobs
        self._publish = publish
        self._answer_seconds = answer_seconds
        # Guards all that follows.
        self._lock = threading.Lock()
        self._question: RunQuestion | None = None
        self._entries: dict[str, TableEntry] = {}
        # Tables from which no answer comes, and why, if that is known.
        self._silent: dict[str, IcdcError | None] = {}
        # What tables work on without changing anything, so that it may be cancelled.
        self._comparing: dict[str, RunQuestion] = {}
        # How often tables have tried to answer.
        self._attempts: dict[str, int] = {}
        # When a table that could not answer is asked again, by the monotonic clock.
        self._again_at: dict[str, float] = {}
        # A file that cannot be read, and why not.
        self._refused: tuple[bytes, str] | None = None
        # When the answer is removed, by the monotonic clock; None while there is a question, or
        # no answer.
        self._forget_at: float | None = None
        self._has_answer = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Read the file again and again inside the block."""
        if self._path is None:
            yield
            return
        # Before the first step of any table.
        self.poll()
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(POLL_SECONDS):
                with outlive_errors("the watch of questions"):
                    self.poll()

        thread = threading.Thread(target=work, name="questions", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def poll(self) -> None:
        """Take up what the file says now."""
        question, refusal = self._read()
        with self._lock:
            self._forget_answer(is_asked=question is not None or self._refused is not None)
            if question != self._question:
                self._question = question
                self._entries.clear()
                self._attempts.clear()
                self._again_at.clear()
                if question is not None:
                    LOG.info("asked %s: %s", question.id, question.mode.value)
                    self._publish_answer(question)
            # After the switch: no table answers the question before any more.
            if refusal is not None:
                self._refuse(refusal)
            # Each time: a comparison may have begun another job meanwhile. Under the lock: it
            # cannot end here, so what is cancelled is no job of the batch after it.
            for table, other in self._comparing.items():
                if other != question:
                    with suppress(IcdcError):
                        self._jobs.cancel(self._tags[table])

    def find(self, table: str) -> RunQuestion | None:
        """Return the question that the table has to answer now; None if there is none."""
        with self._lock:
            question = self._question
            if question is None or table in self._entries or not self._is_asked(table, question):
                return None
            return question if time.monotonic() >= self._again_at.get(table, 0.0) else None

    @contextmanager
    def mark_comparing(self, table: str, question: RunQuestion) -> Iterator[None]:
        """Inside it the table works on the question; what changes nothing may be cancelled."""
        with self._lock:
            # What writes is not cut off: what it has begun is settled first.
            if question.mode not in _WRITES and self._question == question:
                self._comparing[table] = question
        try:
            yield
        finally:
            with self._lock:
                self._comparing.pop(table, None)

    def is_open(self, question: RunQuestion) -> bool:
        """Return whether somebody still waits for the answer to this very question."""
        with self._lock:
            return self._question == question

    def answer(
        self,
        table: str,
        question: RunQuestion,
        entry: TableEntry,
        *,
        backoff: Callable[[int], float],
    ) -> None:
        """Publish the table's entry, unless the question is another one by now.

        A planned comparison that met a passing fault is no answer at first: the table is asked
        again, after the seconds that `backoff` returns for the number of its attempts.
        """
        with self._lock:
            if self._question != question:
                return
            attempts = self._attempts[table] = 1 + self._attempts.get(table, 0)
            # A person who asks sees at once why there is no answer.
            passes = question.tables is not None and entry.get("reason") in _PASSING
            if passes and attempts < ATTEMPTS:
                LOG.warning("%s: not compared yet: %s", table, entry["message"])
                self._again_at[table] = time.monotonic() + backoff(attempts)
                return
            self._entries[table] = entry
            self._publish_answer(question)

    def mark_silent(self, table: str, error: IcdcError | None) -> None:
        """Wait for no answer of a table: it hangs for `error`, or is not followed any more."""
        with self._lock:
            self._silent[table] = error
            if self._question is not None:
                self._publish_answer(self._question)

    def mark_audible(self, table: str) -> None:
        """Wait for the table's answers again, after it hung."""
        with self._lock:
            self._silent.pop(table, None)

    def _read(self) -> tuple[RunQuestion | None, str | None]:
        """Return the question in the file, and why it cannot be read; that once for each content.

        Without a file there is neither.
        """
        if self._path is None:
            return None, None
        content = b""
        try:
            content = self._path.read_bytes()
            question = RunQuestion.parse(content, self._path)
        except FileNotFoundError:
            self._refused = None
            return None, None
        except (BadSpec, OSError) as error:
            # An image of another version may not know what it is asked.
            before, problem = self._refused, f"the question cannot be read: {error}"
            self._refused = content, problem
            return None, None if self._refused == before else problem
        self._refused = None
        return question, None

    def _refuse(self, problem: str) -> None:
        """Answer for all tables that they cannot be asked: nobody shall wait for them."""
        LOG.warning(problem)
        identity = _parse_id(b"" if self._refused is None else self._refused[0])
        if identity is not None:
            error = BadSpec(shorten(problem, MAX_TEXT))
            entries = [build_failed_entry(table, error) for table in self._tags]
            self._show_answer(identity, entries, complete=True)

    def _forget_answer(self, *, is_asked: bool) -> None:
        """Remove the answer once nobody has asked for a while: it may be large, and holds ids."""
        if is_asked or not self._has_answer:
            self._forget_at = None
            return
        now = time.monotonic()
        if self._forget_at is None:
            self._forget_at = now + self._answer_seconds
        if now >= self._forget_at:
            self._has_answer = False
            self._publish(None)

    def _is_asked(self, table: str, question: RunQuestion) -> bool:
        names = question.tables or question.only
        return not names or table in names

    def _publish_answer(self, question: RunQuestion) -> None:
        """Publish entries in the order of the spec; those of silent tables last where they lack."""
        asked = [table for table in self._tags if self._is_asked(table, question)]
        entries = [self._entries[table] for table in asked if table in self._entries]
        for table in asked:
            error = self._silent.get(table)
            if table not in self._entries and error is not None:
                entries.append(build_failed_entry(table, error))
        complete = all(table in self._entries or table in self._silent for table in asked)
        self._show_answer(question.id, entries, complete=complete)

    def _show_answer(self, identity: str, entries: list[TableEntry], *, complete: bool) -> None:
        self._has_answer = True
        self._publish({"question": identity, "complete": complete, "tables": entries})
