"""Reads table and index at one moment, and finds the kind of each id: equal, or how it differs.

First the sums of all rows and of all documents are compared, by buckets (`buckets`), which proves
most of them equal. The rows and documents of other buckets are reduced to (id, routing, digest of
the canonical document) in tasks and joined.

    kind        row           document      of an index that follows its table
    equal       1 {"a": "x"}  1 {"a": "x"}
    missing     2 {"a": "y"}  -
    refused     3 {"a": "z"}  -             3 is a dead letter: no difference
    extra       -             4 {"a": "x"}
    different   5 {"a": "x"}  5 {"a": "y"}
    extra       -             6 {"a": "x"}, beside the document of row 6, with another routing

While a batch from snapshot 77 to 78 is under way, a document may be as 77 or as 78 has it. What
differs from 77 is therefore compared with 78 as well: what differs from both is a difference.

It must not know what is done about a difference.
"""

from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.export_plan import Chunk
from icdc_spark.diff.id_lookup import look_up_all, look_up_ids
from icdc_spark.diff.rows import EXPECT, ID, ROUTING
from icdc_spark.diff.strategies import build_export_lines
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.documents.ids import build_routing
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.matching.buckets import (
    REFUSED_ID,
    Buckets,
    ProvenBuckets,
    add_up,
    collect_sums,
    compare_sums,
)
from icdc_spark.matching.digests import (
    COMPARED,
    add_text_digests,
    build_scan_task,
    build_text_scan_task,
    digest_lines,
)
from icdc_spark.matching.pairing import ADDRESS, compare_by_id, compare_contents
from icdc_spark.opensearch.client.scan import Scan
from icdc_spark.readers.snapshot_reader import SnapshotReader
from icdc_spark.readers.whole_snapshot import read_whole

KIND = "kind"
EQUAL, MISSING, REFUSED = "equal", "missing", "refused"


def prove(
    reader: SnapshotReader,
    scan: Scan,
    spec: DocumentSpec,
    *,
    has_duplicates: bool,
    refused_ids: Iterable[str],
    by_content: bool,
) -> ProvenBuckets:
    """Return which documents of the scan have the bytes of those that the snapshot gives.

    Rows of `refused_ids` have no document. `by_content` where ids say nothing. Everything is read,
    but no row or document leaves the task that reads it.
    """

    refused = _list_ids(reader, refused_ids)

    def add_up_lines(lines: DataFrame) -> DataFrame:
        return add_up(add_text_digests(lines), refused, by_content=by_content)

    documents = _scan(reader, scan).mapInArrow(build_text_scan_task(scan), COMPARED)
    with translate_source_errors(reader.table_name):
        # Before the table, which may take hours: the scan expires where nobody asks for more.
        of_documents = collect_sums(add_up(documents, refused, by_content=by_content))
        rows = _read_lines(reader, spec, add_up_lines, has_duplicates=has_duplicates)
        return compare_sums(collect_sums(rows), of_documents, by_content=by_content)


def read_index(
    reader: SnapshotReader, scan: Scan, spec: DocumentSpec, within: Buckets | None
) -> DataFrame:
    """Return id, routing and digest of each document of the scan, read now.

    Each task reads one slice. Of the documents in the buckets `within` alone, where they are
    given.
    """
    task = build_scan_task(scan, spec.added, within)
    stored = reader.persist(_scan(reader, scan).mapInArrow(task, COMPARED))
    with translate_source_errors(reader.table_name):
        # Frames are lazy: only an action reads, and the scan may have expired before the next one.
        stored.count()
    return stored


def read_table(
    reader: SnapshotReader, spec: DocumentSpec, within: Buckets | None, *, has_duplicates: bool
) -> DataFrame:
    """Return id, routing and digest of each document that the snapshot gives; `within` as above."""

    def digest_all(lines: DataFrame) -> DataFrame:
        return digest_lines(lines, spec.added, within)

    with translate_source_errors(reader.table_name):
        return _read_lines(reader, spec, digest_all, has_duplicates=has_duplicates)


