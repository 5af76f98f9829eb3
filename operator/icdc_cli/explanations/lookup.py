"""All explained words, and how one is found by what a person types."""

import difflib
from collections.abc import Iterator
from functools import cache

from icdc_cli.explanations import (
    alerts,
    condition_reasons,
    conditions,
    events,
    failure_classes,
    metrics,
    reasons,
    run_states,
)
from icdc_cli.explanations.entry import Explanation

MAX_NEAREST = 3
"""Words that a refusal suggests."""


@cache
def list_all() -> tuple[Explanation, ...]:
    """Return every entry, by family in the order of `Family`."""
    return (
        *reasons.list_reasons(),
        *failure_classes.list_failure_classes(),
        *conditions.list_conditions(),
        *condition_reasons.list_condition_reasons(),
        *run_states.list_run_states(),
        *events.list_events(),
        *alerts.list_alerts(),
        *metrics.list_metrics(),
    )


def find(text: str) -> list[Explanation]:
    """Return the entries of a word, in whatever case it is typed; none if it is unknown."""
    wanted = text.strip().lower()
    entries = [entry for entry in list_all() if entry.word.lower() == wanted]
    if entries:
        return entries
    series = metrics.trim_suffix(wanted)
    return [entry for entry in list_all() if metrics.trim_suffix(entry.word) == series]


def suggest(text: str) -> list[str]:
    """Return the words nearest to `text`, the nearest first; all that contain it come after."""
    typed = text.strip().lower()
    by_name = {entry.word.lower(): entry.word for entry in list_all()}
    near = difflib.get_close_matches(typed, by_name, n=MAX_NEAREST)
    names = dict.fromkeys((*near, *_list_containing(typed, by_name)))
    return [by_name[name] for name in list(names)[:MAX_NEAREST]]


def _list_containing(typed: str, names: dict[str, str]) -> Iterator[str]:
    if typed:
        yield from (name for name in names if typed in name)
