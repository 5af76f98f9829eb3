"""`spec.verify`: how often the operator compares each table with its index by itself."""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from icdc_api.base import ApiModel
from icdc_api.problems import build_refusal

LEAST, GREATEST = timedelta(minutes=10), timedelta(days=365)
DEFAULT_MAX_CPU = 0.5
DURATION_FORM = r"^([1-9][0-9]{0,5}[mhd])?$"
DURATION_RULE = (
    "it must be a number with the unit m, h or d, from 10m to 365d, such as 24h; empty: never"
)
UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class OnDifference(StrEnum):
    """What to do where index and table differ."""

    REPORT = "Report"  # condition, Event and alert
    REPAIR = "Repair"  # also correct the documents that differ


def parse_duration(text: str) -> timedelta:
    """Return the duration that a checked text stands for, such as a day of "24h"."""
    return int(text[:-1]) * UNITS[text[-1]]


def _check_form(value: object) -> object:
    # Before the pattern, whose own message would show a regular expression.
    if isinstance(value, str) and not re.fullmatch(DURATION_FORM, value):
        raise build_refusal(value, DURATION_RULE)
    return value


def _check_bounds(value: str) -> str:
    if value and not LEAST <= parse_duration(value) <= GREATEST:
        raise build_refusal(value, DURATION_RULE)
    return value


Duration = Annotated[
    str,
    Field(pattern=DURATION_FORM, max_length=7),
    BeforeValidator(_check_form),
    AfterValidator(_check_bounds),
]


class RollingProof(ApiModel):
    """Compares every table with its index, again and again."""

    # None and not a default, in each of them: an older image refuses a field it does not know.
    every: Duration | None = None
    """Each table is compared again within this time: a number with the unit m, h or d, from 10m to
    365d. Replication comes first, until nine tenths of it are over; with trigger OnCommit, commits
    and questions wait for the end of a comparison that has begun. With mode ExportOnly each
    comparison renews the tag of the exported snapshot (changelog.pinSnapshots); without a tag, or
    with more than 30d, it has a result as long as the table retains that snapshot. Default empty:
    never."""
    max_cpu: Annotated[float, Field(strict=True, ge=0.1, le=512)] | None = None
    """CPU limit of the one executor of such a run; its driver is as in spark.driver. Default 0.5.
    Without effect with trigger Continuous, where the run that follows the tables compares."""
    on_difference: OnDifference | None = None
    """Report: condition Verified, Event and alert. Repair: also correct what differs. Default
    Report."""

    @property
    def interval(self) -> timedelta | None:
        """The time within which each table is compared again; None for never."""
        return parse_duration(self.every) if self.every else None
