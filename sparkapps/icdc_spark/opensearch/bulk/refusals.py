"""Judges the refused rows of a whole batch, before anything is removed for them.

A refused row is a dead letter, and the older document under its id is removed. Where most of a
batch is refused for one reason the cause is probably not in the rows: an index that was emptied so
would be lost to its readers, so the batch stops with everything in place. It must not know Spark.
"""

from collections.abc import Callable

from icdc_api.errors import DeadLetterLimit, FieldInvalid, TargetInvalid
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.sender import Sender
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.wire.item_outcome import FIELD_FAILED

MANY_ROWS = 100
"""Rows that may be refused for one reason, whatever the size of the batch."""
MANY_SHARE = 0.5
"""Beyond MANY_ROWS, so large a share of a batch is taken for a fault of the target."""


def finish_refused(
    total: PartitionResult, target: BulkTarget, note_progress: Callable[[], None] = lambda: None
) -> None:
    """Remove older documents under the ids of the refused rows, once the batch is through.

    `total` is the result of all partitions; traffic is added to it. Raises its error, or
    TargetInvalid or FieldInvalid when too many rows were refused for one reason; then nothing is
    removed. `note_progress` is called again and again while they are removed.
    """
    # Also where the limit of dead letters ended the batch: the share says more than the limit.
    if total.error is None or total.has_error(DeadLetterLimit):
        _check_share(total, target)
    total.raise_error()
    ids = [document_id for refused in total.refused.values() for document_id in refused]
    if not ids:
        return
    sender = Sender(target, note_progress)
    try:
        new = frozenset(total.refused_new)
        for are_new in (False, True):
            part = [document_id for document_id in ids if (document_id in new) == are_new]
            total.merge(sender.remove_older(part, total.routings, are_new=are_new))
    finally:
        sender.close()


def _check_share(total: PartitionResult, target: BulkTarget) -> None:
    refused = sum(map(len, total.refused.values()))
    # Deletes of now are left out: they cannot be refused, so they say nothing about the mapping.
    rows = total.upserted + total.already_applied + total.foreign_edits.count + refused
    for kind, ids in total.refused.items():
        # A processor that does not work for a while refuses rows as if the fault was theirs.
        many = 1 if target.ingest_pipeline and kind != FIELD_FAILED else MANY_ROWS
        if len(ids) > many and len(ids) > MANY_SHARE * rows:
            if kind == FIELD_FAILED:
                raise FieldInvalid(
                    f"{target.table}: an expression in fields fails on {len(ids)} of {rows} rows "
                    "of a batch, so the cause is probably not in the rows. Nothing was removed. "
                    "Read in the dead letters which field it is, and write it so that it works "
                    "for such values, for example with try_cast, try_divide or nullif."
                )
            raise TargetInvalid(
                f"Index {target.index!r} refused {len(ids)} of {rows} rows of a batch for one "
                f"reason ({kind}), so the cause is probably not in the rows. Nothing was "
                "removed. Read the reasons in its dead letters and correct the index's mapping or "
                "settings"
                f"{', or the ingest pipeline' if target.ingest_pipeline else ''}"
                ", or raise spec.resync.nonce for a new index."
            )
