"""One explained word. Knows no word by itself."""

from dataclasses import dataclass
from enum import StrEnum

from icdc_api.errors import WhoActs

NOT_NEEDED = "nobody"
"""Who acts on what is no problem."""
NAMED = "whom the message names"
"""Who acts where the cause decides it."""
PASSES = "It passes by itself."
NOTHING_TO_DO = "Nothing has to be done."

PLACEHOLDERS = {
    "NAME": "the pipeline",
    "NAMESPACE": "its namespace",
    "TABLE": "a name in spec.tables[]",
    "INDEX": "the alias of its index",
    "SEARCH": "the URL of OpenSearch, with credentials",
    "SECRET": "the Secret that the message names",
    "OPERATOR": "the namespace of the operator",
    "ACCOUNT": "the operator's service account",
    "RELEASE": "the operator's Helm release",
    "CHART": "the chart of that release",
}
"""What the words in capitals in a cure stand for."""


class Family(StrEnum):
    """Where a word stands, and so what it is about."""

    REASON = "reason"
    """Why a table does not advance or a run has failed: `status.tables[].reason` and
    `status.lastRun.failure.reason`, which may also be the reason of Ready and Stalled."""
    FAILURE_CLASS = "failure class"
    """How a failed run is retried: `status.lastRun.failure.class`."""
    CONDITION = "condition"
    """A statement about the pipeline: `status.conditions[].type`."""
    CONDITION_REASON = "condition reason"
    """Why a condition has its status: `status.conditions[].reason`."""
    RUN_STATE = "run state"
    """How a run ended: `status.lastRun.state`."""
    EVENT = "event"
    """Something that happened to a pipeline, shown by `kubectl describe`."""
    ALERT = "alert"
    """A rule of the chart's PrometheusRule."""
    METRIC = "metric"
    """A series that the operator shows on `/metrics`. Drivers show Spark's own series alone."""


@dataclass(frozen=True)
class Explanation:
    """One word of one family."""

    word: str
    """As it is written in a status, an alert or a query."""
    family: Family
    """What it is about. The same word may be in several families."""
    meaning: str
    """One to three sentences."""
    who_acts: str
    """A value of `WhoActs`, NOT_NEEDED or NAMED."""
    cure: tuple[str, ...] = ()
    """Commands, each perhaps with a comment of the shell that says when or what for. The
    words of PLACEHOLDERS in them stand for the reader's own."""

    @property
    def advice(self) -> str:
        """The sentence before the commands, or in their place; empty where they say all."""
        passes = self.who_acts == WhoActs.NOBODY.value
        if not self.cure:
            return PASSES if passes else NOTHING_TO_DO
        return f"{PASSES} If it lasts:" if passes else ""

    def to_document(self) -> dict[str, object]:
        """Return the entry as `-o json` and `-o yaml` print it."""
        return {
            "word": self.word,
            "family": self.family.value,
            "meaning": self.meaning,
            "whoActs": self.who_acts,
            "cure": list(self.cure),
        }
