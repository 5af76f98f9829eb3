"""Scan tasks as plain data, for readers that run outside the JVM.

Iceberg has assigned the delete files already, and says so in its own JSON form of a task.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    parser = table.bridge.statics("org.apache.iceberg.ScanTaskParser")
    with source_errors(table.name):
        return [_file_task(json.loads(parser.toJson(task))) for task in table.bridge.each(tasks)]


def _file_task(raw: Mapping[str, Any]) -> FileTask:
    file = raw["data-file"]
    return FileTask(
        location=str(file["file-path"]),
        file_format=str(file["file-format"]).lower(),
        bytes=int(file["file-size-in-bytes"]),
        deletes=tuple(_delete_file(each) for each in raw.get("delete-files", ())),
        constants={
            int(part["source-id"]): value
            for part, value in zip(raw["spec"]["fields"], file.get("partition", ()), strict=False)
            if part["transform"] == "identity" and value is not None
        },
    )


def _delete_file(raw: Mapping[str, Any]) -> DeleteFile:
    return DeleteFile(
        location=str(raw["file-path"]),
        content=str(raw["content"]),
        file_format=str(raw["file-format"]).lower(),
    )
