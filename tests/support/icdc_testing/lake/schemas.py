"""Makes tables through Iceberg itself, with types and names that Spark's SQL cannot write."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_testing.lake.lake import Lake


def build_schema_json(fields: Mapping[str, Any], *, required: bool = False) -> str:
    """Return an Iceberg schema in JSON of top-level fields, by name and type."""
    described = [
        {"id": number, "name": name, "type": kind, "required": required}
        for number, (name, kind) in enumerate(fields.items(), start=1)
    ]
    return json.dumps({"type": "struct", "schema-id": 0, "fields": described})


def create_from_json(
    spark: SparkSession, table: str, schema: str, properties: Mapping[str, str]
) -> None:
    """Create `catalog.namespace.name` with an Iceberg schema in JSON."""
    catalog, namespace, name = table.split(".")
    bridge = Bridge(spark)
    iceberg = bridge.jvm.org.apache.iceberg
    loaded = iceberg.spark.Spark3Util.loadIcebergCatalog(bridge.java_session, catalog)
    identifier = iceberg.catalog.TableIdentifier.of(bridge.create_strings([namespace, name]))
    chosen = bridge.jvm.java.util.HashMap()
    for key, value in properties.items():
        chosen.put(key, value)
    parsed = iceberg.SchemaParser.fromJson(schema)
    loaded.buildTable(identifier, parsed).withProperties(chosen).create()


def create_with_time(lake: Lake, columns: Mapping[str, Any], *, version: int = 2) -> str:
    """Create a table with an `id`, a time `t`, and these Iceberg types; return its name."""
    name = lake.choose_name()
    described = build_schema_json({"id": "int", "t": "time", **columns})
    create_from_json(
        lake.session, f"{lake.catalog}.{name}", described, {"format-version": str(version)}
    )
    return name
