"""The parts of the state document, and the arithmetic of versions.

They have no rules of their own beyond their bounds; what may follow what is decided by
`icdc_spark.protocol.state_document`.

Each batch has an ordinal, and its ordinal a range of external versions. Example, ordinals 2 and 3,
with V = VERSIONS_PER_ORDINAL = 1,048,576:

    version             in numbers    written by
    2 V                 2097152       documents of batch 2
    2 V + 1, ...        2097153       edits by somebody else: each adds one
    2 V + V / 2         2621440       the second pass of batch 2, for duplicate keys (FIXUP_OFFSET)
    3 V - 1             3145727       dead letters of batch 3, and the removal of older documents
    3 V                 3145728       documents of batch 3: above all of that

So a later batch wins over an earlier one, and over edits, in whatever order requests arrive.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

# Bounds like these hold the document below `MAX_BYTES` of `stored_fields`, whatever the table.
MAX_SAMPLES = 20
MAX_NODES = 100
"""Nodes of the cluster that are recorded; of a larger cluster not all are."""
SAMPLE_CHARACTERS = 128

VERSIONS_PER_ORDINAL = 1 << 20
"""An edit by somebody else adds one to a version, so a million of them do not outrank the next
batch. 2^43 ordinals are left below OpenSearch's greatest version."""
FIXUP_OFFSET = 1 << 19
"""The second pass of a batch writes this far above the first; half of the range is left to edits
of either."""


def compute_base_version(ordinal: int) -> int:
    """Return the version of every document that the batch `ordinal` writes."""
    return ordinal * VERSIONS_PER_ORDINAL


Text = Annotated[str, Field(min_length=1, max_length=1024)]
Count = Annotated[int, Field(ge=0)]
SnapshotId = Annotated[str, Field(pattern=r"^-?[0-9]{1,19}$")]
Instant = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")]
NodeId = Annotated[str, Field(min_length=1, max_length=64)]
Processes = Annotated[dict[NodeId, Count], Field(max_length=MAX_NODES)]
"""The mark of the process of each node, see `icdc_spark.opensearch.client.nodes`."""
Sample = Annotated[str, Field(max_length=SAMPLE_CHARACTERS)]


