"""Scan tasks as plain data, for readers that run outside the JVM.

Iceberg has assigned the delete files already. This module must not know how files are read.

Example: a task for a file of a table partitioned by identity of `country` (field id 2) and by
`day(ts)`:

    FileTask(
        location="s3://lake/orders/country=NL/a.parquet", file_format="parquet", bytes=4096,
        deletes=(DeleteFile(location=".../d.parquet", file_format="parquet", equality_ids=(1,)),),
        constants={2: "NL"},  # a transform other than identity does not give the column's value
    )
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.scan.planning import collect_data_files
from icdc_spark.iceberg.table.tables import IcebergTable

_FILE = "org.apache.iceberg.ContentFile"
_TASK = "org.apache.iceberg.FileScanTask"


@dataclass(frozen=True, kw_only=True)
class DeleteFile:
    """A delete file that applies to a data file."""

    location: str
    """Its path."""
    file_format: str
    """`parquet`, `orc`, `avro` or `puffin`."""
    equality_ids: tuple[int, ...]
    """The ids of the fields whose values mark a row as deleted; empty for a file of positions."""


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """One data file to be read, or a part of it."""

    location: str
    """Its path."""
    file_format: str
    """`parquet`, `orc` or `avro`."""
    bytes: int
    """Its size as stored."""
    deletes: tuple[DeleteFile, ...]
    """The delete files that apply to it."""
    constants: Mapping[int, Any]
    """By field id the value, in JSON, of each column that is partitioned by identity.

    A file that `add_files` added need not hold such a column itself. Nulls are left out."""
    part: tuple[int, int] | None = None
    """Bytes of the file, the second excluded: row groups that begin there are read. None for all.
    Of a file that is cut, each row group begins in exactly one part."""


def list_file_tasks(table: IcebergTable, tasks: Any) -> list[FileTask]:
    """Return a Java list of `FileScanTask` as plain data; each must cover its whole file."""
    bridge = table.bridge
    with translate_source_errors(table.name):
        files = collect_data_files(bridge, tasks)
        methods = ("location", "format", "fileSizeInBytes")
        columns = zip(*(_read_column(bridge, files, method) for method in methods), strict=True)
        deletes, constants = _list_deletes(bridge, tasks), _list_constants(bridge, tasks)
        return [
            FileTask(
                location=location,
                file_format=file_format.lower(),
                bytes=int(size),
                deletes=deletes[at],
                constants=constants[at],
            )
            for at, (location, file_format, size) in enumerate(columns)
        ]


def find_equality_ids(table: IcebergTable, tasks: Any) -> frozenset[int]:
    """Return the ids of all fields that the equality deletes of a Java list of tasks compare."""
    bridge = table.bridge
    with translate_source_errors(table.name):
        deletes = bridge.flatten(bridge.map(tasks, _TASK, "deletes"))
        ids = bridge.map(deletes, _FILE, "equalityFieldIds")
        # There may be millions: only the distinct lists cross the border to Python.
        distinct = bridge.create_object(
            "java.util.ArrayList", bridge.create_object("java.util.HashSet", ids)
        )
        texts = bridge.read_texts(distinct)
    return frozenset(field_id for text in texts for field_id in json.loads(text) or ())


def _list_deletes(bridge: Bridge, tasks: Any) -> list[tuple[DeleteFile, ...]]:
    """Return the delete files that Iceberg has assigned to each task."""
    nested = bridge.map(tasks, _TASK, "deletes")
    counts = [int(text) for text in bridge.read_texts(bridge.map(nested, "java.util.List", "size"))]
    # One flat list: a call per task would be slow, so the counts cut it into tasks again.
    flat = bridge.flatten(nested)
    methods = ("location", "format", "equalityFieldIds")
    deletes = (
        DeleteFile(
            location=location,
            file_format=file_format.lower(),
            equality_ids=tuple(json.loads(ids) or ()),
        )
        for location, file_format, ids in zip(
            *(_read_column(bridge, flat, method) for method in methods), strict=True
        )
    )
    return [tuple(itertools.islice(deletes, count)) for count in counts]


def _read_column(bridge: Bridge, files: Any, method: str) -> list[str]:
    """Return the text of what a method of `ContentFile` answers for each file."""
    return bridge.read_texts(bridge.map(files, _FILE, method))


def _list_constants(bridge: Bridge, tasks: Any) -> list[Mapping[int, Any]]:
    """Return the `constants` of each task."""
    # Not by Iceberg's JSON form of a task: it refuses a table of the first format version of which
    # every partition field was removed.
    specs = bridge.map(tasks, "org.apache.iceberg.PartitionScanTask", "spec")
    parser = "org.apache.iceberg.PartitionSpecParser"
    spec_texts = bridge.read_texts(
        bridge.map_static(specs, parser, "toJson", "org.apache.iceberg.PartitionSpec")
    )
    sources = {text: _map_identity_fields(json.loads(text)) for text in set(spec_texts)}
    values = bridge.get_statics("org.apache.iceberg.SingleValueParser")
    # One type per spec, not per task: each costs several calls.
    partition_types: dict[str, Any] = {}
    constants: list[Mapping[int, Any]] = []
    for at, text in enumerate(spec_texts):
        if not sources[text]:
            constants.append({})
            continue
        task = tasks.get(at)
        if text not in partition_types:
            partition_types[text] = task.spec().partitionType()
        parts = json.loads(values.toJson(partition_types[text], task.file().partition()))
        constants.append(
            {source: parts[part] for part, source in sources[text].items() if part in parts}
        )
    return constants


def _map_identity_fields(spec: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the id of the source column by the id of each identity field of a spec in JSON."""
    fields = (field for field in spec["fields"] if field["transform"] == "identity")
    return {str(field["field-id"]): int(field["source-id"]) for field in fields}
