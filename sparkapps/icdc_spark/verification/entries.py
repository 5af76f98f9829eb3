"""Says what a comparison found: the entry of one table in the answer of `icdc verify`.

Example, a table of 20 rows of which the index lacks row 7:

    {"snapshotId": "77", "documents": 19, "repaired": null, "rows": 20, "equal": false,
     "refused": 0, "missing": {"count": 1, "samples": ["7"]}, "extra": {"count": 0, "samples": []},
     "different": {"count": 0, "samples": []}}

It must not know how rows and documents are compared.
"""

from pyspark.sql import DataFrame

from icdc_api.job.answers import (
    BATCH_UNDER_WAY,
    DIFFERENCE_KINDS,
    ComparisonEntry,
    Differences,
)
from icdc_api.spec.pipeline import Mode
from icdc_spark.matching import differences
from icdc_spark.matching.buckets import NOTHING, BucketSums
from icdc_spark.matching.differences import REFUSED
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.replication.context import TableContext
from icdc_spark.verification.moment import IndexMoment

SAMPLES = 20
"""Ids of each kind of difference."""
STREAMED_ONLY = (
    "the mode is StreamOnly: every document was compared with its row; a row without a document "
    "counts as unchanged since the start"
)
NOT_SETTLED = "not settled: the pipeline wrote meanwhile"


def begin_entry(context: TableContext, moment: IndexMoment, anew: str | None) -> ComparisonEntry:
    """Return the part that is known before anything is compared.

    `anew` is why the next run exports the table anew; None if it does not.
    """
    state = moment.stored.document
    entry: ComparisonEntry = {
        "snapshotId": state.applied.snapshot_id if state.applied else None,
        "documents": moment.documents,
        "repaired": None,
    }
    if state.intent is not None:
        # An export writes another index: what differs in this one is a difference all the same.
        if moment.batch is not None:
            entry["underWay"] = True
        entry["message"] = explain_under_way(context)
    elif anew:
        entry["message"] = f"the next run exports the table anew ({anew})"
    elif is_streamed_only(context):
        entry["message"] = STREAMED_ONLY
    return entry


def count_documents_of_no_table(moment: IndexMoment) -> ComparisonEntry:
    """Return the part for a table that had no snapshot yet: its index must be empty."""
    return count_equal(NOTHING) | {
        "equal": moment.documents == 0,
        "extra": {"count": moment.documents, "samples": []},
    }


def count_equal(rows: BucketSums) -> ComparisonEntry:
    """Return the part for rows that all are equal to their documents, or refused."""
    none: Differences = {"count": 0, "samples": []}
    return {
        "rows": rows.members + rows.refused,
        "equal": True,
        "refused": rows.refused,
        "missing": none,
        "extra": none,
        "different": none,
    }


def summarise(reader: SnapshotReader, kinds: DataFrame, others: BucketSums) -> ComparisonEntry:
    """Return the part that says what differs: counts, and up to 20 ids of each kind in order.

    `others` are rows that were proven equal and are not among `kinds`.
    """
    counts = differences.count_kinds(reader, kinds)
    rows = sum(count for kind, count in counts.items() if kind != "extra")
    entry: ComparisonEntry = {
        "rows": others.members + others.refused + rows,
        "equal": not any(counts.get(kind) for kind in DIFFERENCE_KINDS),
        "refused": others.refused + counts.get(REFUSED, 0),
    }
    for kind in DIFFERENCE_KINDS:
        count = counts.get(kind, 0)
        samples = differences.list_samples(reader, kinds, kind, SAMPLES) if count else []
        entry[kind] = {"count": count, "samples": samples}
    return entry


def withdraw_differences(context: TableContext, entry: ComparisonEntry) -> ComparisonEntry:
    """Return `entry` without differences that an open batch, or the one after it, may explain."""
    parts = [entry.pop(kind, None) for kind in DIFFERENCE_KINDS]
    left = sum(part["count"] for part in parts if part is not None)
    message = f"{NOT_SETTLED} ({left} documents); {explain_under_way(context)}"
    return entry | {"equal": None, "reason": BATCH_UNDER_WAY, "message": message}


def explain_under_way(context: TableContext) -> str:
    """Return what somebody who asks has to do about an open batch."""
    finish = "the run finishes it" if context.request.continuous else "run the pipeline"
    return f"a batch is under way: {finish}, then ask again"


def is_streamed_only(context: TableContext) -> bool:
    """Return whether rows that never changed have no documents."""
    return context.spec.mode is Mode.STREAM_ONLY
