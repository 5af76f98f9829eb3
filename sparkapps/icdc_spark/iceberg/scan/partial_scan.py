"""A scan of some manifests of a snapshot, by Iceberg's own planning.

Which deletes apply to which data files is Iceberg's to say, and it says so only of a snapshot. So
here a snapshot is made that has just the chosen manifests and lives in this process only: its list
of manifests is written to memory, where Iceberg reads it once and remembers it. Public classes, but
that a snapshot remembers its manifests is an internal contract of the release.
"""

import json
import uuid
from typing import Any

from icdc_spark.iceberg.scan.manifests import Manifests
from icdc_spark.iceberg.table.tables import IcebergTable


def partial_scan(table: IcebergTable, data: Manifests, deletes: Manifests) -> Any:
    """A Java closeable iterable of `FileScanTask` for the live files of the data manifests.

    A task has those of its deletes that the delete manifests hold.
    """
    bridge = table.bridge
    metadata = table.java.operations().current()
    snapshot = _snapshot(table, metadata, data, deletes)
    builder = bridge.statics("org.apache.iceberg.TableMetadata").buildFrom(metadata)
    operations = bridge.new(
        "org.apache.iceberg.StaticTableOperations",
        builder.addSnapshot(snapshot).build(),
        table.java.io(),
    )
    partial = bridge.new("org.apache.iceberg.BaseTable", operations, table.java.name())
    return partial.newScan().useSnapshot(snapshot.snapshotId()).planFiles()


def _snapshot(table: IcebergTable, metadata: Any, data: Manifests, deletes: Manifests) -> Any:
    """The Java snapshot, which has read its list of manifests already."""
    memory = table.bridge.new("org.apache.iceberg.inmemory.InMemoryFileIO")
    unique = uuid.uuid4()
    place = f"memory:{unique}.avro"
    _write_list(table, memory.newOutputFile(place), data, deletes)
    described = {
        "snapshot-id": unique.int >> 65,
        "sequence-number": metadata.lastSequenceNumber(),
        "timestamp-ms": metadata.lastUpdatedMillis(),
        "manifest-list": place,
        "summary": {"operation": "append"},
        "first-row-id": metadata.nextRowId(),
        "added-rows": 0,
    }
    snapshot = table.bridge.statics("org.apache.iceberg.SnapshotParser").fromJson(
        json.dumps(described)
    )
    snapshot.allManifests(memory)
    memory.deleteFile(place)
    return snapshot


def _write_list(table: IcebergTable, output: Any, data: Manifests, deletes: Manifests) -> None:
    bridge = table.bridge
    avro = bridge.statics("org.apache.iceberg.FileFormat").valueOf("AVRO")
    schema = bridge.statics("org.apache.iceberg.ManifestFile").schema()
    writer = bridge.statics("org.apache.iceberg.InternalData").write(avro, output)
    appender = writer.schema(schema).named("manifest_file").build()
    try:
        appender.addAll(data.java)
        appender.addAll(deletes.java)
    finally:
        appender.close()
