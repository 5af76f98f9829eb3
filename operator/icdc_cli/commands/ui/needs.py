"""List what needs somebody in a pipeline, or has failed: word, message, meaning, who acts, cure.

One entry for one cause, in the order in which a person should read them: the spec, what waits for a
person, what is retried. The texts are those of `icdc explain`.

    status                                              entries
    orders Stalled by Gap; Stalled=True TableStalled    Gap of the table orders
    Stalled=True TargetUnavailable, last run failed     TargetUnavailable of the last run
    DeadLetters=True Refused                            Refused of the condition

The placeholders of a cure are filled in only with names that no shell reads as anything else: a
command is copied from the page and pasted into a terminal, and the names are a tenant's. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from icdc_api.errors import WhoActs
from icdc_api.status.conditions import Condition, ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableStatus
from icdc_api.status.runs import RunState
from icdc_cli.commands.ui import cells
from icdc_cli.commands.ui.cells import Tone
from icdc_cli.commands.ui.readers import SeenPipeline
from icdc_cli.explanations import lookup
from icdc_cli.explanations.entry import Explanation, Family

_PLACEHOLDER = re.compile(r"\b(NAMESPACE|NAME|TABLE|INDEX)\b")
_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*")
"""A word to every shell, and no option."""

_ABNORMAL: Mapping[ConditionType, ConditionStatus] = {
    ConditionType.SPEC_VALID: ConditionStatus.FALSE,
    ConditionType.STALLED: ConditionStatus.TRUE,
    ConditionType.VERIFIED: ConditionStatus.FALSE,
    ConditionType.DEAD_LETTERS: ConditionStatus.TRUE,
    ConditionType.DUPLICATES: ConditionStatus.TRUE,
    ConditionType.SNAPSHOTS_PINNED: ConditionStatus.FALSE,
}
"""Conditions that call for somebody, in the order in which they are shown. Without Ready, Exported
and CaughtUp, whose causes are shown by themselves."""


@dataclass(frozen=True)
class Need:
    """One cause."""

    word: str
    """The reason, as in the status."""
    subject: str
    """Where it stands, such as `table shop.orders`."""
    message: str
    """What the status says of it."""
    explanations: tuple[Explanation, ...]
    """The meanings of the word, with who acts and the cure."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What the placeholders of the cure stand for."""

    is_mild: bool = False
    """Whether the tables go on although nobody acts."""

    @property
    def tone(self) -> Tone:
        """The urgency of the cause: a warning where it may pass by itself."""
        retried = any(entry.who_acts == WhoActs.NOBODY.value for entry in self.explanations)
        return Tone.WARN if retried or self.is_mild else Tone.BAD

    def fill(self, command: str) -> str:
        """Return the command with the names of the pipeline; a strange name is not filled in."""

        def replace(match: re.Match[str]) -> str:
            value = self.values.get(match[0], "")
            return value if _PLAIN.fullmatch(value) else match[0]

        return _PLACEHOLDER.sub(replace, command)


def list_needs(pipeline: SeenPipeline) -> list[Need]:
    """Return the causes; those that a person must remove come first."""
    values = {"NAMESPACE": pipeline.namespace, "NAME": pipeline.name}
    status = pipeline.status
    needs = [*_list_table_needs(status, values), *_list_run_needs(status, values)]
    words = {need.word for need in needs}
    needs += _list_condition_needs(status, words, values)
    # Stable: among causes of one tone, tables stay before runs and conditions.
    return sorted(needs, key=lambda need: need.tone != Tone.BAD)


def _list_table_needs(status: PipelineStatus, values: Mapping[str, str]) -> Iterator[Need]:
    for table in status.tables:
        if table.reason is not None:
            word = table.reason.value
            yield Need(
                word,
                f"table {table.name}",
                table.message or "",
                _explain(word, Family.REASON),
                {**values, **_name_table(table)},
            )


def _list_run_needs(status: PipelineStatus, values: Mapping[str, str]) -> Iterator[Need]:
    run = status.last_run
    if run is None or run.state != RunState.FAILED or run.failure is None:
        return
    word, failure = run.failure.reason, run.failure
    # Its class where the exact error is one that only the log knows.
    entries = _explain(word, Family.REASON)
    entries = entries or _explain(failure.failure_class.value, Family.FAILURE_CLASS)
    yield Need(word, f"run {run.name}", failure.message, entries, values)


def _list_condition_needs(
    status: PipelineStatus, words: set[str], values: Mapping[str, str]
) -> Iterator[Need]:
    for kind, abnormal in _ABNORMAL.items():
        condition = status.find_condition(kind)
        if condition is None or condition.status != abnormal or condition.reason in words:
            continue
        # The tables are already there, each with its own reason.
        if condition.reason == "TableStalled" and words:
            continue
        yield Need(
            condition.reason,
            f"condition {kind.value} is {condition.status.value}",
            condition.message,
            explain_condition(condition),
            values,
            is_mild=cells.choose_condition_tone(condition) != Tone.BAD,
        )


def explain_condition(condition: Condition) -> tuple[Explanation, ...]:
    """Return the entries of its reason, or of the condition itself where it has none."""
    entries = _explain(condition.reason, Family.CONDITION_REASON)
    entries = entries or _explain(condition.reason, Family.REASON)
    return entries or _explain(condition.type.value, Family.CONDITION)


def trim_meaning(entry: Explanation) -> str:
    """Return the meaning without the conditions that it is of, which stand beside it on a page."""
    of, _, rest = entry.meaning.partition(": ")
    is_of = entry.family == Family.CONDITION_REASON and of.startswith("Of ")
    return rest if is_of else entry.meaning


def _explain(word: str, family: Family) -> tuple[Explanation, ...]:
    return tuple(entry for entry in lookup.find(word) if entry.family == family)


def _name_table(table: TableStatus) -> dict[str, str]:
    return {"TABLE": table.name, "INDEX": table.index}
