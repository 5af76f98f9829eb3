"""Plan a scan over some manifests of a snapshot, by Iceberg's own planning.

Iceberg decides which deletes apply to which data files, and it does so for a snapshot. So this
module builds a snapshot of just the chosen manifests, which exists in this process only. Its
manifest list is written to memory, where Iceberg reads it once and caches it. All classes are
public, but that a snapshot caches its manifests is an internal contract of the Iceberg release.

Example: a snapshot has the data manifests M1 {a, b}, M2 {c} and the delete manifests X1 (for a) and
X2 (for c). `plan_partial_scan(table, [M1], [X1])` plans a with its deletes and b without any. The
caller has to know that X2 applies to neither: Iceberg does not see it.
"""

import json
import uuid
from typing import Any

from icdc_spark.iceberg.scan.manifests import Manifests
from icdc_spark.iceberg.table.tables import IcebergTable


def plan_partial_scan(table: IcebergTable, data: Manifests, deletes: Manifests) -> Any:
    """Return a Java closeable iterable of `FileScanTask` for the live files of `data`.

    A task has those of its deletes that are in `deletes`.
    """
    bridge = table.bridge
    metadata = table.java.operations().current()
    snapshot = _build_snapshot(table, metadata, data, deletes)
    builder = bridge.get_statics("org.apache.iceberg.TableMetadata").buildFrom(metadata)
    # Operations without a catalog: the snapshot cannot be committed by accident.
    operations = bridge.create_object(
        "org.apache.iceberg.StaticTableOperations",
        builder.addSnapshot(snapshot).build(),
        table.java.io(),
    )
    partial = bridge.create_object("org.apache.iceberg.BaseTable", operations, table.java.name())
    return partial.newScan().useSnapshot(snapshot.snapshotId()).planFiles()


def _build_snapshot(table: IcebergTable, metadata: Any, data: Manifests, deletes: Manifests) -> Any:
    """Return a Java snapshot of these manifests that has read its manifest list already."""
    memory = table.bridge.create_object("org.apache.iceberg.inmemory.InMemoryFileIO")
    unique = uuid.uuid4()
    location = f"memory:{unique}.avro"
    _write_manifest_list(table, memory.newOutputFile(location), data, deletes)
    snapshot_json = {
        # 63 bits, as Iceberg makes its own ids: a snapshot id is a positive Java long.
        "snapshot-id": unique.int >> 65,
        "sequence-number": metadata.lastSequenceNumber(),
        "timestamp-ms": metadata.lastUpdatedMillis(),
        "manifest-list": location,
        "summary": {"operation": "append"},
        # Format 3 refuses a snapshot without them.
        "first-row-id": metadata.nextRowId(),
        "added-rows": 0,
    }
    snapshot = table.bridge.get_statics("org.apache.iceberg.SnapshotParser").fromJson(
        json.dumps(snapshot_json)
    )
    # Reads and caches the list. The planning below opens files by the table's own FileIO, which
    # does not know the file in memory.
    snapshot.allManifests(memory)
    # Files of InMemoryFileIO are static in the JVM: they would stay as long as the process lives.
    memory.deleteFile(location)
    return snapshot


def _write_manifest_list(
    table: IcebergTable, output: Any, data: Manifests, deletes: Manifests
) -> None:
    """Write an Avro file of `manifest_file` entries, as Iceberg's own manifest lists are."""
    bridge = table.bridge
    avro = bridge.get_statics("org.apache.iceberg.FileFormat").valueOf("AVRO")
    schema = bridge.get_statics("org.apache.iceberg.ManifestFile").schema()
    writer = bridge.get_statics("org.apache.iceberg.InternalData").write(avro, output)
    appender = writer.schema(schema).named("manifest_file").build()
    try:
        appender.addAll(data.java)
        appender.addAll(deletes.java)
    finally:
        appender.close()
