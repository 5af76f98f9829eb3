"""What can be known of equality deletes without reading them, and how they are read like data.

It must not know what is made of the rows that they take.
"""

import json
from collections.abc import Sequence, Set
from typing import Any

from icdc_spark.documents.schema import Field, Primitive, Schema
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.iceberg.table.tables import IcebergTable

_COMPARED_ALIKE = frozenset(
    {
        "boolean", "int", "long", "decimal", "date", "timestamp", "timestamptz", "string", "uuid",
        "fixed", "binary",
    }
)  # fmt: skip
"""Types of which Spark and Iceberg call the same values equal; of floats they do not."""


def comparable_fields(schema: Schema, ids: Set[int]) -> tuple[Field, ...] | None:
    """The columns with these ids, in the order of the ids; None where one is no column of the
    schema, or of a type of which equal values are not equal to everyone."""
    known = {field.id: field for field in schema.fields}
    fields = [known[each] for each in sorted(ids) if each in known]
    kinds = [field.type.name for field in fields if isinstance(field.type, Primitive)]
    if len(kinds) < len(ids) or not _COMPARED_ALIKE.issuperset(kinds):
        return None
    return tuple(fields)


def is_for_all_partitions(table: IcebergTable, spec_id: int) -> bool:
    """Whether equality deletes of this partition spec apply to files of any partition."""
    return bool(table.java.specs().get(spec_id).isUnpartitioned())


def is_partition_of(table: IcebergTable, spec_id: int, ids: Set[int]) -> bool:
    """Whether the partition of a row is made of these fields alone, so that rows that are equal in
    them are in one partition of this spec."""
    parser = table.bridge.statics("org.apache.iceberg.PartitionSpecParser")
    parts = json.loads(parser.toJson(table.java.specs().get(spec_id)))["fields"]
    return ids >= {part["source-id"] for part in parts if part["transform"] != "void"}


def as_data(table: IcebergTable, deletes: Sequence[Any]) -> FileGroup:
    """Java delete files as a group of data files, which readers open like any other."""
    bridge = table.bridge
    tasks = bridge.new("java.util.ArrayList")
    schema = bridge.statics("org.apache.iceberg.SchemaParser").toJson(table.java.schema())
    parser = bridge.statics("org.apache.iceberg.PartitionSpecParser")
    everything = bridge.statics("org.apache.iceberg.expressions.Expressions").alwaysTrue()
    residuals = bridge.statics("org.apache.iceberg.expressions.ResidualEvaluator")
    residual = residuals.unpartitioned(everything)
    none = bridge.array("org.apache.iceberg.DeleteFile", ())
    for delete in deletes:
        spec = table.java.specs().get(delete.specId())
        tasks.add(
            bridge.new(
                "org.apache.iceberg.BaseFileScanTask",
                _data_file(table, spec, delete),
                none,
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


def _data_file(table: IcebergTable, spec: Any, delete: Any) -> Any:
    builder = table.bridge.statics("org.apache.iceberg.DataFiles").builder(spec)
    builder.withPath(delete.location()).withFormat(delete.format())
    builder.withFileSizeInBytes(delete.fileSizeInBytes()).withRecordCount(delete.recordCount())
    if spec.isPartitioned():
        builder.withPartition(delete.partition())
    if delete.keyMetadata() is not None:
        builder.withEncryptionKeyMetadata(delete.keyMetadata())
    return builder.build()
