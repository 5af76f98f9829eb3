"""The ways from a table to a new index, and the ceiling: request bodies that are made already."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from icdc_spark.diff.export_plan import Chunk
from icdc_spark.diff.strategies import build_export_lines
from icdc_spark.documents.document_spec import resolve_spec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.iceberg.scan.planning import merge_groups
from icdc_spark.iceberg.table.expressions import build_analyser
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.opensearch.bulk import sink
from icdc_spark.opensearch.bulk.target import DEFAULT_MAX_BYTES, BulkTarget
from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.stores import indices
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_spark.opensearch.wire.operations import Assembler
from icdc_spark.protocol.state_document import compute_base_version
from icdc_spark.readers.choose import open_reader
from icdc_spark.replication import export
from icdc_testing.bench.changelog import CATALOG
from icdc_testing.bench.plain_writers import Send, send_parallel, send_streaming, write_rows
from icdc_testing.target.oracle import request

CONNECTIONS = (1, 2, 4)
OURS, STREAMING, PARALLEL = "the application's sink", "`streaming_bulk`", "`parallel_bulk`"
VERSION = compute_base_version(1)
_OWNER = Ownership("default/bench", "bench")
_PATH = "_bulk?filter_path=errors"

Way = Callable[[str], None]
"""Writes all documents into the index of that name."""


class SinkWays:
    """The ways of one table into one OpenSearch."""

    def __init__(self, spark: SparkSession, url: str, name: str) -> None:
        self._spark, self._url, self._name = spark, url, name
        self._connection = Connection(hosts=(url,))
        table = IcebergTable.load(spark, CATALOG, name)
        wishes = DocumentWishes(identifier_columns=("id",))
        self._spec = resolve_spec(name, table.read_schema(), wishes, build_analyser(spark, name))
        self._mapping = build_index_mapping(self._spec, table_uuid=table.uuid)
        with self._open_lines() as lines:
            batches = lines.select("line", "expect").toArrow().to_batches()
        assembler = Assembler(DEFAULT_MAX_BYTES)
        full = [made.body for batch in batches for made in assembler.add(batch)]
        self._bodies = [*full, *(made.body for made in assembler.take_rest())]
        self.bytes = sum(map(len, self._bodies))
        """Of all request bodies."""

    def list_ways(self) -> dict[str, Way]:
        """Return the ways by their names, those of the ceiling first."""
        return {
            **{name_raw(count): self._make_raw(count) for count in CONNECTIONS},
            OURS: self._write_ours,
            STREAMING: self._make_plain(send_streaming),
            PARALLEL: self._make_plain(send_parallel),
        }

    @contextmanager
    def open_index(self) -> Iterator[str]:
        """Make an empty index as an export does; delete it afterwards."""
        client = open_client(self._connection)
        try:
            made = indices.create(
                client, _OWNER, self._mapping, {"number_of_shards": 1, "number_of_replicas": 0}
            )
            yield made.name
            indices.delete(client, made.name)
        finally:
            client.close()

    def count(self, index: str) -> int:
        """Return the documents that the index has now."""
        request(f"{self._url}/{index}/_refresh", "POST")
        return int(request(f"{self._url}/{index}/_count")["count"])

    @contextmanager
    def _open_lines(self) -> Iterator[DataFrame]:
        """Plan the export and return its lines, all chunks in one job."""
        table = IcebergTable.load(self._spark, CATALOG, self._name)
        head = table.find_current_snapshot()
        assert head is not None
        plan = export.plan(table, head.id)
        group = merge_groups(table, [chunk.group for chunk in plan.iterate_chunks()])
        with open_reader(self._spark, table, head.id, self._spec) as reader:
            whole = Chunk(number=0, group=group)
            yield build_export_lines(reader, whole, self._spec, version=VERSION).frame

    def _write_ours(self, index: str) -> None:
        target = BulkTarget(
            connection=self._connection,
            pipeline=_OWNER.pipeline,
            alias=_OWNER.alias,
            index=index,
            ordinal=1,
            version=VERSION,
            epoch=1,
            table=self._name,
            snapshot_id="",
        )
        with self._open_lines() as lines:
            sink.write(lines, target, is_superseded=lambda: False)

    def _make_plain(self, send: Send) -> Way:
        def write(index: str) -> None:
            rows = self._spark.table(f"{CATALOG}.{self._name}")
            write_rows(rows, self._url, index, VERSION, send)

        return write

    def _make_raw(self, connections: int) -> Way:
        return lambda index: send_bodies(self._url, index, self._bodies, connections)


def name_raw(connections: int) -> str:
    """Return the name of the way that sends prebuilt bodies over so many connections."""
    return f"prebuilt bodies, {connections} connection{'s' if connections > 1 else ''}"


def send_bodies(url: str, index: str, bodies: list[bytes], connections: int) -> None:
    """Send all bodies over so many connections; AssertionError where one is not applied whole."""
    waiting = SimpleQueue[bytes]()
    for body in bodies:
        waiting.put(body)
    refused: list[str] = []

    def send() -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
        while True:
            try:
                body = waiting.get_nowait()
            except Empty:
                break
            headers = {"content-type": "application/x-ndjson"}
            connection.request("POST", f"/{index}/{_PATH}", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200 or json.loads(text)["errors"]:
                refused.append(f"{answer.status}: {text[:200]!r}")
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not refused, refused[0]
