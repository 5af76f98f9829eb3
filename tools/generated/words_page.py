"""Writes docs/words.md, the page of `icdc explain`, which is also the runbook of each alert.

A heading stands above each alert alone: `runbook_url` leads there. `--check` fails where the page
differs from the explanations, `--write` writes it.
"""

import sys
from collections.abc import Iterator

from icdc_cli.explanations import lookup, sources
from icdc_cli.explanations.alerts import ALERTS
from icdc_cli.explanations.entry import PLACEHOLDERS, Explanation, Family
from pages import ROOT, escape_bars, write_or_check

PAGE = ROOT / "docs" / "words.md"
_TOP = """\
<!-- Made from operator/icdc_cli/explanations by `make words-page`. Do not edit. -->
# What each word means

Every reason, failure class, condition, Event and alert: what it means, who acts, and the cure.
`icdc explain WORD` says the same without a network, and explains
[metrics](reference/metrics.md#metrics-of-the-operator) too. A word may stand in several tables,
such as `DeadLetters`, which is a condition and an Event.

What Kubernetes writes into a pod that it removes, such as `Evicted`, is passed on as the reason of
the failure, with the class `NodeLost`. That set is open, so the page does not have it.

In the commands, words in capitals stand for your own. For a pipeline that `icdc run` follows,
`icdc plan`, `verify` and `dead-letters` take `-f PIPELINE.yaml` in place of `NAME -n NAMESPACE`.

| in commands | stands for |
|---|---|
"""
_TITLES = {
    Family.REASON: "Reasons",
    Family.FAILURE_CLASS: "Failure classes",
    Family.CONDITION: "Conditions",
    Family.CONDITION_REASON: "Reasons of conditions",
    Family.RUN_STATE: "States of runs",
    Family.EVENT: "Events",
    Family.ALERT: "Alerts",
}
"""Of the families on this page: metrics have one of their own, `metrics_page`."""
_HEAD = "| word | meaning | who acts | cure |\n|---|---|---|---|\n"


def render_page() -> str:
    """Return the whole page: one part for each family, in the order of `icdc explain`."""
    placeholders = "".join(f"| {name} | {text} |\n" for name, text in PLACEHOLDERS.items())
    return "".join((_TOP, placeholders, *(part for one in _TITLES for part in _render_part(one))))


def _render_part(family: Family) -> Iterator[str]:
    texts = sources.read_members("icdc_cli", "explanations/entry.py", Family.__name__)
    yield f"\n## {_TITLES[family]}\n{texts[family.value]}\n\n"
    entries = [entry for entry in lookup.list_all() if entry.family is family]
    if family is Family.ALERT:
        metrics = {alert.word: alert.metric for alert in ALERTS}
        yield "\n".join(_render_section(entry, metrics[entry.word]) for entry in entries)
    else:
        yield _HEAD
        yield from (_render_row(entry) for entry in entries)


def _render_section(entry: Explanation, metric: str) -> str:
    commands = "\n".join(entry.cure)
    return (
        f"### {entry.word}\n{entry.meaning} It watches `{metric}`. Who acts: {entry.who_acts}.\n\n"
        f"```sh\n{commands}\n```\n"
    )


def _render_row(entry: Explanation) -> str:
    commands = (f"`{command}`" for command in entry.cure)
    # A cell of a Markdown table is one line, so only HTML can break it.
    cure = "<br>".join((*((entry.advice,) if entry.advice else ()), *commands))
    cells = (f"`{entry.word}`", entry.meaning, entry.who_acts, cure)
    return f"| {' | '.join(map(escape_bars, cells))} |\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: render_page}, "words-page"))
