"""What the answer to one bulk item means. Pure: no I/O, no counting.

The versions decide (see `VERSIONS_PER_ORDINAL` in `icdc_spark.protocol.state_document`): a
conflict with our own version is a replay, one inside our ordinal is somebody else's edit, one
beyond it a newer run's write.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from icdc_api.errors import Bug, Fenced, Gap, TargetInvalid
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.errors import SHARD_TYPES, from_status, refuses_writes
from icdc_spark.opensearch.wire.operations import DELETE
from icdc_spark.protocol.state_document import FIXUP_OFFSET, VERSIONS_PER_ORDINAL

_CONFLICT = re.compile(r"current version \[(\d+)\] is higher or equal to the one provided \[\d+\]")
DROPPED = "dropped by an ingest pipeline"
"""Stands for the error type of an item that the server answered with success and did not write."""
_KINDS_OF_THE_TARGET = frozenset(
    {DROPPED, "routing_missing_exception", "strict_dynamic_mapping_exception"}
)
"""Error types that no row can cause: a document holds the fields of the mapping that we made."""
_REASONS_OF_THE_TARGET = (
    "pipeline with id [",
    "Limit of total fields [",
    "Limit of mapping depth [",
    "Limit of nested fields [",
    "mapping set to strict, dynamic introduction of [",
)
"""How reasons begin that no row can cause; they name fields and pipelines, never values."""
_MAX_REASON = 200
_OTHER_CONFLICT = re.compile(r"current version \[(\d+)\]")


class Verdict(Enum):
    """What became of one operation."""

    APPLIED = auto()
    ALREADY_APPLIED = auto()
    FOREIGN_EDIT = auto()
    RETRY = auto()
    REFUSED = auto()


@dataclass(frozen=True)
class ItemAnswer:
    """The status of one item, and the type and reason of its error (empty when it has none)."""

    status: int
    kind: str = ""
    reason: str = ""


def judge(
    answer: ItemAnswer,
    *,
    expect: bytes,
    version: int,
    connection: Connection,
    outranked_is_foreign: bool = False,
) -> Verdict:
    """The verdict; raises what ends the batch: Fenced, Gap, TargetReadOnly, TargetInvalid, …"""
    status, kind = answer.status, answer.kind
    if _is_of_the_target(answer):
        raise _target_invalid(answer)
    if status < 300 or (status == 404 and expect == DELETE and not kind):
        return Verdict.APPLIED
    if kind == "index_not_found_exception":
        raise Gap("The index disappeared while it was written.")
    if refuses_writes(status, kind) or status in (401, 403):
        raise from_status(status, kind, connection, reason=answer.reason)
    if status == 409:
        current = current_version(answer.reason)
        return judge_conflict(current, version, outranked_is_foreign=outranked_is_foreign)
    if status == 429 or status >= 500 or kind in SHARD_TYPES:
        return Verdict.RETRY
    if status == 404:
        raise _target_invalid(answer)
    return Verdict.REFUSED


def _is_of_the_target(answer: ItemAnswer) -> bool:
    return answer.kind in _KINDS_OF_THE_TARGET or (
        answer.status < 500 and answer.reason.startswith(_REASONS_OF_THE_TARGET)
    )


def _target_invalid(answer: ItemAnswer) -> TargetInvalid:
    named = answer.reason.startswith(_REASONS_OF_THE_TARGET)
    detail = f": {answer.reason[:_MAX_REASON]}" if named else ""
    return TargetInvalid(
        f"The index does not take documents for a reason that is not in the rows ({answer.kind}"
        f"{detail}). Nothing was removed. Undo the change of its mapping, settings or pipeline, or "
        "raise spec.resync.nonce for a new index."
    )


def judge_conflict(current: int, version: int, *, outranked_is_foreign: bool = False) -> Verdict:
    """The verdict on a conflict of our `version` with the document's `current` one.

    A version beyond our ordinal is a newer run's, unless the caller knows that there is none and it
    is none that our batches have: then the state document is older than the index.
    """
    base = version - version % VERSIONS_PER_ORDINAL
    if current in (version, base + FIXUP_OFFSET) and current >= version:
        return Verdict.ALREADY_APPLIED
    if current >= base + VERSIONS_PER_ORDINAL and (_is_ours(current) or not outranked_is_foreign):
        raise Fenced("A document was written by a newer batch: another run feeds this index now.")
    return Verdict.FOREIGN_EDIT


def _is_ours(version: int) -> bool:
    """Whether a batch writes documents, settles them, or removes them with such a version."""
    return version % VERSIONS_PER_ORDINAL in (0, FIXUP_OFFSET, VERSIONS_PER_ORDINAL - 1)


def current_version(reason: str) -> int:
    """The document's version in the reason of a version conflict."""
    # The reason begins with the id, which may hold any text: the last match is the server's.
    found = _CONFLICT.findall(reason) or _OTHER_CONFLICT.findall(reason)
    if not found:
        raise Bug("OpenSearch reported a conflict without naming the current version.")
    return int(found[-1])
