"""Files of an export are cut into chunks by bytes and by rows."""

import pytest

from icdc_spark.diff.change_plan import pack_files
from icdc_spark.iceberg.scan.planning import PlannedFile

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("sizes", "target_bytes", "target_rows", "expected"),
    [
        ([], 10, 10, []),
        ([4, 4, 4], 10, 10, [[4, 4], [4]]),
        ([20, 1, 9, 1], 10, 10, [[20], [1, 9], [1]]),
        ([1, 20, 1], 10, 10, [[1], [20], [1]]),
        ([1, 1, 1], 10, 2, [[1, 1], [1]]),
        ([1, 1], 10, 0, [[1], [1]]),
    ],
)
def test_files_are_cut_into_runs_that_pass_a_target_only_alone(
    sizes: list[int], target_bytes: int, target_rows: int, expected: list[list[int]]
) -> None:
    files = [
        PlannedFile(
            location=f"f{number}",
            sequence=1,
            position=number,
            records=1,
            bytes=size,
            deletes=frozenset(),
        )
        for number, size in enumerate(sizes)
    ]
    runs = pack_files(files, target_bytes, target_rows)
    assert [[file.bytes for file in run] for run in runs] == expected
