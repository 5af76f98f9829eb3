"""Judge equality delete files without opening them, and turn them into data files to be read.

This module must not know what its callers conclude from the deleted rows.
"""

import json
from collections.abc import Sequence, Set
from typing import Any

from icdc_spark.documents.schema import Field, Primitive, Schema
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.iceberg.table.tables import IcebergTable

_SPEC_PARSER = "org.apache.iceberg.PartitionSpecParser"

_COMPARABLE_TYPES = frozenset(
    {
        "boolean", "int", "long", "decimal", "date", "timestamp", "timestamptz", "string", "uuid",
        "fixed", "binary",
    }
)  # fmt: skip
"""Types whose equal values Spark and Iceberg agree on; of NaN and -0.0 they do not."""


def find_comparable_fields(schema: Schema, ids: Set[int]) -> tuple[Field, ...] | None:
    """Return the columns with these field ids, in the order of the ids.

    None if an id is no top-level column of `schema`, or if Spark and Iceberg may disagree on equal
    values of its type.
    """
    columns = {field.id: field for field in schema.fields}
    fields = [columns[field_id] for field_id in sorted(ids) if field_id in columns]
    types = [field.type.name for field in fields if isinstance(field.type, Primitive)]
    if len(types) < len(ids) or not _COMPARABLE_TYPES.issuperset(types):
        return None
    return tuple(fields)


def applies_to_all_partitions(table: IcebergTable, spec_id: int) -> bool:
    """Return whether equality deletes of this partition spec apply to files of any partition."""
    # The specification of the format: an equality delete of an unpartitioned spec is global.
    return bool(table.java.specs().get(spec_id).isUnpartitioned())


def is_partition_derived(table: IcebergTable, spec_id: int, field_ids: Set[int]) -> bool:
    """Return whether these fields alone determine the partition of a row.

    Rows that are equal in the fields are then in one partition of the spec.
    """
    parser = table.bridge.get_statics(_SPEC_PARSER)
    parts = json.loads(parser.toJson(table.java.specs().get(spec_id)))["fields"]
    # A removed partition field of a format 1 table stays in the spec as `void`: always null.
    return field_ids >= {part["source-id"] for part in parts if part["transform"] != "void"}


def build_data_group(table: IcebergTable, deletes: Sequence[Any]) -> FileGroup:
    """Return Java `DeleteFile` objects as a group of data files, which any reader can open."""
    bridge = table.bridge
    tasks = bridge.create_object("java.util.ArrayList")
    schema = bridge.get_statics("org.apache.iceberg.SchemaParser").toJson(table.java.schema())
    parser = bridge.get_statics(_SPEC_PARSER)
    everything = bridge.get_statics("org.apache.iceberg.expressions.Expressions").alwaysTrue()
    residuals = bridge.get_statics("org.apache.iceberg.expressions.ResidualEvaluator")
    residual = residuals.unpartitioned(everything)
    no_deletes = bridge.create_array("org.apache.iceberg.DeleteFile", ())
    for delete in deletes:
        spec = table.java.specs().get(delete.specId())
        # An internal class: public scans never plan a delete file as data.
        tasks.add(
            bridge.create_object(
                "org.apache.iceberg.BaseFileScanTask",
                _build_data_file(table, spec, delete),
                no_deletes,
                schema,
                parser.toJson(spec),
                residual,
            )
        )
    return FileGroup(
        tasks=tasks,
        files=len(deletes),
        records=sum(int(delete.recordCount()) for delete in deletes),
        bytes=sum(int(delete.fileSizeInBytes()) for delete in deletes),
    )


def _build_data_file(table: IcebergTable, spec: Any, delete: Any) -> Any:
    """Return a Java `DataFile` that describes the file of a Java `DeleteFile`."""
    builder = table.bridge.get_statics("org.apache.iceberg.DataFiles").builder(spec)
    builder.withPath(delete.location()).withFormat(delete.format())
    builder.withFileSizeInBytes(delete.fileSizeInBytes()).withRecordCount(delete.recordCount())
    if spec.isPartitioned():
        builder.withPartition(delete.partition())
    if delete.keyMetadata() is not None:
        builder.withEncryptionKeyMetadata(delete.keyMetadata())
    return builder.build()