class Part(BaseModel):
    """A part of the document: unknown fields are refused, names in JSON are in camel case."""

    model_config = ConfigDict(
        # Else pydantic takes "3" and 3.0 for counts: no document of ours holds these.
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


MAX_MISCOUNTS = 2
"""After so many miscounts in a row an export is not begun anew, until somebody asks for it."""


class IntentKind(StrEnum):
    """The work of an intent."""

    EXPORT = "Export"
    """All rows of a snapshot, into a new index."""
    CHANGELOG = "Changelog"
    """The difference of two snapshots, into the current index."""
    REPAIR = "Repair"
    """Documents that a comparison found to differ, into the current index."""


class IntentPhase(StrEnum):
    """The progress of an intent."""

    WRITING = "Writing"
    """Documents are being written."""
    SWAPPING = "Swapping"
    """All documents are written and counted, and the alias may move. Of exports alone."""


class Owner(Part):
    """The run that may write."""

    pipeline: Text
    """The pipeline, as namespace/name."""
    epoch: Count
    """Grows from run to run; a run with a lower epoch than the stored one is fenced."""
    run_id: Text
    """The run, as in its request."""


class SourceTable(Part):
    """The table that the index follows."""

    table: Text
    """Its name in the catalog."""
    uuid: Text
    """Its UUID: another one means that the table was dropped and created again."""
    branch: Text
    """The branch whose snapshots are applied."""


class Applied(Part):
    """The snapshot that the index equals."""

    snapshot_id: SnapshotId | None
    """Its id; null is the table before its first snapshot."""
    sequence_number: Count
    """Its sequence number; 0 before the first snapshot."""
    committed_at: Instant | None
    """The time of its commit."""
    ordinal: Count
    """The batch that brought the index there."""


class Shards(Part):
    """The progress of the primaries of an index; small however many shards there are."""

    histories: Text
    """A digest of the history UUIDs of all primaries, in the order of the shards."""
    max_seq_nos: Annotated[list[Annotated[int, Field(ge=-1)]], Field(min_length=1)]
    """The highest sequence number of each primary; -1 before its first write."""

    @property
    def operations(self) -> int:
        """The sequence numbers that the primaries have given: (14, -1) are 15 and none."""
        return sum(self.max_seq_nos) + len(self.max_seq_nos)


class RetainedIndex(Part):
    """An index that readers used before, as it was when the pipeline stopped writing it.

    Small, as several of them are stored: of its shards there is one digest and one sum.
    """

    index: Text
    """Its name."""
    index_uuid: Text | None
    """Its UUID."""
    histories: Text | None
    """A digest of the history UUIDs of its primaries; None where its content was not known."""
    operations: Count
    """The sequence numbers that its primaries had given, in all."""
    source: SourceTable
    """The table that it followed."""
    document_spec: Text
    """A hash of how its documents were made of rows."""
    applied: Applied
    """The snapshot that it equals."""
    duplicates: Count
    """Keys that several rows of that snapshot have."""
    problem: Text | None = None
    """Why readers are not switched back to it, as a clause; None if they can be."""


class Intent(Part):
    """The one batch that may be partly written; after a crash it is repeated exactly."""

    # Not strict, as `phase` below: from JSON comes text, and a strict enum takes members alone.
    kind: Annotated[IntentKind, Field(strict=False)]
    """The work."""
    from_: Annotated[SnapshotId | None, Field(alias="from")]
    """The snapshot that the index equals before it; null for exports."""
    to: SnapshotId | None
    """The snapshot that the index will equal; null is the table before its first snapshot."""
    ordinal: Annotated[int, Field(ge=1)]
    """Its number, from which the versions of its documents are made; never used twice."""
    index: Text
    """The physical index that it writes."""
    index_uuid: Text
    """The UUID of that index."""
    phase: Annotated[IntentPhase, Field(strict=False)] = IntentPhase.WRITING
    """Its progress."""
    chunks_total: Count = 1
    """The chunks of an export; 0 where it only makes the index."""
    cut: Text | None = None
    """How the snapshot was cut into these chunks; None where there are none, and in documents of
    older versions."""
    chunks_done: Count = 0
    """The chunks that are written whole; a restart goes on with the next one."""
    rows: Count = 0
    """Rows in those chunks: documents and dead letters."""
    miscounts: Count = 0
    """Exports in a row, this one included, that did not hold what was written into them."""
    shards: Shards | None = None
    """The new index of an export, as it was just before its documents were counted."""
    nodes: Processes = Field(default_factory=dict)
    """The nodes that its requests may be inside; none in documents of older versions."""

    @property
    def omits_rows(self) -> bool:
        """True if it makes an index for a snapshot without its rows (StreamOnly)."""
        # The export of a snapshot without files has no chunks either, and says how it was cut.
        made_only = self.kind is IntentKind.EXPORT and not self.chunks_total and self.cut is None
        return made_only and self.to is not None

    def has_same_work(self, other: "Intent") -> bool:
        """Return whether both write the same documents, whatever their progress."""
        # By what is left out: a field that is added later is work, unless it is named here too.
        progress = {"phase", "chunks_done", "rows", "miscounts", "shards", "nodes"}
        return self.model_dump(exclude=progress) == other.model_dump(exclude=progress)


class AbsentNode(Part):
    """A node that left the cluster while requests of a batch may have been inside it."""

    node: NodeId
    """Its id, which it has again after a restart."""
    process: Count
    """The mark of its process, which is another one after a restart."""
    left_at: Instant
    """When it was found missing."""
    returned: bool = False
    """True once that very process was seen in the cluster again."""


class RecordedDuplicates(Part):
    """Keys that occur more than once in the table."""

    count: Count
    """The number of such keys."""
    samples: Annotated[list[Sample], Field(max_length=MAX_SAMPLES)]
    """The document ids of some of them, each cut to 128 characters."""


class Totals(Part):
    """Writes since the table was first exported."""

    upserted: Count = 0
    """Documents written."""
    deleted: Count = 0
    """Documents deleted."""
    dead_letters: Count = 0
    """Dead letters that there were after the last batch."""

    def add(self, other: "Totals") -> "Totals":
        """Return the totals after the batch `other`."""
        # Dead letters are a level, not a sum: resolved ones have left the index.
        return Totals(
            upserted=self.upserted + other.upserted,
            deleted=self.deleted + other.deleted,
            dead_letters=other.dead_letters,
        )
