"""The parts of the state document, and the arithmetic of versions.

They have no rules of their own beyond their bounds; what may follow what is decided by
`icdc_spark.protocol.state_document`.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_SAMPLES = 20
SAMPLE_CHARACTERS = 128

VERSIONS_PER_ORDINAL = 1 << 20
"""An edit by somebody else moves a version by one and must not outrank the next batch."""
FIXUP_OFFSET = 1 << 19
"""Where the second pass of a batch (duplicate keys) writes within its ordinal."""


def base_version(ordinal: int) -> int:
    """The version of every document that the batch `ordinal` writes."""
    return ordinal * VERSIONS_PER_ORDINAL


Text = Annotated[str, Field(min_length=1, max_length=1024)]
Count = Annotated[int, Field(ge=0)]
SnapshotId = Annotated[str, Field(pattern=r"^-?[0-9]{1,19}$")]
Instant = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")]
Sample = Annotated[str, Field(max_length=SAMPLE_CHARACTERS)]


class Part(BaseModel):
    model_config = ConfigDict(
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
    """What an intent writes."""

    EXPORT = "Export"
    CHANGELOG = "Changelog"
    REPAIR = "Repair"


class Phase(StrEnum):
    """How far an intent has come; only an export swaps the alias."""

    WRITING = "Writing"
    SWAPPING = "Swapping"


class Owner(Part):
    """The run that may write; `pipeline` is namespace/name."""

    pipeline: Text
    epoch: Count
    run_id: Text


class Source(Part):
    """The table that the index follows."""

    table: Text
    uuid: Text
    branch: Text


class Applied(Part):
    """The snapshot that the index equals; a null id is the table before its first snapshot."""

    snapshot_id: SnapshotId | None
    sequence_number: Count
    committed_at: Instant | None
    ordinal: Count


class Shards(Part):
    """How far the primaries of an index had come; two lines however many shards there are."""

    histories: Text
    """A digest of the history UUIDs of all primaries, in the order of the shards."""
    max_seq_nos: Annotated[list[Annotated[int, Field(ge=-1)]], Field(min_length=1)]
    """The highest sequence number of each primary; -1 before its first write."""


class Intent(Part):
    """The one batch that may be partly written; after a crash it is repeated exactly."""

    kind: Annotated[IntentKind, Field(strict=False)]
    from_: Annotated[SnapshotId | None, Field(alias="from")]
    to: SnapshotId | None
    ordinal: Annotated[int, Field(ge=1)]
    index: Text
    index_uuid: Text
    phase: Annotated[Phase, Field(strict=False)] = Phase.WRITING
    chunks_total: Count = 1
    chunks_done: Count = 0
    rows: Count = 0
    miscounts: Count = 0
    """How many exports in a row, this one included, did not hold what was written into them."""
    shards: Shards | None = None
    """The new index of an export, as it was just before its documents were counted."""

    def same_work(self, other: "Intent") -> bool:
        """Whether both write the same thing, however far each has come."""
        progress = {"phase", "chunks_done", "rows", "miscounts", "shards"}
        return self.model_dump(exclude=progress) == other.model_dump(exclude=progress)


class Duplicates(Part):
    """Keys that occur more than once in the table; ids are cut to 128 characters."""

    count: Count
    samples: Annotated[list[Sample], Field(max_length=MAX_SAMPLES)]


class Totals(Part):
    """Writes since the table was first exported."""

    upserted: Count = 0
    deleted: Count = 0
    dead_letters: Count = 0

    def plus(self, other: "Totals") -> "Totals":
        """Sum of the first two; dead letters are a level, not a sum, so the newer one counts."""
        return Totals(
            upserted=self.upserted + other.upserted,
            deleted=self.deleted + other.deleted,
            dead_letters=other.dead_letters,
        )
