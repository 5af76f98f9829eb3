"""Compares a sample of bulk lines with the documents that an index has under their ids.

A task reads its lines, asks the index for the same ids, and compares digests: ids and kinds are all
that leaves it. Example, a limit of three lines:

    line                     documents of ids 1, 2, 3              kinds
    1 {"a": "x"}             1 {"a": "x"}                          equal
    2 {"a": "y"}             -                                     missing
    3 {"a": "z"}             3 {"a": "q"}                          different
                             3 {"a": "z"}, with another routing    extra
    4 {"a": "x"}             not asked for

It must not know which lines are sampled, nor which rows were refused.
"""

from collections.abc import Callable, Iterable, Iterator, Set

import pyarrow as pa

from icdc_spark.diff.rows import ID
from icdc_spark.matching.differences import EQUAL, KIND, MISSING
from icdc_spark.matching.digests import digest, reduce_line
from icdc_spark.opensearch.client.scan import NamedIndex, read_documents

SAMPLED = f"{ID} string, {KIND} string"
"""The columns of a compared sample."""
PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of lines whose documents are asked for at once, unless one has more: their documents are as
large."""

Batches = Iterable[pa.RecordBatch]


def build_sample_task(
    index: NamedIndex, added: Set[str] | None, limit: int
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a task that compares the first `limit` lines that it meets (column `line`)."""
    # The answer has room for as many documents that should not be there: of the same ids, with
    # other routings.
    page_lines = max(1, index.page // 2)

    def compare(batches: Batches) -> Iterator[pa.RecordBatch]:
        left = limit
        for batch in batches:
            lines = batch.column("line").slice(0, left).to_pylist()
            left -= len(lines)
            for page in cut_pages(lines, page_lines):
                yield _compare_page(index, page, added)
            # Rows of one key are one result, so whoever takes a number of results may want more:
            # the rest of the partition is not read for that.
            if not left:
                return

    return compare


def cut_pages(lines: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """Yield lines in their order, at most `most` at a time, and as many as PAGE_BYTES allows."""
    page: list[bytes] = []
    size = 0
    for line in lines:
        if page and (len(page) == most or size + len(line) > PAGE_BYTES):
            yield page
            page, size = [], 0
        page.append(line)
        size += len(line)
    if page:
        yield page


def _compare_page(
    index: NamedIndex, lines: Iterable[bytes], added: Set[str] | None
) -> pa.RecordBatch:
    reduced = [reduce_line(line, added) for line in lines]
    # Several rows of one key are one document: see `replication.duplicates`.
    rows = {(row.id, row.routing): row.digest for row in reduced}
    documents = {
        (document.id, document.routing): digest(document.text, added)
        for document in read_documents(index, sorted({row.id for row in reduced}))
    }
    # Before the rows: whoever takes a number of lines must not lose them behind the last one.
    kinds = [(address[0], "extra") for address in documents if address not in rows]
    kinds += [(address[0], _judge(row, documents.get(address))) for address, row in rows.items()]
    return pa.RecordBatch.from_pydict(
        {ID: [row_id for row_id, _ in kinds], KIND: [kind for _, kind in kinds]}
    )


def _judge(row: str, document: str | None) -> str:
    """Return the kind of a row, by its digest and that of the document in its place."""
    if document is None:
        return MISSING
    return EQUAL if row == document else "different"
