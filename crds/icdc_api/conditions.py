"""Conditions of a pipeline in the shape that kubectl, kstatus and Argo CD expect.

Knows the form and the rule for `lastTransitionTime`; which condition holds when is decided by
the operator.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from icdc_api.base import ApiModel, Count, Message, Timestamp, to_milliseconds


class ConditionType(StrEnum):
    """Every condition of a pipeline."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    SPEC_VALID = "SpecValid"
    EXPORTED = "Exported"
    RUN_ACTIVE = "RunActive"
    CAUGHT_UP = "CaughtUp"
    SUSPENDED = "Suspended"
    SNAPSHOTS_PINNED = "SnapshotsPinned"
    DEAD_LETTERS = "DeadLetters"
    VERIFIED = "Verified"


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """One statement about the pipeline, with the generation of the spec that it is about."""

    type: ConditionType
    """What the statement is about."""
    status: ConditionStatus
    """Whether it holds."""
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=128)]
    """Why, as one CamelCase word for scripts."""
    message: Message = ""
    """Why, for a person, with what to do next."""
    last_transition_time: Timestamp
    """When `status` last changed."""
    observed_generation: Count | None = None
    """`metadata.generation` of the spec that this is about."""


def keep_transition_times(
    old: Iterable[Condition], new: Iterable[Condition], *, now: datetime
) -> tuple[Condition, ...]:
    """`new`, in order; the time of a condition whose status did not change is that of `old`."""
    before = {condition.type: condition for condition in old}
    result: list[Condition] = []
    for condition in new:
        earlier = before.get(condition.type)
        same = earlier is not None and earlier.status == condition.status
        moment = (
            earlier.last_transition_time if earlier is not None and same else to_milliseconds(now)
        )
        result.append(condition.model_copy(update={"last_transition_time": moment}))
    return tuple(result)


ConditionList = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=len(ConditionType),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
