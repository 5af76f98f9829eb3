"""Reduces documents to digests that are equal exactly where the documents are.

Runs in the workers: of bulk lines, which the table stands for, and of the slices of an index.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from icdc_spark.diff.rows import ID
from icdc_spark.opensearch.client.scan import Scan, read_slice

DIGEST = "digest"
ID_AND_DIGEST = "id string, digest string"
"""The columns of both sides of a comparison."""
_PAGE = 1000
"""Documents that become one Arrow batch."""

Batches = Iterable[pa.RecordBatch]


def canonical(document: str | bytes) -> str:
    """The document with sorted keys; numbers keep their text, so 1, 1.0 and "1" all differ."""

    def number(text: str) -> dict[str, str]:
        return {"number": text}

    parsed = json.loads(document, parse_float=number, parse_int=number)
    return json.dumps(parsed, sort_keys=True, separators=(",", ":"))


def digest(document: str | bytes) -> str:
    """Sixteen bytes of SHA-256 in hex: equal exactly where the canonical documents are."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()[:32]


def digests_of_lines(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Reduce bulk lines (column `line`) to ids and digests."""
    for batch in batches:
        ids, digests = [], []
        for line in batch.column("line").to_pylist():
            action, _, document = line.partition(b"\n")
            ids.append(json.loads(action)["index"]["_id"])
            digests.append(digest(document))
        yield pa.RecordBatch.from_pydict({ID: ids, DIGEST: digests})


def digests_of_slice(scan: Scan) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a task that reads slices of `scan`, by their numbers, as ids and digests."""

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for page in _pages(scan, number):
                    yield pa.RecordBatch.from_pydict(page)

    return read


def _pages(scan: Scan, number: int) -> Iterator[dict[str, list[str]]]:
    ids: list[str] = []
    digests: list[str] = []
    for found in read_slice(scan, number):
        ids.append(found.id)
        digests.append(digest(found.text))
        if len(ids) == _PAGE:
            yield {ID: ids, DIGEST: digests}
            ids, digests = [], []
    yield {ID: ids, DIGEST: digests}
