"""What a reader outside the JVM has to know of a table, as plain data."""

import json
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import types as T  # noqa: N812

from icdc_spark.documents.forms import READ_AS_TEXT, WITHOUT_FORM, has_type
from icdc_spark.documents.schema import parse_schema
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.table.tables import SCHEMA_PARSER, IcebergTable

_NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The columns of one snapshot, and what it takes to open its files.

    `iceberg_schema` is JSON; `spark_schema` shows the same columns, those of `text_columns` (which
    hold a type that Spark has no word for) as text. `io_properties` may hold credentials.
    """

    iceberg_schema: str
    spark_schema: T.StructType
    text_columns: tuple[str, ...]
    name_mapping: str | None
    io_properties: dict[str, str] = field(repr=False)


def shape_of(table: IcebergTable, snapshot_id: int, *, without: Set[str]) -> Shape:
    """The shape of a snapshot without the columns that hold a type of these names."""
    with source_errors(table.name):
        schema = table.columns(snapshot_id, without=WITHOUT_FORM | without)
        text = str(table.bridge.statics(SCHEMA_PARSER).toJson(schema))
        columns = parse_schema(text).fields
        return Shape(
            iceberg_schema=text,
            spark_schema=shown(table.bridge, text),
            text_columns=tuple(each.name for each in columns if has_type(each, READ_AS_TEXT)),
            name_mapping=table.properties.get(_NAME_MAPPING),
            io_properties={str(k): str(v) for k, v in table.java.io().properties().items()},
        )


def shown(bridge: Bridge, schema: str) -> T.StructType:
    """The Spark schema of an Iceberg schema in JSON, types without a word in Spark as text."""
    known = bridge.statics(SCHEMA_PARSER).fromJson(json.dumps(_with_texts(json.loads(schema))))
    converted = bridge.statics("org.apache.iceberg.spark.SparkSchemaUtil").convert(known)
    return T.StructType.fromJson(json.loads(converted.json()))


def _with_texts(raw: Any) -> Any:
    """The JSON of a type, or of anything in it, with `string` for the types read as text."""
    if isinstance(raw, list):
        return [_with_texts(each) for each in raw]
    if not isinstance(raw, dict):
        return raw
    roles = {"type", "element", "key", "value"}
    return {
        name: "string" if name in roles and _is_text(value) else _with_texts(value)
        for name, value in raw.items()
    }


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value in READ_AS_TEXT
