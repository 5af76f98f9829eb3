"""Scan tasks as plain data, for readers that run outside the JVM.

Iceberg has assigned the delete files already.
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icdc_spark.iceberg.bridge import Bridge
from icdc_spark.iceberg.errors import source_errors
from icdc_spark.iceberg.tables import IcebergTable


@dataclass(frozen=True, kw_only=True)
class DeleteFile:
    """A delete file that applies to a data file; `content` and `file_format` in Iceberg's words."""

    location: str
    content: str
    file_format: str


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
        files = bridge.map(tasks, "org.apache.iceberg.ContentScanTask", "file")
        deletes = _deletes(bridge, tasks)
        constants = _Constants(table)
        methods = ("location", "format", "fileSizeInBytes", "specId")
        columns = (_told(bridge, files, method) for method in methods)
        return [
            FileTask(
                location=location,
                file_format=file_format.lower(),
                bytes=int(size),
                deletes=deletes[at],
                constants=constants.of(int(spec_id), files, at),
            )
            for at, (location, file_format, size, spec_id) in enumerate(zip(*columns, strict=True))
        ]


def _deletes(bridge: Bridge, tasks: Any) -> list[tuple[DeleteFile, ...]]:
    """By task the delete files that Iceberg has assigned to it."""
    nested = bridge.map(tasks, "org.apache.iceberg.FileScanTask", "deletes")
    counts = [int(text) for text in bridge.texts(bridge.map(nested, "java.util.List", "size"))]
    flat = bridge.flatten(nested)
    columns = (_told(bridge, flat, method) for method in ("location", "content", "format"))
    found = (
        DeleteFile(location=location, content=content, file_format=file_format.lower())
        for location, content, file_format in zip(*columns, strict=True)
    )
    return [tuple(itertools.islice(found, count)) for count in counts]


def _told(bridge: Bridge, files: Any, method: str) -> list[str]:
    return bridge.texts(bridge.map(files, "org.apache.iceberg.ContentFile", method))


class _Constants:
    """The values of identity partitions, file by file; specs are looked into once.

    Not by Iceberg's JSON form of a task: it refuses a table of the first format version of which
    every partition field was removed.
    """

    def __init__(self, table: IcebergTable) -> None:
        self._specs = table.java.specs()
        self._bridge = table.bridge
        self._known: dict[int, tuple[Any, Mapping[str, int]]] = {}

    def of(self, spec_id: int, files: Any, position: int) -> Mapping[int, Any]:
        """By field id of the source column the value, in JSON, where it is not null."""
        if spec_id not in self._known:
            self._known[spec_id] = self._looked_into(spec_id)
        kind, sources = self._known[spec_id]
        if not sources:
            return {}
        parser = self._bridge.statics("org.apache.iceberg.SingleValueParser")
        values = json.loads(parser.toJson(kind, files.get(position).partition()))
        return {source: values[part] for part, source in sources.items() if part in values}

    def _looked_into(self, spec_id: int) -> tuple[Any, Mapping[str, int]]:
        """The type of the spec's partitions; its identity fields, by their ids in JSON."""
        spec = self._specs.get(spec_id)
        parser = self._bridge.statics("org.apache.iceberg.PartitionSpecParser")
        fields = json.loads(parser.toJson(spec))["fields"]
        identity = (each for each in fields if each["transform"] == "identity")
        sources = {str(each["field-id"]): int(each["source-id"]) for each in identity}
        return spec.partitionType(), sources
