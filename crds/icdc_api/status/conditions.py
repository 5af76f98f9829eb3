"""Conditions of a pipeline in the shape that kubectl, kstatus and Argo CD expect.

Knows the form and the rule for `lastTransitionTime`; which condition holds when is decided by
the operator.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from icdc_api.base import ApiModel, Count, Message, Timestamp


class ConditionType(StrEnum):
    """Every condition of a pipeline. All of them are always present.

    Positive polarity: True is the desired state. Negative polarity ("abnormal-true"): True calls
    for a person. Neutral: neither status is better.
    """

    READY = "Ready"
    """Positive. Every table is exported and the last run succeeded, or a requested suspend is
    reached. Lag never makes it False. Summary for kstatus and Argo CD."""
    RECONCILING = "Reconciling"
    """Neutral. A new generation of the spec, the first export or a deletion is not finished yet.
    False during the usual replication."""
    STALLED = "Stalled"
    """Negative. A table, or the whole pipeline, does not advance before a person acts, or has
    failed so often that one should know. The message names who must act."""
    SPEC_VALID = "SpecValid"
    """Positive. The operator accepts the spec of this generation. While it is False, no run
    starts and a live one goes on. The message may hold cautions."""
    EXPORTED = "Exported"
    """Positive. Readers of every index see a whole snapshot of its table, perhaps an older one."""
    RUN_ACTIVE = "RunActive"
    """Neutral. A Spark application of the pipeline exists. The reason is its state, or Queued while
    a due run waits for a limit of active runs."""
    CAUGHT_UP = "CaughtUp"
    """Positive. Every index equals the newest known snapshot of its table. Unknown before the first
    report; the reason NotReported then means that no run has reported a table yet."""
    SUSPENDED = "Suspended"
    """Neutral. `spec.suspend` is true and no run replicates any more."""
    SNAPSHOTS_PINNED = "SnapshotsPinned"
    """Positive. A tag keeps the applied snapshot of every table from being expired. False where one
    could not be set, or with pinSnapshots Never; Unknown before a run has tried."""
    DEAD_LETTERS = "DeadLetters"
    """Negative. An index refuses rows, which are stored as dead letters. Ready stays True."""
    DUPLICATES = "Duplicates"
    """Negative. A key occurs in more than one row of a table, and one of them is its document.
    Ready stays True. Stays until the next export, as only that reads all keys."""
    VERIFIED = "Verified"
    """Positive. The last comparison found index and table equal, or repaired what differed. Unknown
    where nothing was compared since the last export."""


class ConditionStatus(StrEnum):
    """Whether a condition holds; the values that Kubernetes defines."""

    TRUE = "True"
    """The statement of the type holds."""
    FALSE = "False"
    """It does not hold."""
    UNKNOWN = "Unknown"
    """There is no evidence for either."""


class Condition(ApiModel):
    """One statement about the pipeline, with the generation of the spec that it is about."""

    type: ConditionType
    """What the statement is about."""
    status: ConditionStatus
    """Whether the statement is true: True, False or Unknown."""
    # Stricter than Kubernetes, which allows colons, commas and underscores: scripts compare words.
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=128)]
    """Why, as one CamelCase word for scripts."""
    message: Message = ""
    """Why, for a person, with what to do next."""
    last_transition_time: Timestamp
    """When `status` last changed."""
    observed_generation: Count | None = None
    """`metadata.generation` of the spec that this is about."""


def restate(
    before: Condition | None,
    *,
    kind: ConditionType,
    status: ConditionStatus,
    reason: str,
    message: str = "",
    generation: int | None,
    now: datetime,
) -> Condition:
    """Return the condition as it is `now`, with the time of `before` if its status is the same.

    before               at 12:05                  result
    Ready True 12:00     Ready True, new reason    Ready True 12:00, new reason
    Ready True 12:00     Ready False               Ready False 12:05
    -                    Stalled False             Stalled False 12:05
    """
    since = now
    # Of the status only, as Kubernetes defines it: a new reason is no transition.
    if before is not None and before.status == status:
        said = (before.reason, before.message, before.observed_generation)
        if said == (reason, message, generation):
            # Most of them, in most reconciles.
            return before
        since = before.last_transition_time
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=since,
        observed_generation=generation,
    )


ConditionList = Annotated[
    tuple[Condition, ...],
    # A map by type, as Kubernetes has conditions: patches find one by its type, wherever it is.
    Field(
        max_length=len(ConditionType),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
