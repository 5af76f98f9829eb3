"""What a user writes without the operator: Spark rows as dictionaries, opensearch-py's helpers.

Each task makes a client and hands its rows to `streaming_bulk` or `parallel_bulk`, which serialise
them in Python. Requests are bounded as ours are, and have an external version each, so that the
server has the same to do. It must not know Iceberg, nor the application.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.helpers import parallel_bulk, streaming_bulk
from pyspark.sql import DataFrame, Row

MAX_BYTES = 8 * 1024 * 1024
"""Of a request, as the application's default."""
CHUNK = 5_000
"""Documents of a request: the helpers' 500 by default would cost the server more."""
THREADS = 4
"""Of `parallel_bulk`, its default."""

Send = Callable[[OpenSearch, Iterable[dict[str, Any]]], Iterator[object]]


def send_streaming(client: OpenSearch, actions: Iterable[dict[str, Any]]) -> Iterator[object]:
    """Send one request after the other."""
    yield from streaming_bulk(
        client, actions, chunk_size=CHUNK, max_chunk_bytes=MAX_BYTES, max_retries=5
    )


def send_parallel(client: OpenSearch, actions: Iterable[dict[str, Any]]) -> Iterator[object]:
    """Send several requests at a time."""
    yield from parallel_bulk(
        client, actions, thread_count=THREADS, chunk_size=CHUNK, max_chunk_bytes=MAX_BYTES
    )


def write_rows(rows: DataFrame, url: str, index: str, version: int, send: Send) -> None:
    """Write every row as a document whose id is its column `id`; fails if one is refused."""

    def write_partition(partition: Iterator[Row]) -> None:
        client = OpenSearch([url], timeout=60)
        for _ in send(client, _build_actions(partition, index, version)):
            pass
        client.close()

    rows.foreachPartition(write_partition)


def _build_actions(rows: Iterable[Row], index: str, version: int) -> Iterator[dict[str, Any]]:
    for row in rows:
        document = row.asDict()
        yield {
            "_index": index,
            "_id": str(document["id"]),
            "version": version,
            "version_type": "external",
            "_source": document,
        }
