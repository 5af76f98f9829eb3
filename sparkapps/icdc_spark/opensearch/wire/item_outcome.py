"""Judges the answer to one bulk item. Pure: no I/O, no counting.

status, error                              outcome
200, 201; 404 of a delete                  APPLIED
409, our version                           ALREADY_APPLIED: the batch is repeated
409, the version of our second pass        SETTLED: the same, and a second pass came after it
409, another version                       FOREIGN_EDIT or Fenced, see `judge_conflict`
429, 5xx, a shard that moves               RETRY
400 and other errors of the row            REFUSED: a dead letter
dropped or refused whatever the row        raises TargetInvalid
404, index_not_found_exception             raises Gap
a block; 401, 403                          raises TargetReadOnly, Unauthorized
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from icdc_api.errors import Bug, Fenced, Gap, TargetInvalid
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.error_answers import SHARD_TYPES, refuses_writes
from icdc_spark.opensearch.client.target_errors import from_status
from icdc_spark.opensearch.wire.operations import DELETE
from icdc_spark.protocol.state_document import FIXUP_OFFSET, VERSIONS_PER_ORDINAL

DROPPED = "dropped by an ingest pipeline"
"""Stands for the error type of an item that the server answered with success and did not write."""
FIELD_FAILED = "field_expression_failed"
"""Stands for the error type of a row that is never sent, since it has no document."""
_KINDS_OF_THE_TARGET = frozenset(
    {DROPPED, "routing_missing_exception", "strict_dynamic_mapping_exception"}
)
"""Error types that no row can cause: a document holds the fields of the mapping that we made."""
_FULL_SHARD = "Number of documents in shard ["
STRICT_REASON = "mapping set to strict, dynamic introduction of ["
_REASONS_OF_THE_TARGET = (
    "pipeline with id [",
    "Limit of total fields [",
    "Limit of mapping depth [",
    "Limit of nested fields [",
    _FULL_SHARD,
    STRICT_REASON,
)
"""Beginnings of reasons that no row can cause; they name fields and pipelines, never values."""
_MISSING_PIPELINE = "Pipeline processor configured for non-existent pipeline ["
"""Beginning of the reason for a pipeline within a pipeline, which comes with status 500."""
_FAILED_PROCESSOR = "fail_processor_exception"
"""Error type of the processor that fails on purpose, for a row that it refuses: with status 500."""
_MAX_REASON = 200
_CONFLICT = re.compile(r"current version \[(\d+)\] is higher or equal to the one provided \[\d+\]")
_OTHER_CONFLICT = re.compile(r"current version \[(\d+)\]")
"""The wording for other kinds of versions, such as that of a document deleted meanwhile."""


class ItemOutcome(Enum):
    """What became of one operation."""

    APPLIED = auto()
    """Written or deleted just now."""
    ALREADY_APPLIED = auto()
    """Written or deleted by the same batch: by an earlier attempt, or for a row with that key."""
    SETTLED = auto()
    """The same, and written once more by the second pass of that attempt."""
    FOREIGN_EDIT = auto()
    """Left alone: somebody else has edited the document."""
    RETRY = auto()
    """Not applied, and worth another attempt."""
    REFUSED = auto()
    """Never to be taken: the row does not fit the index."""


@dataclass(frozen=True)
class ItemAnswer:
    """The answer to one item."""

    status: int
    """HTTP status of the item."""
    kind: str = ""
    """Type of its error; empty where it has none."""
    reason: str = ""
    """Reason of its error, which may quote the row: never for logs or status."""


def judge(
    answer: ItemAnswer,
    *,
    expect: bytes,
    version: int,
    connection: Connection,
    outranked_is_foreign: bool = False,
) -> ItemOutcome:
    """Return the outcome of an operation that was sent with `expect` and `version`.

    Raises what ends the batch: Fenced, Gap, TargetReadOnly, TargetInvalid, Unauthorized.
    """
    status, kind = answer.status, answer.kind
    if _is_of_the_target(answer):
        raise _build_target_invalid(answer)
    # A delete of what is not there is answered with 404 and no error: it was deleted before.
    if status < 300 or (status == 404 and expect == DELETE and not kind):
        return ItemOutcome.APPLIED
    if kind == "index_not_found_exception":
        raise Gap("The index disappeared while it was written.")
    # Before 429 and 5xx: a block of a full disk comes with 429, and waiting does not lift it.
    if refuses_writes(status, kind) or status in (401, 403):
        raise from_status(status, kind, connection, reason=answer.reason)
    if status == 409:
        current = parse_current_version(answer.reason)
        return judge_conflict(current, version, outranked_is_foreign=outranked_is_foreign)
    if kind == _FAILED_PROCESSOR:
        return ItemOutcome.REFUSED
    # Some errors of a moving shard are answered with 404: their type says so.
    if status == 429 or status >= 500 or kind in SHARD_TYPES:
        return ItemOutcome.RETRY
    # No fault of the row: were it refused, the older document of its key would be removed.
    if status == 404:
        raise _build_target_invalid(answer)
    return ItemOutcome.REFUSED


def judge_conflict(
    current: int, version: int, *, outranked_is_foreign: bool = False
) -> ItemOutcome:
    """Return the outcome of a write with `version` where the document has `current`.

    Example, batch 3: its versions are from B, the base version of 3, to below N, that of 4.

        ours   current                    outcome
        B      B                          ALREADY_APPLIED: a replay
        B      B + FIXUP_OFFSET           SETTLED: a replay, and the second pass came after it
        B      B + 1                      FOREIGN_EDIT: an edit adds one
        B      N                          raises Fenced: a newer run's batch
        B      N + 7                      raises Fenced, FOREIGN_EDIT with `outranked_is_foreign`

    With `outranked_is_foreign` the caller knows that there is no newer run. A version that a batch
    of ours could have stays Fenced: then the state document is older than the index.
    """
    base = version - version % VERSIONS_PER_ORDINAL
    if current == version:
        return ItemOutcome.ALREADY_APPLIED
    # The second pass outranks the first: a late write of the first must not undo it.
    if current == base + FIXUP_OFFSET:
        return ItemOutcome.SETTLED
    if current >= base + VERSIONS_PER_ORDINAL and (
        _is_of_a_batch(current) or not outranked_is_foreign
    ):
        raise Fenced("A document was written by a newer batch: another run feeds this index now.")
    return ItemOutcome.FOREIGN_EDIT


def parse_current_version(reason: str) -> int:
    """Return the document's version that the reason of a version conflict names."""
    # The reason begins with the id, which may hold any text: the last match is the server's.
    versions = _CONFLICT.findall(reason) or _OTHER_CONFLICT.findall(reason)
    if not versions:
        raise Bug("OpenSearch reported a conflict without naming the current version.")
    return int(versions[-1])


