"""What tests of the sink share: an owner, a small strict mapping, targets and lines."""

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from icdc_api.errors import IcdcError
from icdc_spark.opensearch.bulk.partition_writer import write_batches
from icdc_spark.opensearch.bulk.refusals import finish_refused
from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_spark.protocol.state_document import compute_base_version

OWNER = Ownership(pipeline="default/shop", alias="orders")
MAPPING: dict[str, object] = {
    "dynamic": "strict",
    "properties": {"v": {"type": "long"}, "s": {"type": "keyword"}},
    "_meta": {"icdc": {"tableUuid": "t-1"}},
}
INDEX = "orders-000001"

Line = tuple[bytes, str]


def make_target(url: str, ordinal: int = 1, **changes: object) -> BulkTarget:
    """Return a target on the index of the tests, with a short time for retries."""
    values: dict[str, object] = {
        "connection": Connection(hosts=(url,), timeout=30.0),
        "pipeline": OWNER.pipeline,
        "alias": OWNER.alias,
        "index": INDEX,
        "ordinal": ordinal,
        "version": compute_base_version(ordinal),
        "epoch": 1,
        "table": "shop.orders",
        "snapshot_id": "77",
        "retry_seconds": 20.0,
    }
    return BulkTarget(**(values | changes))  # type: ignore[arg-type]


def write(url: str, lines: Sequence[Line], ordinal: int = 1, **changes: object) -> PartitionResult:
    """Write one batch as a task and then the driver do; an error of either is in the result."""
    aim = make_target(url, ordinal, **changes)
    result = run_task(make_batches(lines), aim)
    try:
        finish_refused(result, aim)
    except IcdcError as error:
        result.error = None
        result.fail(error)
    return result


def run_task(batches: Iterator[pa.RecordBatch], aim: BulkTarget) -> PartitionResult:
    """Write record batches as a task does; return all that it yields, merged."""
    total = PartitionResult()
    for part in write_batches(batches, aim):
        total.merge(part)
    return total


def upsert(key: str, source: object, ordinal: int = 1, *, expect: str = "c") -> Line:
    """Return the line of an index operation; bytes are taken as the document's text."""
    text = source if isinstance(source, bytes) else json.dumps(source).encode()
    return _build_action("index", key, ordinal) + text + b"\n", expect


def delete(key: str, ordinal: int = 1) -> Line:
    """Return the line of a delete."""
    return _build_action("delete", key, ordinal), "d"


def make_batches(lines: Sequence[Line], rows: int = 1000) -> Iterator[pa.RecordBatch]:
    """Yield record batches as Spark hands them over."""
    for start in range(0, len(lines), rows):
        part = lines[start : start + rows]
        yield pa.record_batch(
            {
                "line": pa.array([line for line, _ in part], pa.binary()),
                "expect": pa.array([expect for _, expect in part], pa.string()),
            }
        )


def _build_action(op: str, key: str, ordinal: int) -> bytes:
    fields = {"_id": key, "version": compute_base_version(ordinal), "version_type": "external"}
    return json.dumps({op: fields}).encode() + b"\n"
