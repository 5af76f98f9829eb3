"""Read the live entries of manifests without a scan, with few columns of them.

This module must not know which deletes apply to which data file: Iceberg says that
(`partial_scan`). An entry is live if its file is in the snapshot of its manifest.

Example: a delete manifest lists these files; the table is partitioned by `country` with spec 1.

    delete file                                     data_file       partition      fields
    deletion vector of a.parquet                    a.parquet       1/country=NL   ()
    positions in a.parquet alone                    a.parquet       1/country=NL   ()
    positions in several files of one partition     None            1/country=NL   ()
    equality deletes on id, of spec 1               None            1/country=NL   (1,)
    equality deletes on id, of the unpartitioned    None            None           (1,)
    spec 0, which apply to any file
"""

import json
from collections.abc import Callable, Collection, Container, Iterator
from typing import Any, NamedTuple

from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.manifests import FILE, MANIFEST, Manifests
from icdc_spark.iceberg.scan.planning import list_delete_names, list_equality_fields
from icdc_spark.iceberg.table.tables import IcebergTable

_DELETE = "org.apache.iceberg.DeleteFile"
_READER = "org.apache.iceberg.ManifestReader"
_SPEC = "org.apache.iceberg.PartitionSpec"

# Manifests are Avro: columns that are not selected are skipped, and statistics are most of a file.
_PATH = ("file_path",)
_PATH_AND_PARTITION = ("file_path", "partition")
_DELETE_COLUMNS = (
    "file_path",
    "partition",
    "content",
    "file_format",
    "content_offset",
    "referenced_data_file",
    "equality_ids",
    # Older writers do not set `referenced_data_file`: equal bounds of the column of paths then say
    # that a position delete file is for one data file.
    "lower_bounds",
    "upper_bounds",
)
_BOUNDS = ("file_path", "record_count", "lower_bounds", "upper_bounds")


class DataEntry(NamedTuple):
    """A live data file in a manifest."""

    sequence: int
    """Its data sequence number: equality deletes with a higher one apply to it."""
    manifest: str
    """The path of the manifest."""
    partition: str | None
    """Spec id and partition path, such as `1/country=NL`; None if unpartitioned or not read."""


class DeleteEntry(NamedTuple):
    """A live delete file in a manifest."""

    name: str
    """Its name, as in `PlannedFile.deletes`."""
    sequence: int
    """Its data sequence number."""
    data_file: str | None
    """The location of the only data file that it applies to; None if it may apply to several."""
    partition: str | None
    """The partition of the data files that it applies to; None if it may apply to any."""
    spec_id: int
    """The id of its partition spec."""
    fields: tuple[int, ...]
    """The field ids that it compares, sorted; empty if it names positions."""


def read_data_entries(
    table: IcebergTable,
    manifests: Manifests,
    only: Collection[str] | None = None,
    *,
    partitions: bool = False,
) -> dict[str, DataEntry]:
    """Return the live data files of these manifests by location; `only` files at these locations.

    `partitions` says whether to read their partitions as well.
    """
    # Without this Iceberg would open all manifests to find nothing.
    if not manifests or (only is not None and not only):
        return {}
    bridge = table.bridge
    predicate = None
    if only is not None:
        predicate = bridge.is_any_of(only, [bridge.build_function(FILE, "location")])
    files = _read(table, manifests, "read", select_columns(partitions), predicate)
    # Where a location occurs twice, the last one counts.
    return dict(describe_data_files(table, files, partitions=partitions))


def select_columns(partitions: bool) -> Collection[str]:
    """Return the columns of a manifest that `describe_data_files` reads."""
    return _PATH_AND_PARTITION if partitions else _PATH


def describe_data_files(
    table: IcebergTable, files: Any, *, partitions: bool
) -> list[tuple[str, DataEntry]]:
    """Return the data files of a Java list, each after its location, in order.

    They have their partitions if these were read.
    """
    bridge = table.bridge
    columns = zip(
        bridge.read_texts(bridge.map(files, FILE, "location")),
        bridge.read_texts(bridge.map(files, FILE, "dataSequenceNumber")),
        bridge.read_texts(bridge.map(files, FILE, "manifestLocation")),
        _list_partitions(table, files) if partitions else [None] * int(files.size()),
        strict=True,
    )
    return [
        (location, DataEntry(int(sequence), manifest, partition))
        for location, sequence, manifest, partition in columns
    ]


def load_files_with_bounds(
    table: IcebergTable, manifests: Manifests, only: Collection[str]
) -> list[Any]:
    """Return the live data files at these locations as Java objects with their column bounds."""
    predicate = table.bridge.is_any_of(only, [table.bridge.build_function(FILE, "location")])
    return table.bridge.list_elements(_read(table, manifests, "read", _BOUNDS, predicate))


def open_data_files(table: IcebergTable, manifests: Manifests, columns: Collection[str]) -> Any:
    """Return a Java closeable iterable of the live data files, which have these columns alone.

    The files of one manifest come in its order, those of several mixed.
    """
    return _open(table, manifests, "read", columns)


