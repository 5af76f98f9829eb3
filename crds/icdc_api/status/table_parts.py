"""Parts of a table's status: progress of its export, the last batch, duplicates, a comparison.

Each is a copy for people; the progress itself is in OpenSearch.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from icdc_api.base import ApiModel, Clipped, Count, Flag, SnapshotId, Timestamp

GAP_CAUSE = "gap: "
"""How the message of a table begins that is exported anew because changes are lost."""

MAX_SAMPLES = 20  # of one table: document ids, from which a person finds the cause


class TableState(StrEnum):
    """State of a table, and so who acts next."""

    PENDING = "Pending"
    """Nothing is written yet. The next run exports it."""
    EXPORTING = "Exporting"
    """A new index is being filled."""
    STREAMING = "Streaming"
    """The index follows the table."""
    COMPLETE = "Complete"
    """Exported, and the mode is ExportOnly. Nobody acts."""
    STALLED = "Stalled"
    """It does not advance. The reason says whether it is retried or a person must act."""


class LastBatch(ApiModel):
    """Cost of the last batch: of a changelog, or of one wave of an export."""

    from_snapshot_id: SnapshotId | None = None
    """Snapshot that the index equalled before; absent for an export."""
    to_snapshot_id: SnapshotId | None = None
    """Snapshot that was applied or is exported."""
    at: Timestamp
    """When it was complete."""
    upserted: Count = 0
    """Documents written."""
    deleted: Count = 0
    """Documents deleted."""
    refused: Count = 0
    """Rows that became dead letters."""
    non_finite: Count | None = None
    """NaN and infinite numbers of the documents written, which JSON does not have: in an index they
    are null; absent where there were none."""
    files_bytes: Count = 0
    """Compressed bytes of the files read."""
    request_bytes: Count = 0
    """Bytes sent."""
    requests: Count = 0
    """Bulk requests, repeated ones included."""
    retries: Count = 0
    """Requests that were repeats."""
    throttled: Count = 0
    """Answers with status 429."""
    planning_millis: Count = 0
    """Milliseconds to find the files that differ."""
    writing_millis: Count = 0
    """Milliseconds to read, compare and write."""
    waiting_millis: Count = 0
    """Milliseconds that all tasks together waited for answers of OpenSearch."""
    limited_millis: Count | None = None
    """Milliseconds that all tasks together waited for sink.opensearch.limits; absent where they
    did not."""


class ExportProgress(ApiModel):
    """Progress of the export of one snapshot."""

    snapshot_id: SnapshotId | None = None
    """Snapshot that is exported; absent while the table is empty."""
    chunks_total: Count = 0
    """Chunks of the export; one chunk is the unit that a restart repeats."""
    chunks_done: Count = 0
    """Chunks whose rows are all in the new index."""
    rows: Count = 0
    """Rows written so far."""
    rows_total: Count | None = None
    """Rows of the snapshot by its metadata, for an estimate; absent when unknown."""
    rows_per_second: Count | None = None
    """Rows that the last run of the export wrote in a second; absent before it has written any."""
    estimated_end: Timestamp | None = None
    """When all rows will be written at that rate; absent when unknown."""
    repeats: Count | None = None
    """Indices before this one that did not hold what was written into them; absent for none."""


class Duplicates(ApiModel):
    """Keys that occur in more than one row of a snapshot; one row of each is the document."""

    count: Count = 0
    """Keys seen more than once."""
    samples: Annotated[tuple[Clipped, ...], Field(max_length=MAX_SAMPLES)] = ()
    """Document ids of some of them, at most 20."""


class Verification(ApiModel):
    """Result of the last comparison of index and table; a new export clears it."""

    nonce: Count | None = None
    """`spec.resync.nonce` that asked for it."""
    at: Timestamp
    """When its answer was recorded."""
    snapshot_id: SnapshotId | None = None
    """Snapshot that the index was compared with; absent for an empty table."""
    equal: Flag | None = None
    """Whether index and table were equal, before anything was repaired; absent when they could
    not be compared: see `reason`."""
    rows: Count | None = None
    """Documents that the index must have by the rows of the table."""
    documents: Count | None = None
    """Documents in the index."""
    missing: Count | None = None
    """Documents missing from the index."""
    extra: Count | None = None
    """Documents of the index without a row."""
    different: Count | None = None
    """Documents that differed from their rows."""
    refused: Count | None = None
    """Rows without a document that are dead letters: no difference."""
    repaired: Count | None = None
    """Documents that were written or deleted to repair it; not compared again since."""
    samples: Annotated[tuple[Clipped, ...], Field(max_length=MAX_SAMPLES)] = ()
    """Some of the document ids, each behind `missing`, `extra` or `different`; at most 20."""
    reason: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=128)] | None = None
    """Why they could not be compared."""
    message: Clipped | None = None
    """Why, for a person."""
