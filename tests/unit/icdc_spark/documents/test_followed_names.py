"""What a run says of columns that it finds by names that they had before."""

import json
import logging
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from icdc_spark.documents.schema import Schema, parse_schema
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.replication.checks.document_resolver import DocumentResolver
from icdc_spark.replication.context import TableContext
from icdc_testing.tables.fields import parse_fields, take

pytestmark = pytest.mark.unit


def build_schema(number: int, *columns: str) -> Schema:
    """Return a schema whose columns have the ids 1, 2, ..."""
    fields = [
        {"id": at, "name": name, "type": "string", "required": False}
        for at, name in enumerate(columns, start=1)
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields, "schema-id": number}))


def test_the_log_names_a_followed_column_as_the_newest_schema_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A name of the newest schema is none of before, though the snapshot's does not have it yet."""
    first, then, newest = (
        build_schema(number, *names)
        for number, names in enumerate((("id", "name"), ("key", "name"), ("key", "label")))
    )
    wishes = DocumentWishes(
        fields=parse_fields(take("id", "id"), take("who", "label")), identifier_columns=("id",)
    )
    context = SimpleNamespace(
        table=SimpleNamespace(name="shop.orders"), build_wishes=lambda: wishes
    )
    table = SimpleNamespace(
        uuid="t-1",
        metadata_location="3",
        read_schema=lambda _snapshot_id: newest,
        read_schemas=lambda: [first, then, newest],
    )
    resolver = DocumentResolver(cast("TableContext", context), cast("SparkSession", None))
    with caplog.at_level(logging.WARNING):
        resolved = resolver.resolve_at(cast("IcebergTable", table), then, then, "")
    assert [column.id for column in resolved.columns] == [1, 2]
    (line,) = caplog.messages
    assert "`id` is now called `key`. Write" in line
    assert "label" not in line
