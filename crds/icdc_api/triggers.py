"""What people ask a pipeline for once, as its status remembers it: by nonces, and by questions.

A question (`icdc plan NAME`, `icdc verify NAME`) is an annotation, because it is no part of what
the pipeline shall be: a tool that keeps the spec as it is in Git leaves annotations alone.
"""

import json
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from icdc_api.base import MAX_TABLES, ApiModel, Count, Flag, ShortText
from icdc_api.runs import Failure, ResyncMode, RunKind

AskedKind = Literal[RunKind.PLAN, RunKind.VERIFY, RunKind.REPAIR]


class Ask(ApiModel):
    """The value of the annotation icebergcdc.dev/ask, as JSON."""

    id: ShortText
    """Tells the question from every other one."""
    mode: AskedKind
    """Plan, Verify or Repair."""

    def to_annotation(self) -> str:
        """The text of the annotation."""
        return json.dumps(self.to_resource())

    @classmethod
    def of_annotation(cls, text: str | None) -> "Ask | None":
        """The question in an annotation; None for what is none."""
        if text is None:
            return None
        try:
            return cls.model_validate(json.loads(text))
        except (ValueError, RecursionError, ValidationError):
            return None


class ObservedAsk(ApiModel):
    """A question that was taken up. The answer is in the report of its run."""

    id: ShortText
    """`id` in the annotation."""
    run: ShortText
    """Name of the run that answers it."""
    finished: Flag = False
    """Whether the run has ended."""
    failure: Failure | None = None
    """Why there is no answer; absent when there is one."""


class ObservedResync(ApiModel):
    """The last resync that was asked for, as it was when its nonce was first acted on: what
    becomes of mode and tables in the spec afterwards changes nothing about it."""

    nonce: Count
    """`spec.resync.nonce`."""
    mode: ResyncMode
    """`spec.resync.mode` at that time."""
    tables: Annotated[tuple[ShortText, ...], Field(max_length=MAX_TABLES)] = ()
    """`spec.resync.tables` at that time; empty for all tables."""
    id: Count | None = None
    """Tells this request from every other one, also of the same nonce. Absent where the spec
    already had the nonce when it was seen first, such as after the status was lost: then a table
    that has honoured that nonce is not exported again."""


class ObservedTriggers(ApiModel):
    """The nonces of the spec that were already acted on."""

    restart_nonce: Count = 0
    """`spec.restartNonce` already acted on."""
    resync_nonce: Count = 0
    """`spec.resync.nonce` already acted on."""
    verified_nonce: Count = 0
    """`spec.resync.nonce` whose comparison was made or given up; see `Verified`."""
    resync: ObservedResync | None = None
    """The last resync that was asked for; absent when none was."""
