"""Parts of all pages: the frame, links, states by word and colour, tables, times and numbers.

A table is read by columns on a wide screen and as one card for each row on a narrow one, for which
each cell has the heading of its column. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import quote

from icdc_api.status.conditions import Condition, ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import Phase, TableState
from icdc_api.status.runs import RunState
from icdc_cli.commands.ui.elements import Child, Element, make
from icdc_cli.explanations import lookup
from icdc_cli.explanations.entry import PLACEHOLDERS, Explanation
from icdc_cli.tables import text_tables

REFRESH_SECONDS = 10
"""Between two readings of a page that is open."""
NONE = text_tables.NONE
"""A cell without a value."""
_ZEROS = ("0", "0s")
"""Cells that step back, so that the eye finds the others."""


class Tone(StrEnum):
    """How a state is coloured, beside its word and its mark: classes of the style sheet."""

    GOOD = "good"
    """Nothing to do."""
    BUSY = "busy"
    """Work goes on, such as an export."""
    WARN = "warn"
    """It may pass by itself."""
    BAD = "bad"
    """A person must act."""
    CALM = "calm"
    """Nothing happens, as was asked for, such as while it is suspended."""


PHASES: Mapping[Phase, Tone] = {
    Phase.PENDING: Tone.BUSY,
    Phase.EXPORTING: Tone.BUSY,
    Phase.STREAMING: Tone.GOOD,
    Phase.COMPLETE: Tone.GOOD,
    Phase.RETRYING: Tone.WARN,
    Phase.STALLED: Tone.BAD,
    Phase.SUSPENDED: Tone.CALM,
    Phase.DELETING: Tone.CALM,
}
TABLES: Mapping[TableState, Tone] = {
    TableState.PENDING: Tone.BUSY,
    TableState.EXPORTING: Tone.BUSY,
    TableState.STREAMING: Tone.GOOD,
    TableState.COMPLETE: Tone.GOOD,
    TableState.STALLED: Tone.BAD,
}
RUNS: Mapping[RunState, Tone] = {
    RunState.PLANNED: Tone.BUSY,
    RunState.SUBMITTED: Tone.BUSY,
    RunState.RUNNING: Tone.BUSY,
    RunState.STOPPING: Tone.CALM,
    RunState.SUCCEEDED: Tone.GOOD,
    RunState.FAILED: Tone.BAD,
}
_DESIRED: Mapping[ConditionType, ConditionStatus] = {
    **dict.fromkeys(
        (
            ConditionType.READY,
            ConditionType.SPEC_VALID,
            ConditionType.EXPORTED,
            ConditionType.CAUGHT_UP,
            ConditionType.SNAPSHOTS_PINNED,
            ConditionType.VERIFIED,
        ),
        ConditionStatus.TRUE,
    ),
    ConditionType.STALLED: ConditionStatus.FALSE,
    ConditionType.DEAD_LETTERS: ConditionStatus.FALSE,
    ConditionType.DUPLICATES: ConditionStatus.FALSE,
}
"""The status that is good; of other types neither is."""
# For these a person must act; what the others say may pass by itself, as a lag does.
_SEVERE = (ConditionType.STALLED, ConditionType.SPEC_VALID, ConditionType.VERIFIED)


def choose_condition_tone(condition: Condition) -> Tone:
    """Return whether the condition is as desired, and how bad it is if not."""
    desired = _DESIRED.get(condition.type)
    # Unknown is no verdict: Verified is Unknown before the first comparison.
    if desired is None or condition.status == ConditionStatus.UNKNOWN:
        return Tone.CALM
    if condition.status == desired:
        return Tone.GOOD
    return Tone.BAD if condition.type in _SEVERE else Tone.WARN


@dataclass(frozen=True)
class Frame:
    """What a page knows besides its content."""

    base: str
    """Path of the first page, with the token: begins and ends with a slash."""
    now: datetime
    """The moment from which ages are counted, in UTC."""
    path: str = ""
    """Path of this page below `base`, without a slash in front."""
    paused: bool = False
    """Whether the page stays as it is."""
    is_static: bool = False
    """Whether the page is the same at each reading."""
    every: bool = False
    """Whether a long table is shown whole."""

    def link(self, *parts: str) -> str:
        """Return the address of the page below `base`, each part quoted."""
        # A name may hold half of a surrogate pair, which is legal in JSON, and `quote` would raise.
        return self.base + "/".join(quote(part, safe="", errors="replace") for part in parts)

    def link_here(self, *, paused: bool, every: bool) -> str:
        """Return the address of this page with other choices."""
        query = "&".join(name for name, chosen in (("pause", paused), ("all", every)) if chosen)
        return f"{self.base}{self.path}{f'?{query}' if query else ''}"


@dataclass(frozen=True)
class PageColumn:
    """One column of a table."""

    heading: str
    """The name in the first row."""
    is_number: bool = False
    """Whether its cells are set to the right."""


def build_table(
    label: str, columns: Sequence[PageColumn], rows: Sequence[Sequence[Child]]
) -> Element:
    """Return a table, by `label` what it lists; the first cell of a row is its name."""
    heads = [
        make("th", column.heading, scope="col", class_=_choose_class(column)) for column in columns
    ]
    body = [make("tr", *_build_row(columns, row)) for row in rows]
    return make(
        "table",
        make("thead", make("tr", *heads)),
        make("tbody", *body),
        aria_label=label,
    )


def _build_row(columns: Sequence[PageColumn], row: Sequence[Child]) -> list[Element]:
    cells = []
    for position, (column, cell) in enumerate(zip(columns, row, strict=True)):
        tag, scope = ("th", "row") if position == 0 else ("td", None)
        class_ = _choose_class(column, cell)
        cells.append(make(tag, cell, scope=scope, class_=class_, data_label=column.heading))
    return cells


def _choose_class(column: PageColumn, cell: Child = None) -> str | None:
    # A card leaves out what has no value.
    chosen = [*(["number"] if column.is_number else []), *(["none"] if cell == NONE else [])]
    chosen += ["zero"] if cell in _ZEROS else []
    return " ".join(chosen) or None


def build_state(word: str, tone: Tone) -> Element:
    """Return a state: its word, with the mark and the colour of its tone."""
    return make("span", word, class_=f"state {tone.value}")


def build_word(frame: Frame, word: str) -> Child:
    """Return a word that leads to its explanation; alone where there is none."""
    if not lookup.find(word):
        return word
    return make("a", word, class_="word", href=frame.link("words", word))


def build_age(moment: datetime | None, now: datetime, *, after: str = "") -> Child:
    """Return how long ago `moment` was, with the moment itself under the pointer."""
    if moment is None:
        return NONE
    text = f"{text_tables.format_age(moment, now)}{after}"
    exact = format_moment(moment)
    return make("time", text, datetime=moment.astimezone(UTC).isoformat(), title=exact)


def capitalise(text: str) -> str:
    """Return the text with its first letter as a capital, as a sentence begins."""
    return f"{text[:1].upper()}{text[1:]}"


def format_moment(moment: datetime) -> str:
    """Return the time for people, in UTC as everywhere in a status."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_number(value: int | None) -> str:
    """Return a number with its thousands apart."""
    return NONE if value is None else f"{value:,}"


