"""One-time requests to a pipeline, as its status records them: nonces, and questions.

A question (`icdc plan`, `verify` and `dead-letters` with a NAME) is an annotation, because it is no
part of the desired state: a GitOps tool that keeps the spec as it is in Git leaves annotations
alone.
"""

import json
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from icdc_api.base import MAX_TABLES, ApiModel, Count, Flag, ShortText
from icdc_api.errors import BadSpec
from icdc_api.status.runs import Failure, ResyncMode, RunKind

# Not Export, Changelog and Deletion: those follow from the spec, and no annotation may start them.
AskedKind = Literal[
    RunKind.PLAN, RunKind.VERIFY, RunKind.REPAIR, RunKind.DEAD_LETTERS, RunKind.REPLAY
]

MAX_ASKED_IDS = 1000
"""Document ids in one question. An id has at most 512 bytes, and all annotations of an object
together at most 256 KiB: see `Ask.to_annotation` for what really fits."""

MAX_ASK_BYTES = 100_000
"""Of the annotation: the rest of the 256 KiB belongs to other annotations of the pipeline."""


class Ask(ApiModel):
    """The value of the annotation icebergcdc.dev/ask, as JSON."""

    id: ShortText
    """Identifies the question."""
    mode: AskedKind
    """Plan, Verify, Repair, DeadLetters or Replay."""
    tables: Annotated[tuple[ShortText, ...], Field(min_length=1, max_length=MAX_TABLES)] | None = (
        None
    )
    """Names of the tables that DeadLetters and Replay are about; absent for all."""
    # Not `Clipped`, as samples in the status are: a shortened id would name no document.
    ids: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_ASKED_IDS)] | None = None
    """Document ids that DeadLetters and Replay are about; absent for all."""
    documents: Flag | None = None
    """Whether DeadLetters answers with the refused documents, which hold values of rows."""

    def to_annotation(self) -> str:
        """Return the text of the annotation. BadSpec where it does not fit beside others."""
        text = json.dumps(self.to_resource())
        size = len(text.encode())
        if size > MAX_ASK_BYTES:
            raise BadSpec(
                f"the question has {size} bytes, and an annotation takes {MAX_ASK_BYTES}: ask for "
                "fewer ids at a time"
            )
        return text

    @classmethod
    def of_annotation(cls, text: str | None) -> "Ask | None":
        """Return the question in the text of an annotation; None if it cannot be read."""
        if text is None:
            return None
        # RecursionError: thousands of open brackets are little text, and too deep for the parser.
        # Anyone who may edit the pipeline writes this text: damage means that nothing is asked.
        try:
            return cls.model_validate(json.loads(text))
        except (ValueError, RecursionError, ValidationError):
            return None


class ObservedAsk(ApiModel):
    """A question for which a run was planned. The answer is in the report of that run."""

    id: ShortText
    """`id` in the annotation."""
    run: ShortText
    """Name of the run that answers it."""
    finished: Flag = False
    """Whether the run has ended."""
    failure: Failure | None = None
    """Why there is no answer; absent when there is one."""


class ObservedResync(ApiModel):
    """The last requested resync, as it was when its nonce was first acted on. Later changes of mode
    and tables in the spec do not matter."""

    nonce: Count
    """`spec.resync.nonce`."""
    mode: ResyncMode
    """`spec.resync.mode` at that time."""
    tables: Annotated[tuple[ShortText, ...], Field(max_length=MAX_TABLES)] = ()
    """`spec.resync.tables` at that time; empty for all tables."""
    id: Count | None = None
    """Identifies this request among those with the same nonce. Absent where the spec already had
    the nonce when it was first read, such as after the status was lost: then a table that was
    already exported for that nonce is not exported again."""


class ObservedTriggers(ApiModel):
    """The nonces of the spec that were acted on."""

    restart_nonce: Count = 0
    """`spec.restartNonce` as last acted on."""
    resync_nonce: Count = 0
    """`spec.resync.nonce` as last acted on."""
    verified_nonce: Count = 0
    """`spec.resync.nonce` whose comparison has finished or was given up; see `Verified`."""
    resync: ObservedResync | None = None
    """The last requested resync; absent when there was none."""
