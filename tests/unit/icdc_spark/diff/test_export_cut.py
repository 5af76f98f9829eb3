"""Files of an export are cut into chunks by bytes and by rows."""

from itertools import groupby

import pytest

from icdc_spark.diff.export_plan import Cutter
from icdc_spark.iceberg.scan.ordered_scan import OrderedFile

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
def test_files_are_cut_into_chunks_that_exceed_a_target_only_alone(
    sizes: list[int], target_bytes: int, target_rows: int, expected: list[list[int]]
) -> None:
    files = [OrderedFile(number, records=1, bytes=size) for number, size in enumerate(sizes)]
    cutter = Cutter(target_bytes=target_bytes, target_rows=target_rows)
    chunks = [
        (number, [file.bytes for file in part]) for number, part in groupby(files, cutter.take)
    ]
    assert chunks == list(enumerate(expected))
