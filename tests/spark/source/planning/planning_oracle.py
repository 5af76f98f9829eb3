"""The oracle of planning: lists both snapshots whole, by Iceberg's own planning.

It reads every manifest, so it cannot miss a file; it shares no code with the planner beyond
`compare_files`, which makes a plan of two listings.
"""

from typing import Any

from icdc_spark.diff.change_plan import ChangePlan, compare_files
from icdc_spark.iceberg.changes.changed_files import SnapshotFiles
from icdc_spark.iceberg.scan.planning import FileGroup, list_files
from icdc_spark.iceberg.table.tables import IcebergTable


def plan_by_listing(table: IcebergTable, since: int | None, until: int) -> ChangePlan:
    """Plan the changes between two snapshots from whole listings of both."""
    return compare_files(
        table, since, until, SnapshotFiles(list_files(table, since), list_files(table, until))
    )


def describe_plan(table: IcebergTable, plan: ChangePlan) -> dict[str, Any]:
    """Return everything that a plan says, as plain data to be compared; tasks in their order."""
    names = ("added", "removed", "shared_before", "shared_after", "deleted_keys")
    by_value = [
        (describe_group(table, read.data), describe_group(table, read.deletes), read.fields)
        for read in plan.value_deletes
    ]
    return {
        **{name: describe_group(table, getattr(plan, name)) for name in names},
        "by_value": by_value,
    }


def describe_group(table: IcebergTable, group: FileGroup) -> dict[str, Any]:
    tasks = [_describe_task(table, task) for task in table.bridge.list_elements(group.tasks)]
    return {"tasks": tasks, "files": group.files, "records": group.records, "bytes": group.bytes}


def _describe_task(table: IcebergTable, task: Any) -> dict[str, Any]:
    deletes = table.bridge.list_elements(task.deletes())
    return {
        "file": str(task.file().toString()),
        "sequence": task.file().dataSequenceNumber(),
        "first_row_id": task.file().firstRowId(),
        "spec": str(task.spec().toString()),
        "schema": str(task.schema().toString()),
        "range": (task.start(), task.length()),
        "deletes": sorted(f"{file.dataSequenceNumber()} {file.toString()}" for file in deletes),
    }
