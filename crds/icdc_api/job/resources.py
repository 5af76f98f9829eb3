"""What a run has used of stores and memory that have a limit, as its report says.

A run reports the most that it has seen of each kind, as a share of its limit, over all its tables
and processes, so that nothing here grows with tables. Kinds that a reader does not know are from
another version.
"""

from collections.abc import Sequence
from enum import StrEnum

from icdc_api.base import ApiModel, Count, ShortText


class ResourceKind(StrEnum):
    """Each has a limit in bytes."""

    STATE_DOCUMENT = "state_document"
    """The largest state document of a table."""
    STATE_INDEX = "state_index"
    """The index `icdc-state`, of all pipelines, with replaced documents that are still stored."""
    BULK_REQUESTS = "bulk_requests"
    """The memory of bulk requests that one task had under way, and its budget."""
    PYTHON_WORKER = "python_worker"
    """The memory of one Python worker, and what its container leaves to each core."""
    SCRATCH_VOLUME = "scratch_volume"
    """The fullest volume for shuffles and spills, with what others store there."""


class UsedResource(ApiModel):
    """The most that was used of one resource since the run began, as a share of its limit."""

    kind: ShortText
    """A `ResourceKind`."""
    used: Count
    """Bytes."""
    limit: Count
    """Bytes that there may be."""


def is_fuller(most: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether `most`, used bytes and their limit, is nearer to its limit than another.

    9 of 10 GB is fuller than 500 of 2,000 GB. Of a limit of 0 any use is more than all.
    """
    (used, limit), (other_used, other_limit) = most, other
    # Multiplied and not divided: a limit may be 0.
    return (used * other_limit, used) > (other_used * limit, other_used)
