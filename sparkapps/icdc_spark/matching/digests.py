"""Reduces documents to digests that are equal exactly where the documents are equal.

Runs in Spark's Python workers, on bulk lines (the table) and on slices of a scan (the index).
What makes documents equal is in `canonical`. It must not know what is compared with what.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple

import pyarrow as pa

from icdc_spark.diff.rows import ID, ROUTING
from icdc_spark.opensearch.client.scan import Scan, read_slice
from icdc_spark.opensearch.wire.canonical import dump_canonical

DIGEST = "digest"
COMPARED = "id string, routing string, digest string"
"""The columns of both row sets of a comparison. Documents of one id and other routings are on other
shards: they are other documents. A routing is empty where there is none."""
_NONE = "none"
"""In place of the digest of a row on which an expression fails: no document equals it."""
_PAGE = 1000
"""Documents that become one Arrow batch."""

Batches = Iterable[pa.RecordBatch]


def digest(document: str | bytes, added: Set[str] | None = None) -> str:
    """Return 16 bytes of SHA-256 of the canonical document, in hex; `added` as there."""
    # Half of it makes chance collisions as good as impossible, and halves what is shuffled.
    return hashlib.sha256(dump_canonical(document, added).encode()).hexdigest()[:32]


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


def build_scan_task(
    scan: Scan, added: Set[str] | None
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a task that reads slices of `scan`, by their numbers, as ids, routings and digests."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for page in _iterate_pages(scan, number, added):
                    yield pa.RecordBatch.from_pydict(page)

    return read


def _iterate_pages(
    scan: Scan, number: int, added: Set[str] | None
) -> Iterator[dict[str, list[str]]]:
    # Arrow batches of a bounded size: a slice may hold millions of documents.
    page: dict[str, list[str]] = {ID: [], ROUTING: [], DIGEST: []}
    for hit in read_slice(scan, number):
        page[ID].append(hit.id)
        page[ROUTING].append(hit.routing)
        page[DIGEST].append(digest(hit.text, added))
        if len(page[ID]) == _PAGE:
            yield page
            page = {ID: [], ROUTING: [], DIGEST: []}
    yield page