def build_alarm(count: int | None) -> Child:
    """Return a number that should be 0, marked where it is not."""
    text = format_number(count)
    return make("b", text, class_=Tone.WARN.value) if count else text


def format_millis(millis: int) -> str:
    """Return a duration of a batch: 840 ms, 2.4 s, or minutes."""
    if millis < 1000:
        return f"{millis} ms"
    if millis < 120_000:
        return f"{millis / 1000:.1f} s"
    return text_tables.format_duration(millis // 1000)


def build_section(title: str, *children: Child, name: str) -> Element:
    """Return a part of a page below its own heading; `name` is its anchor."""
    heading = make("h2", title, id=f"{name}-title")
    return make("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def build_advice(entry: Explanation, cure: Sequence[str]) -> tuple[Element | None, ...]:
    """Return who acts on an explained word, and `cure`: its commands, as they are to be shown."""
    # The page of a pipeline has filled in most of them, so the legend has only the rest.
    left = {word for word in PLACEHOLDERS if any(word in re.findall(r"\w+", line) for line in cure)}
    legend = "; ".join(f"{word}: {PLACEHOLDERS[word]}" for word in PLACEHOLDERS if word in left)
    return (
        make("p", "Who acts: ", make("b", entry.who_acts), f". {entry.advice}".rstrip()),
        make("pre", make("code", "\n".join(cure))) if cure else None,
        make("p", legend, class_="legend") if legend else None,
    )


def build_page(frame: Frame, title: str, *body: Child, read: Child) -> Element:
    """Return the whole document. `read` says what was read, and when."""
    refresh = None if frame.paused or frame.is_static else REFRESH_SECONDS
    return make(
        "html",
        make(
            "head",
            make("meta", charset="utf-8"),
            make("meta", name="viewport", content="width=device-width, initial-scale=1"),
            make("meta", name="color-scheme", content="light dark"),
            make("title", f"{title} · icdc"),
            make("style"),
            *_build_refresh(refresh),
        ),
        make(
            "body",
            # For people who use a keyboard or hear the page: every page begins with the same
            # navigation.
            make("a", "Skip to the content", class_="skip", href="#content"),
            make("header", _build_navigation(frame), make("p", read, class_="read")),
            # The index lets the link above move the focus, and not the view alone.
            make("main", *body, id="content", tabindex="-1"),
            make("footer", make("p", "Read-only, with your own permissions, on this host alone.")),
        ),
        lang="en",
        data_refresh=refresh,
    )


def _build_refresh(seconds: int | None) -> tuple[Element, ...]:
    """Return what reads the page anew; nothing for a page that stays as it is."""
    if seconds is None:
        return ()
    # Where no script runs the browser does it, which takes the focus and the selection with it.
    reload = make("meta", http_equiv="refresh", content=seconds)
    return make("script"), make("noscript", reload)


def _build_navigation(frame: Frame) -> Element:
    choice, here = "Resume" if frame.paused else "Pause", frame.link_here
    return make(
        "nav",
        make("a", "iceberg-cdc-operator", class_="brand", href=frame.link()),
        make("a", "Words", href=frame.link("words")),
        None
        if frame.is_static
        else make("a", choice, href=here(paused=not frame.paused, every=frame.every)),
        aria_label="Pages",
    )
