"""Scan tasks as plain data, for readers that run outside the JVM.

Iceberg has assigned the delete files already.
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.scan.planning import data_files
from icdc_spark.iceberg.table.tables import IcebergTable


@dataclass(frozen=True, kw_only=True)
class DeleteFile:
    """A delete file that applies to a data file.

    `equality_ids` are the ids of the fields whose values mark a row as deleted; empty where rows
    are named by their positions.
    """

    location: str
    file_format: str
    equality_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """One whole data file to be read."""

    location: str
    file_format: str
    bytes: int
    deletes: tuple[DeleteFile, ...]
    constants: Mapping[int, Any]
    """By field id the value, in JSON, of columns that are partitioned by identity: a file that
    `add_files` brought need not hold them itself."""


def file_tasks(table: IcebergTable, tasks: Any) -> list[FileTask]:
    """The plain form of a Java list of `FileScanTask`; each must cover its whole file."""
    bridge = table.bridge
    with source_errors(table.name):
        files = data_files(bridge, tasks)
        methods = ("location", "format", "fileSizeInBytes")
        columns = zip(*(_told(bridge, files, method) for method in methods), strict=True)
        deletes, constants = _deletes(bridge, tasks), _constants(bridge, tasks)
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


def equality_ids(table: IcebergTable, tasks: Any) -> frozenset[int]:
    """The ids of all fields by whose values the equality deletes of a Java list of tasks delete."""
    bridge = table.bridge
    with source_errors(table.name):
        deletes = bridge.flatten(bridge.map(tasks, "org.apache.iceberg.FileScanTask", "deletes"))
        ids = bridge.map(deletes, "org.apache.iceberg.ContentFile", "equalityFieldIds")
        # Of millions only those that differ cross the border.
        different = bridge.new("java.util.ArrayList", bridge.new("java.util.HashSet", ids))
        told = bridge.texts(different)
    return frozenset(each for text in told for each in json.loads(text) or ())


def _deletes(bridge: Bridge, tasks: Any) -> list[tuple[DeleteFile, ...]]:
    """By task the delete files that Iceberg has assigned to it."""
    nested = bridge.map(tasks, "org.apache.iceberg.FileScanTask", "deletes")
    counts = [int(text) for text in bridge.texts(bridge.map(nested, "java.util.List", "size"))]
    flat = bridge.flatten(nested)
    methods = ("location", "format", "equalityFieldIds")
    found = (
        DeleteFile(
            location=location,
            file_format=file_format.lower(),
            equality_ids=tuple(json.loads(ids) or ()),
        )
        for location, file_format, ids in zip(
            *(_told(bridge, flat, method) for method in methods), strict=True
        )
    )
    return [tuple(itertools.islice(found, count)) for count in counts]


def _told(bridge: Bridge, files: Any, method: str) -> list[str]:
    return bridge.texts(bridge.map(files, "org.apache.iceberg.ContentFile", method))


def _constants(bridge: Bridge, tasks: Any) -> list[Mapping[int, Any]]:
    """By task the values of its identity partitions, in JSON, by field id of the source column;
    nulls are left out.

    Not by Iceberg's JSON form of a task: it refuses a table of the first format version of which
    every partition field was removed.
    """
    specs = bridge.map(tasks, "org.apache.iceberg.PartitionScanTask", "spec")
    parser = "org.apache.iceberg.PartitionSpecParser"
    told = bridge.texts(
        bridge.map_static(specs, parser, "toJson", "org.apache.iceberg.PartitionSpec")
    )
    sources = {text: _identity(json.loads(text)) for text in set(told)}
    values = bridge.statics("org.apache.iceberg.SingleValueParser")
    kinds: dict[str, Any] = {}
    found: list[Mapping[int, Any]] = []
    for at, text in enumerate(told):
        if not sources[text]:
            found.append({})
            continue
        task = tasks.get(at)
        if text not in kinds:
            kinds[text] = task.spec().partitionType()
        parts = json.loads(values.toJson(kinds[text], task.file().partition()))
        found.append({of: parts[part] for part, of in sources[text].items() if part in parts})
    return found


def _identity(spec: Mapping[str, Any]) -> Mapping[str, int]:
    """The source columns of a spec's identity fields, by the ids of these fields."""
    identity = (each for each in spec["fields"] if each["transform"] == "identity")
    return {str(each["field-id"]): int(each["source-id"]) for each in identity}
