"""The independent oracle: what an index must hold, worked out in plain Python from the rows.

It shares no line with the application: rows come by `collect()` (or pyiceberg), documents are
built value by value from the type table of the documentation, and the index is read by search.
"""

import base64
import datetime as dt
import hashlib
import json
import math
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import TimestampType, VariantVal

OMIT = object()
MAX_ID_BYTES = 512
ESCAPES = {"\\": "\\\\", "|": "\\|"}

Document = dict[str, Any]


def format_text(value: object) -> str:
    """Return a scalar as text, as in ids and map keys."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        return format_timestamp(value)
    if isinstance(value, dt.date):
        return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    if isinstance(value, dt.time):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return str(value)


def format_timestamp(value: dt.datetime) -> str:
    """Return it with six digits always; a zone is shown as Z (the tests run in UTC)."""
    text = f"{value.year:04d}-" + value.strftime("%m-%dT%H:%M:%S.%f")
    return text + ("Z" if value.tzinfo else "")


def convert_value(value: object) -> object:
    """Return a column's value as JSON; OMIT where a field would be left out."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return OMIT
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, VariantVal):
        inner = json.loads(value.toJson())
        return inner if isinstance(inner, dict) else {"value": inner}
    if isinstance(value, Row):
        return convert_fields(value.asDict(recursive=False))
    if isinstance(value, Mapping):
        return {
            format_text(key): replace_omitted(convert_value(item)) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [replace_omitted(convert_value(item)) for item in value]
    return format_text(value)


def replace_omitted(value: object) -> object:
    """Return null where a field would be left out: elements of lists and values of maps stay."""
    return None if value is OMIT else value


def convert_fields(values: Mapping[str, object]) -> Document:
    """Return an object without its null fields."""
    converted = {name: convert_value(value) for name, value in values.items()}
    return {name: value for name, value in converted.items() if value is not OMIT}


def build_document_id(values: Sequence[object]) -> str:
    """Return the `_id` of key values."""

    def escape_part(value: object) -> str:
        if value is None:
            return "\\N"
        return "".join(ESCAPES.get(character, character) for character in format_text(value))

    joined = "|".join(escape_part(value) for value in values) or "\\E"
    if len(joined.encode()) > MAX_ID_BYTES:
        return "\\H" + hashlib.sha256(joined.encode()).hexdigest()
    return joined


def read_expected(
    spark: SparkSession,
    table: str,
    key: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    snapshot_id: int | None = None,
) -> dict[str, Document]:
    """Return the documents of the table by id, now or at a snapshot; keys must be unique.

    Timestamps with a zone may be columns, and not parts of one.
    """
    version = f" VERSION AS OF {snapshot_id}" if snapshot_id else ""
    frame = spark.sql(f"SELECT * FROM {table}{version}" + (f" WHERE {where}" if where else ""))
    documents: dict[str, Document] = {}
    zoned = {column.name for column in frame.schema if isinstance(column.dataType, TimestampType)}
    for row in frame.collect():
        values = row.asDict(recursive=False)
        for name in zoned:
            # Spark hands these over without their zone.
            values[name] = values[name] and values[name].replace(tzinfo=dt.UTC)
        identity = build_document_id([values[name] for name in key])
        assert identity not in documents, f"the oracle needs unique keys, {identity} is not"
        documents[identity] = convert_fields({name: values[name] for name in columns or values})
    return documents


def request(url: str, method: str = "GET", body: object = None) -> dict[str, Any]:
    """Send one JSON request to OpenSearch; return its answer."""
    data = None if body is None else json.dumps(body).encode()
    call = urllib.request.Request(
        url, data=data, method=method, headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(call, timeout=60) as response:
        return cast(dict[str, Any], json.loads(response.read() or b"{}"))


def read_applied(url: str, alias: str) -> str:
    """Return the id of the snapshot that the state document of an index says is applied."""
    answer = request(f"{url}/icdc-state/_doc/{alias}")
    return str(answer["_source"]["applied"]["snapshotId"])


def read_hits(url: str, index: str) -> Iterable[dict[str, Any]]:
    """Yield every hit of the index, with its version."""
    request(f"{url}/{index}/_refresh", "POST")
    after: list[object] | None = None
    while True:
        query: dict[str, Any] = {"size": 5000, "version": True, "sort": [{"_id": "asc"}]}
        if after:
            query["search_after"] = after
        # A replica of an index with segment replication shows writes later.
        searched = request(f"{url}/{index}/_search?preference=_primary", "POST", query)
        page = searched["hits"]["hits"]
        yield from page
        if len(page) < 5000:
            return
        after = page[-1]["sort"]


def read_index(url: str, index: str) -> dict[str, Document]:
    """Return the documents of the index by id."""
    return {hit["_id"]: hit["_source"] for hit in read_hits(url, index)}


def assert_equal(actual: Mapping[str, Document], wanted: Mapping[str, Document]) -> None:
    """Fail with the ids that are missing, extra or different."""
    missing = sorted(set(wanted) - set(actual))
    extra = sorted(set(actual) - set(wanted))
    different = sorted(
        key
        for key in set(actual) & set(wanted)
        # Through text: -0.0 and 0.0, 1 and 1.0 and True must not pass as equal.
        if json.dumps(actual[key], sort_keys=True) != json.dumps(wanted[key], sort_keys=True)
    )
    shown = {key: (actual[key], wanted[key]) for key in different[:3]}
    problem = (
        f"missing {missing[:5]} ({len(missing)}), extra {extra[:5]} ({len(extra)}), "
        f"different {len(different)}: {shown}"
    )
    assert not [*missing, *extra, *different], problem
