"""What the answer to one bulk item means. Pure: no I/O, no counting.

The versions decide (see `icdc_spark.state.VERSIONS_PER_ORDINAL`): a conflict with our own version
is a replay, one inside our ordinal is somebody else's edit, one beyond it a newer run's write.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from icdc_api.errors import Bug, Fenced, Gap
from icdc_spark.opensearch.connection import Connection
from icdc_spark.opensearch.errors import SHARD_TYPES, from_status, refuses_writes
from icdc_spark.opensearch.operations import DELETE
from icdc_spark.state import FIXUP_OFFSET, VERSIONS_PER_ORDINAL

_CONFLICT = re.compile(r"current version \[(\d+)\] is higher or equal to the one provided \[\d+\]")
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


def judge(answer: ItemAnswer, *, expect: bytes, version: int, connection: Connection) -> Verdict:
    """The verdict; raises what ends the batch: Fenced, Gap, TargetReadOnly, Unauthorized."""
    status, kind = answer.status, answer.kind
    if status < 300 or (status == 404 and expect == DELETE and not kind):
        return Verdict.APPLIED
    if kind == "index_not_found_exception":
        raise Gap("The index disappeared while it was written.")
    if refuses_writes(status, kind) or status in (401, 403):
        raise from_status(status, kind, connection)
    if status == 409:
        return judge_conflict(current_version(answer.reason), version)
    if status == 429 or status >= 500 or kind in SHARD_TYPES:
        return Verdict.RETRY
    return Verdict.REFUSED


def judge_conflict(current: int, version: int) -> Verdict:
    """The verdict on a conflict of our `version` with the document's `current` one."""
    base = version - version % VERSIONS_PER_ORDINAL
    if current in (version, base + FIXUP_OFFSET) and current >= version:
        return Verdict.ALREADY_APPLIED
    if current >= base + VERSIONS_PER_ORDINAL:
        raise Fenced("A document was written by a newer batch: another run feeds this index now.")
    return Verdict.FOREIGN_EDIT


def current_version(reason: str) -> int:
    """The document's version in the reason of a version conflict."""
    # The reason begins with the id, which may hold any text: the last match is the server's.
    found = _CONFLICT.findall(reason) or _OTHER_CONFLICT.findall(reason)
    if not found:
        raise Bug("OpenSearch reported a conflict without naming the current version.")
    return int(found[-1])
