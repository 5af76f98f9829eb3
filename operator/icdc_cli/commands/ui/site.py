"""Find the page that an address stands for, and make it of a reading that all pages share.

    <base>                            every pipeline
    <base>pipelines/NAMESPACE/NAME    one pipeline
    <base>words, <base>words/WORD     the texts of `icdc explain`
    ?pause, &all                      the same page as it is; with long tables whole

Knows nothing of HTTP but the status of an answer.
"""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from urllib.parse import unquote

from icdc_cli.commands.ui import cells, overview, pipeline_page
from icdc_cli.commands.ui.cells import Frame, PageColumn
from icdc_cli.commands.ui.elements import Element, make, render_document
from icdc_cli.commands.ui.history import BatchMemory
from icdc_cli.commands.ui.readers import PageReading, PipelineReader
from icdc_cli.explanations import lookup
from icdc_cli.explanations.entry import Explanation

READING_SECONDS = 2.0
"""How long a reading serves: several open pages ask the cluster no more often than one."""

_EXPLAIN = "The texts of icdc explain."


@dataclass(frozen=True)
class Page:
    """The answer to one request."""

    status: int
    """Status of HTTP."""
    text: str
    """The document."""


class PageSite:
    """All pages below one base. Threads may ask for pages at the same time."""

    def __init__(self, reader: PipelineReader, base: str) -> None:
        self._reader = reader
        self._base = base
        self._memory = BatchMemory()
        self._lock = threading.Lock()
        self._reading: PageReading | None = None
        self._read_at = 0.0

    def build(self, path: str, query: str) -> Page:
        """Return the page at `path` below the base."""
        choices = query.split("&")
        frame = Frame(
            self._base, datetime.now(UTC), path, paused="pause" in choices, every="all" in choices
        )
        # Divided before it is unquoted: a slash within a name is %2F, see `Frame.link`.
        match [unquote(part) for part in path.split("/")]:
            case [""]:
                return self._build_overview(frame)
            case ["pipelines", namespace, name]:
                return self._build_pipeline(frame, namespace, name)
            case ["words"]:
                return Page(200, render_document(build_words(frame)))
            case ["words", word] if entries := lookup.find(word):
                return Page(200, render_document(build_word_page(frame, entries)))
        return Page(404, render_document(build_message(frame, "There is no such page.")))

    def _read(self) -> PageReading:
        # Under the lock: who comes second waits for the answer to the first, and does not ask.
        with self._lock:
            if self._reading is None or time.monotonic() - self._read_at >= READING_SECONDS:
                self._reading = self._reader.read()
                self._memory.add(self._reading)
                self._read_at = time.monotonic()
            return self._reading

    def _build_overview(self, frame: Frame) -> Page:
        reading = self._read()
        # A part of the pipelines is a page; without any, the server behind this one has failed.
        failed = bool(reading.refusals) and not reading.pipelines
        return Page(
            502 if failed else 200, render_document(overview.build_overview(frame, reading))
        )

    def _build_pipeline(self, frame: Frame, namespace: str, name: str) -> Page:
        reading = self._read()
        for pipeline in reading.pipelines:
            if (pipeline.namespace, pipeline.name) == (namespace, name):
                seen = self._memory.find(namespace, name)
                page = pipeline_page.build_pipeline_page(frame, reading, pipeline, seen)
                return Page(200, render_document(page))
        # With what could not be read, as it may be among that.
        text = f"There is no pipeline {name} in the namespace {namespace} among those shown here."
        refusals = overview.build_refusals(reading.refusals)
        return Page(404, render_document(build_message(frame, text, refusals)))


def build_message(frame: Frame, text: str, *more: Element | None) -> Element:
    """Return a page of one sentence."""
    back = make("a", "All pipelines", href=frame.link())
    return cells.build_page(frame, "icdc", make("h1", text), make("p", back), *more, read=None)


def build_words(frame: Frame) -> Element:
    """Return the page of all words, by family."""
    sections = [
        _build_family(frame, str(family), entries)
        for family, entries in groupby(lookup.list_all(), lambda entry: entry.family.value)
    ]
    return cells.build_page(
        replace(frame, is_static=True), "Words", make("h1", "Words"), *sections, read=_EXPLAIN
    )


def _build_family(frame: Frame, family: str, entries: Iterable[Explanation]) -> Element:
    columns = (PageColumn("Word"), PageColumn("Meaning"), PageColumn("Who acts"))
    rows = [
        [cells.build_word(frame, entry.word), entry.meaning, entry.who_acts] for entry in entries
    ]
    title = cells.capitalise(family)
    table = cells.build_table(title, columns, rows)
    return cells.build_section(title, table, name=family.replace(" ", "-"))


def build_word_page(frame: Frame, entries: Iterable[Explanation]) -> Element:
    """Return the page of one word with all that it may stand for."""
    meanings = list(entries)
    parts = [
        cells.build_section(
            cells.capitalise(entry.family.value),
            make("p", entry.meaning),
            *cells.build_advice(entry, entry.cure),
            name=f"meaning-{number}",
        )
        for number, entry in enumerate(meanings)
    ]
    word = meanings[0].word
    static = replace(frame, is_static=True)
    return cells.build_page(static, word, make("h1", word), *parts, read=_EXPLAIN)
