"""Forms in which a state document records snapshots and times. Pure."""

from datetime import UTC, datetime

from icdc_spark.iceberg.table.tables import SnapshotInfo
from icdc_spark.protocol.state_document import Applied, Intent


def format_instant(moment: datetime | None = None) -> str:
    """Format a time for the state document, in UTC with milliseconds; now unless given."""
    text = (moment or datetime.now(tz=UTC)).astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def build_applied(snapshot: SnapshotInfo | None, intent: Intent) -> Applied:
    """Return the applied state after `intent`; None stands for the table without a snapshot."""
    return Applied(
        snapshot_id=str(snapshot.id) if snapshot else None,
        sequence_number=snapshot.sequence_number if snapshot else 0,
        committed_at=format_instant(snapshot.committed_at) if snapshot else None,
        ordinal=intent.ordinal,
    )
