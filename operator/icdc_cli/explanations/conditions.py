"""Conditions: the docstring of each type, who acts where it is not as desired, and the cure."""

from icdc_api.errors import WhoActs
from icdc_api.status.conditions import ConditionType
from icdc_cli.explanations import cures, sources
from icdc_cli.explanations.entry import NAMED, NOT_NEEDED, Explanation, Family

AUTHOR = WhoActs.DATA_ENGINEER.value

_CURES: dict[ConditionType, tuple[str, tuple[str, ...]]] = {
    ConditionType.READY: (NAMED, (f"{cures.STATUS}  # if it is False for long",)),
    ConditionType.RECONCILING: (NOT_NEEDED, (f"{cures.PLAN}  # what it waits for, if it is slow",)),
    ConditionType.STALLED: (NAMED, (f"{cures.STATUS}  # then icdc explain with the reason",)),
    ConditionType.SPEC_VALID: (AUTHOR, (cures.EDIT,)),
    ConditionType.EXPORTED: (NOT_NEEDED, (f"{cures.STATUS}  # how far each export is",)),
    ConditionType.RUN_ACTIVE: (NOT_NEEDED, (cures.LOGS,)),
    ConditionType.CAUGHT_UP: (
        NOT_NEEDED,
        (
            cures.STATUS,
            cures.edit("spark.executor.instances", "more, if the lag grows although runs succeed"),
        ),
    ),
    ConditionType.SUSPENDED: (NOT_NEEDED, (f"{cures.RESUME}  # to end it",)),
    ConditionType.SNAPSHOTS_PINNED: (
        WhoActs.PLATFORM.value,
        (cures.edit("changelog.pinSnapshots", "Auto, or grant what the message names"),),
    ),
    ConditionType.DEAD_LETTERS: (AUTHOR, (cures.DEAD_LETTERS, cures.REPLAY)),
    ConditionType.DUPLICATES: (AUTHOR, cures.DUPLICATES),
    ConditionType.VERIFIED: (AUTHOR, (cures.VERIFY, f"{cures.REPAIR}  # if they differ")),
}
"""Who acts and the cure, by type."""


def list_conditions() -> list[Explanation]:
    """Return all conditions, in the order of their enum."""
    texts = sources.read_members("icdc_api", "status/conditions.py", ConditionType.__name__)
    return [
        Explanation(kind.value, Family.CONDITION, texts[kind.value], *_CURES[kind])
        for kind in ConditionType
    ]
