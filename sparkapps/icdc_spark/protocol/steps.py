"""What a table may do next, and all that this is decided from. Values without behaviour.

Which step follows is decided by `icdc_spark.protocol.next_step`.
"""

from dataclasses import dataclass
from enum import StrEnum

from icdc_spark.protocol.state_document import Intent, StateDocument


class StepKind(StrEnum):
    """The kinds of steps."""

    IDLE = "Idle"
    """Nothing to write: the index equals the current snapshot."""
    EXPORT = "Export"
    """Write all rows of a snapshot into a new index."""
    BEGIN = "Begin"
    """Create an empty index, from which on changes are applied (StreamOnly)."""
    REPLAY = "Replay"
    """Repeat the open intent exactly."""
    CHANGELOG = "Changelog"
    """Write the difference of two snapshots."""
    ROLLBACK = "Rollback"
    """Switch readers back to an earlier index, or note that this means nothing."""
    COMPLETE = "Complete"
    """Nothing to write ever again (ExportOnly)."""
    WAIT = "Wait"
    """Nothing may be written before exports may, see `export_wait`."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step."""

    kind: StepKind
    """What to do."""
    from_id: str | None = None
    """The snapshot that the index equals before; None for exports and the empty table."""
    to_id: str | None = None
    """The snapshot that the index will equal; None for the empty table."""
    intent: Intent | None = None
    """The open intent to replay; None for any other step."""
    index: str | None = None
    """The index that readers get again; None if a rollback leaves them where they are."""
    export_waits: bool = False
    """True if an export is due that may not write yet."""
    reason: str = ""
    """Why this and not the next cheaper one, as a clause for events and `icdc plan`."""


@dataclass(frozen=True, kw_only=True)
class StepInputs:
    """All that the decision is made from; snapshot ids are strings, None is the empty table."""

    state: StateDocument | None
    """The state document; None where there is none."""
    table: str
    """The table's name, for messages."""
    table_uuid: str
    """The table's UUID now."""
    head: str | None
    """The current snapshot of the branch."""
    last_sequence_number: int
    """The highest sequence number that the table's metadata has given; 0 in format 1."""
    start: str | None
    """The snapshot at which StreamOnly begins; ignored otherwise."""
    document_spec: str
    """A hash of how documents are made now."""
    spec_change: str | None
    """Why documents already written would differ under the present spec; None if they would not."""
    readable: frozenset[str]
    """The snapshots that can still be read."""
    index_loss: str | None
    """Why index and state document do not belong together any more; None if they do."""
    is_trusted: bool = True
    """False if the state document may be an older copy, so that any index may be missing in it."""
    rollback_refusal: str | None = None
    """Why readers cannot be switched back, as a clause; None if they can, or nobody asks for it."""
