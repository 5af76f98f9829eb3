"""The schema of a snapshot as plain data, for readers that run outside the JVM.

Example: a table with `id long, t time`. Spark has no type for `time`, so a reader shows it as text:

    iceberg_schema   {..., {"id": 1, "name": "id", "type": "long"}, {..., "type": "time"}}
    spark_schema     id bigint, t string
    text_columns     ("t",)
"""

import json
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as T  # noqa: N812

from icdc_spark.documents.forms import READ_AS_TEXT, WITHOUT_FORM, has_type
from icdc_spark.documents.schema import parse_schema
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.name_mapping import NAME_MAPPING
from icdc_spark.iceberg.table.tables import SCHEMA_PARSER, IcebergTable


@dataclass(frozen=True, kw_only=True)
class SnapshotSchema:
    """The columns of one snapshot, and what is needed to open its files."""

    iceberg_schema: str
    """Iceberg's schema in JSON."""
    spark_schema: T.StructType
    """The same columns with Spark's types; types that Spark does not have are strings."""
    text_columns: tuple[str, ...]
    """The top-level columns that hold a type shown as text, at any depth."""
    name_mapping: str | None
    """The table's name mapping in JSON, for files without field ids."""
    io_properties: dict[str, str] = field(repr=False)
    """Properties of the table's FileIO. May hold credentials."""


def read_snapshot_schema(
    table: IcebergTable, snapshot_id: int, *, without: Set[str]
) -> SnapshotSchema:
    """Return the schema of a snapshot without the columns that hold a type of these names."""
    with translate_source_errors(table.name):
        schema = table.select_columns(snapshot_id, without=WITHOUT_FORM | without)
        text = str(table.bridge.get_statics(SCHEMA_PARSER).toJson(schema))
        columns = parse_schema(text).fields
        return SnapshotSchema(
            iceberg_schema=text,
            spark_schema=build_spark_schema(table.bridge, text),
            text_columns=tuple(column.name for column in columns if has_type(column, READ_AS_TEXT)),
            name_mapping=table.properties.get(NAME_MAPPING),
            io_properties={str(k): str(v) for k, v in table.java.io().properties().items()},
        )


def build_spark_schema(bridge: Bridge, schema: str) -> T.StructType:
    """Return the Spark schema of an Iceberg schema in JSON, with strings for types read as text."""
    parser = bridge.get_statics(SCHEMA_PARSER)
    convertible = parser.fromJson(json.dumps(_replace_by_strings(json.loads(schema))))
    # Iceberg's own conversion, so that both readers give the same types for all other columns.
    converted = bridge.get_statics("org.apache.iceberg.spark.SparkSchemaUtil").convert(convertible)
    return T.StructType.fromJson(json.loads(converted.json()))


def _replace_by_strings(json_value: Any) -> Any:
    """Return the JSON of a type, or of a part of it, with `string` for types read as text."""
    if isinstance(json_value, list):
        return [_replace_by_strings(item) for item in json_value]
    if not isinstance(json_value, dict):
        return json_value
    # Elsewhere the name of a type may be the name of a column.
    type_keys = {"type", "element", "key", "value"}
    return {
        key: "string"
        if key in type_keys and _is_read_as_text(value)
        else _replace_by_strings(value)
        for key, value in json_value.items()
    }


def _is_read_as_text(value: Any) -> bool:
    return isinstance(value, str) and value in READ_AS_TEXT