def slice_files(
    table: IcebergTable, window: Manifests, open_files: Callable[[], Any], limit: int
) -> Iterator[Any]:
    """Yield Java lists of what `open_files` gives, a Java closeable iterable of the window.

    Manifests that follow each other are read together. A single one, which may have more files than
    the limit, comes in its order, in lists of up to `limit`.
    """
    bridge = table.bridge
    if len(window) > 1:
        with translate_source_errors(table.name):
            files = bridge.drain(open_files())
        yield files
        return
    start, count = 0, limit
    # A full list does not say whether more follows; one that is not full is the last.
    while count == limit:
        with translate_source_errors(table.name):
            files = bridge.slice(open_files(), start, limit)
            count = int(files.size())
        yield files
        start += count


def read_delete_entries(table: IcebergTable, manifests: Manifests) -> list[tuple[str, DeleteEntry]]:
    """Return the live delete files of these manifests, each with the path of its manifest."""
    if not manifests:
        return []
    bridge = table.bridge
    files = _read(table, manifests, "readDeleteManifest", _DELETE_COLUMNS, None)
    data_files = bridge.map_static(
        files, "org.apache.iceberg.util.ContentFileUtil", "referencedDataFileLocation", _DELETE
    )
    columns = zip(
        bridge.read_texts(bridge.map(files, FILE, "manifestLocation")),
        list_delete_names(bridge, files),
        bridge.read_texts(bridge.map(files, FILE, "dataSequenceNumber")),
        bridge.read_texts(data_files),
        _list_partitions(table, files),
        bridge.read_texts(bridge.map(files, FILE, "specId")),
        list_equality_fields(bridge, files),
        strict=True,
    )
    entries = [
        (
            manifest,
            DeleteEntry(
                name=name,
                sequence=int(sequence),
                data_file=None if data_file == "null" else data_file,
                partition=partition,
                spec_id=int(spec_id),
                fields=fields,
            ),
        )
        for manifest, name, sequence, data_file, partition, spec_id, fields in columns
    ]
    # The JVM may free them at once; py4j lets go of a list late.
    bridge.clear(files)
    return entries


def load_delete_files(
    table: IcebergTable, manifests: Manifests, names: Container[str]
) -> list[Any]:
    """Return the live delete files with these names as Java objects with all columns.

    They are in the order of their names.
    """
    bridge = table.bridge
    # All columns: readers need sizes, counts, partitions and keys of encryption.
    files = _read(table, manifests, "readDeleteManifest", None, None)
    positions = sorted((name, at) for at, name in enumerate(list_delete_names(bridge, files)))
    return bridge.list_elements(bridge.pick(files, [at for name, at in positions if name in names]))


def _list_partitions(table: IcebergTable, files: Any) -> list[str | None]:
    """Return the partition of each file of a Java list, with the id of its spec.

    None for an unpartitioned file. Also None where a source column of the spec was dropped from the
    table: the partition's value can no longer be read.
    """
    bridge = table.bridge
    spec_ids = bridge.read_texts(bridge.map(files, FILE, "specId"))
    partitions: list[str | None] = [None] * len(spec_ids)
    for spec_id in set(spec_ids):
        spec = table.java.specs().get(int(spec_id))
        if spec.isUnpartitioned() or not _has_source_columns(table, spec):
            continue
        positions = [at for at, number in enumerate(spec_ids) if number == spec_id]
        values = bridge.map(bridge.pick(files, positions), FILE, "partition")
        struct = "org.apache.iceberg.StructLike"
        paths = bridge.map_by(values, spec, _SPEC, "partitionToPath", struct)
        for at, path in zip(positions, bridge.read_texts(paths), strict=True):
            # The same path of two specs is not the same partition.
            partitions[at] = f"{spec_id}/{path}"
    return partitions


def _has_source_columns(table: IcebergTable, spec: Any) -> bool:
    """Return whether the table still has each column that the spec is derived from."""
    text = table.bridge.get_statics("org.apache.iceberg.PartitionSpecParser").toJson(spec)
    schema = table.java.schema()
    fields = json.loads(text)["fields"]
    return all(schema.findField(field["source-id"]) is not None for field in fields)


def _read(
    table: IcebergTable,
    manifests: Manifests,
    method: str,
    columns: Collection[str] | None,
    predicate: Any,
) -> Any:
    """Return a Java list of the live files that the predicate accepts.

    The files have these columns, or all for None. `method` is the one of Iceberg's `ManifestFiles`
    that opens manifests of this content.
    """
    return table.bridge.drain(_open(table, manifests, method, columns), predicate)


def _open(
    table: IcebergTable, manifests: Manifests, method: str, columns: Collection[str] | None
) -> Any:
    """Return a Java closeable iterable of the live files; see `_read`."""
    bridge = table.bridge
    readers = bridge.map_static(
        manifests.java,
        "org.apache.iceberg.ManifestFiles",
        method,
        MANIFEST,
        ("org.apache.iceberg.io.FileIO", table.java.io()),
        ("java.util.Map", table.java.specs()),
    )
    if columns is not None:
        selected = bridge.create_object("java.util.ArrayList")
        for column in columns:
            selected.add(column)
        readers = bridge.map(readers, _READER, "select", ("java.util.Collection", selected))
    # Several manifests at a time, in the pool that Iceberg's own planning uses.
    pool = bridge.get_statics("org.apache.iceberg.util.ThreadPools").getWorkerPool()
    return bridge.create_object("org.apache.iceberg.util.ParallelIterable", readers, pool)
