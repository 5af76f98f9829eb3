"""Reduces documents to digests, by which table and index are compared.

Of bulk lines (the table) and of slices of a scan (the index), of two kinds:

    one document         another              digests of the text   digests of the meaning
    {"a":1,"b":"x"}      {"a":1,"b":"x"}      equal                 equal
    {"a":1,"b":"x"}      {"b":"x","a":1}      unequal               equal
    {"a":1,"b":"x"}      {"a":2,"b":"x"}      unequal               unequal

Nearly every document is in the index as it was sent. So the text, which the JVM reduces for the
table and which is not parsed for the index, proves nearly all rows equal; Python workers work out
the meaning of the others. What documents mean is in `canonical`. It must not know what is compared
with what.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.rows import EXPECT, ID, ROUTING
from icdc_spark.documents.expect import Expect
from icdc_spark.matching.buckets import DIGEST, Buckets
from icdc_spark.opensearch.client.scan import Scan, ScannedDocument, read_slice
from icdc_spark.opensearch.wire.canonical import dump_canonical

COMPARED = "id string, routing string, digest string"
"""The columns of both row sets of a comparison. Documents of one id and other routings are on other
shards: they are other documents. A routing is empty where there is none."""
_LENGTH = 32
"""Characters of a digest in hex. Half of a SHA-256 makes chance collisions as good as impossible,
and halves what is shuffled."""
_NONE = "none"
"""In place of the digest of a row on which an expression fails: no document equals it."""
_PAGE = 1000
"""Documents that are read for one Arrow batch."""

Batches = Iterable[pa.RecordBatch]


def digest(document: str | bytes, added: Set[str] | None = None) -> str:
    """Return the digest of what a document means; `added` as in `dump_canonical`."""
    return digest_text(dump_canonical(document, added))


def digest_text(document: str) -> str:
    """Return the digest of a document's bytes."""
    # Documents of others may have lone surrogates, which OpenSearch takes where it parses nothing.
    return hashlib.sha256(document.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


class ReducedLine(NamedTuple):
    """What is compared of a bulk line."""

    id: str
    """The `_id`."""
    routing: str
    """The routing; empty where there is none."""
    digest: str
    """The digest of the document, which equals none where an expression fails on the row."""


def reduce_line(line: bytes, added: Set[str] | None) -> ReducedLine:
    """Return id, routing and digest of a line that indexes a document."""
    action, _, document = line.partition(b"\n")
    # Only the document is compared: the action carries a version, which differs.
    index = json.loads(action)["index"]
    of_document = _NONE if "failed" in index else digest(document, added)
    return ReducedLine(index["_id"], index.get("routing", ""), of_document)


def add_text_digests(lines: DataFrame) -> DataFrame:
    """Return `OperationLines.frame`, of lines that index documents, with digests of the texts."""
    line, head = F.col("line"), F.substring_index(F.col("line").cast("string"), "\n", 1)
    # By bytes, without the line's end.
    length = F.octet_length(head)
    document = F.substr(line, length + 2, F.octet_length(line) - length - 2)
    made = F.substring(F.sha2(document, 256), 1, _LENGTH)
    shown = F.when(F.col(EXPECT).isin(Expect.REFUSED, Expect.REFUSED_NEW), _NONE).otherwise(made)
    return lines.withColumn(DIGEST, shown)


def digest_lines(
    lines: DataFrame, added: Set[str] | None, within: Buckets | None = None
) -> DataFrame:
    """Return id, routing and digest of the meaning of bulk lines that index documents.

    Of those in the buckets `within` alone, where they are given.
    """
    chosen = lines if within is None else within.select(lines)
    return chosen.select("line").mapInArrow(build_line_task(added), COMPARED)


def build_line_task(added: Set[str] | None) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a task that reduces bulk lines (column `line`) to ids, routings and digests."""

    def reduce(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids, routings, digests = [], [], []
            for line in batch.column("line").to_pylist():
                reduced = reduce_line(line, added)
                ids.append(reduced.id)
                routings.append(reduced.routing)
                digests.append(reduced.digest)
            yield pa.RecordBatch.from_pydict({ID: ids, ROUTING: routings, DIGEST: digests})

    return reduce


def build_text_scan_task(scan: Scan) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a task that reads slices of `scan`, by their numbers, as digests of texts."""
    return _build_scan_task(scan, lambda document: digest_text(document.text))


def build_scan_task(
    scan: Scan, added: Set[str] | None, within: Buckets | None = None
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a task that reads slices of `scan`, by their numbers, as digests of meanings.

    Of the documents in the buckets `within` alone, where they are given.
    """

    def reduce(document: ScannedDocument) -> str | None:
        if within is not None and not within.hold(document.id):
            return None
        return digest(document.text, added)

    return _build_scan_task(scan, reduce)


def _build_scan_task(
    scan: Scan, reduce: Callable[[ScannedDocument], str | None]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a task; documents for which `reduce` returns None are left out."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                # Of texts one is held at a time: they may be large.
                read = ((hit.id, hit.routing, reduce(hit)) for hit in read_slice(scan, number))
                # Batches of a bounded size: a slice may hold millions of documents. Also empty
                # ones: who looks at Spark's metrics would take it that nothing is read any more.
                while page := tuple(islice(read, _PAGE)):
                    chosen = [member for member in page if member[2] is not None]
                    columns = zip(*chosen, strict=True) if chosen else ((), (), ())
                    yield pa.RecordBatch.from_arrays(
                        [pa.array(column, pa.string()) for column in columns],
                        names=[ID, ROUTING, DIGEST],
                    )

    return read