def _is_of_a_batch(version: int) -> bool:
    """True if a batch writes, settles or removes documents with such a version.

    The last of an ordinal is that of dead letters of the next batch, and of its removals.
    """
    return version % VERSIONS_PER_ORDINAL in (0, FIXUP_OFFSET, VERSIONS_PER_ORDINAL - 1)


def _is_of_the_target(answer: ItemAnswer) -> bool:
    """True if the fault is in the index, whatever the row."""
    if answer.reason.startswith(_MISSING_PIPELINE):
        return True
    return answer.kind in _KINDS_OF_THE_TARGET or (
        answer.status < 500 and answer.reason.startswith(_REASONS_OF_THE_TARGET)
    )


def _build_target_invalid(answer: ItemAnswer) -> TargetInvalid:
    named = answer.reason.startswith((*_REASONS_OF_THE_TARGET, _MISSING_PIPELINE))
    detail = f": {answer.reason[:_MAX_REASON]}" if named else ""
    advice = (
        "Raise indexSettings.number_of_shards, then spec.resync.nonce for a new index."
        if answer.reason.startswith(_FULL_SHARD)
        else "Undo the change of its mapping, settings or ingest pipeline, or raise "
        "spec.resync.nonce for a new index."
    )
    return TargetInvalid(
        f"The index refuses documents for a reason that is not in the rows ({answer.kind}"
        f"{detail}). Nothing was removed. {advice}"
    )
