"""Files are read together up to the target size, larger ones in parts that leave nothing out."""

import sys

import pytest

from icdc_spark.iceberg.scan.file_tasks import FileTask
from icdc_spark.readers.arrow import pack_tasks

pytestmark = pytest.mark.unit

END = sys.maxsize


@pytest.mark.parametrize(
    ("sizes", "least", "parts"),
    [
        ([], 0, []),
        ([40, 50, 250], 0, [["a", "b"], ["c 0-100"], ["c 100-200"], [f"c 200-{END}"]]),
        ([100, 1], 0, [["a"], ["b"]]),
        ([101, 1, 2], 0, [["a 0-100"], [f"a 100-{END}"], ["b", "c"]]),
        ([1, 200, 99], 0, [["a"], ["b 0-100"], [f"b 100-{END}"], ["c"]]),
        ([0, 0], 0, [["a", "b"]]),
        # Opening a file takes time as well.
        ([0, 0, 0], 50, [["a", "b"], ["c"]]),
        ([60, 10, 10], 40, [["a", "b"], ["c"]]),
    ],
)
def test_files_up_to_the_target_are_read_together_and_larger_ones_in_parts(
    sizes: list[int], least: int, parts: list[list[str]]
) -> None:
    tasks = [
        FileTask(location=name, file_format="parquet", bytes=size, deletes=(), constants={})
        for name, size in zip("abc", sizes, strict=False)
    ]
    packed = pack_tasks(tasks, 100, least)
    assert [[describe(task) for task in part] for part in packed] == parts


def describe(task: FileTask) -> str:
    if task.part is None:
        return task.location
    return f"{task.location} {task.part[0]}-{task.part[1]}"