def _scan(reader: SnapshotReader, scan: Scan) -> DataFrame:
    return reader.session.range(0, scan.slices, 1, scan.slices)


def _read_lines(
    reader: SnapshotReader,
    spec: DocumentSpec,
    reduce: Callable[[DataFrame], DataFrame],
    *,
    has_duplicates: bool,
) -> DataFrame:
    """Return what `reduce` makes of the lines of all documents that the snapshot gives."""
    if has_duplicates:
        # One document for each key: `build_export_lines` gives one for each row.
        return reduce(look_up_all(reader, spec, version=0).frame)

    # Version 0: digests leave the action of a line out, so any version would do.
    def reduce_group(group: FileGroup) -> DataFrame:
        chunk = Chunk(number=0, group=group)
        return reduce(build_export_lines(reader, chunk, spec, version=0).frame)

    return read_whole(reader, reduce_group)


def compare(table: DataFrame, index: DataFrame, spec: DocumentSpec) -> DataFrame:
    """Return one row for each document of table or index, with its `kind`."""
    return (compare_contents if spec.append_only else compare_by_id)(table, index)


def compare_again(
    reader: SnapshotReader, kinds: DataFrame, index: DataFrame, spec: DocumentSpec
) -> DataFrame:
    """Return `kinds`, in which what differs was compared with the snapshot of `reader` instead."""
    differing = kinds.where(F.col(KIND) != EQUAL).select(*ADDRESS)
    operations = look_up_ids(reader, differing, spec, version=0).frame
    lines = operations.where(F.col(EXPECT) != Expect.DELETED)
    # By address, not by id: a document with another routing may be extra beside one that is equal.
    table, documents = (
        side.join(differing, on=ADDRESS, how="left_semi")
        for side in (digest_lines(lines, spec.added), index)
    )
    again = compare(table, documents, spec)
    return kinds.where(F.col(KIND) == EQUAL).unionByName(again)


def mark_refused(reader: SnapshotReader, kinds: DataFrame, refused_ids: Iterable[str]) -> DataFrame:
    """Return `kinds`, in which rows without a document that are dead letters are `refused`.

    In an append-only table a compaction changes the ids of rows, so that a row has another id than
    its dead letter. Such a row is counted as missing until a repair sends it again.
    """
    refused = _list_ids(reader, refused_ids)
    if refused is None:
        return kinds
    joined = kinds.join(refused, on=F.col(ID) == F.col(REFUSED_ID), how="left")
    is_refused = (F.col(KIND) == MISSING) & F.col(REFUSED_ID).isNotNull()
    kind = F.when(is_refused, REFUSED).otherwise(F.col(KIND))
    return joined.select(*ADDRESS, kind.alias(KIND))


def _list_ids(reader: SnapshotReader, refused_ids: Iterable[str]) -> DataFrame | None:
    """Return the ids in the column `refused_id`; None where there are none."""
    rows = [(row_id,) for row_id in sorted(refused_ids)]
    return reader.session.createDataFrame(rows, f"{REFUSED_ID} string") if rows else None


def count_kinds(reader: SnapshotReader, kinds: DataFrame) -> dict[str, int]:
    """Return how many rows and documents are of each kind."""
    with translate_source_errors(reader.table_name):
        return {row[KIND]: row["count"] for row in kinds.groupBy(KIND).count().collect()}


def list_samples(reader: SnapshotReader, kinds: DataFrame, kind: str, number: int) -> list[str]:
    """Return the first `number` ids of a kind, in order."""
    with translate_source_errors(reader.table_name):
        ids = kinds.where(F.col(KIND) == kind).select(ID).orderBy(ID)
        return [row[ID] for row in ids.limit(number).collect()]


def select_strays(kinds: DataFrame, spec: DocumentSpec) -> DataFrame:
    """Return the documents whose routing does not follow from their id: somebody else wrote them.

    A write for such an id may go to another shard.
    """
    expected = build_routing(F.col(ID), spec) if spec.routing else F.lit("")
    return kinds.where(F.col(ROUTING) != expected)
