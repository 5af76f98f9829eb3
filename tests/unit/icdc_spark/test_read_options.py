"""What a property says about reading is taken where it can be, and mended where it cannot."""

import pytest

from icdc_spark.iceberg.table.read_options import MIB, choose_target_size, mend_options

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({}, {}),
        ({"write.target-file-size-bytes": "0"}, {}),
        ({"read.split.planning-lookback": "0"}, {"lookback": "1"}),
        ({"read.split.planning-lookback": "20"}, {}),
        ({"read.split.planning-lookback": "٣٣"}, {"lookback": "10"}),
        ({"read.split.planning-lookback": "9" * 5_000}, {"lookback": "10"}),
        ({"read.parquet.vectorization.batch-size": "0"}, {"batch-size": "1"}),
        ({"read.parquet.vectorization.batch-size": "1000000000"}, {"batch-size": "100000"}),
        ({"read.orc.vectorization.batch-size": "x"}, {"batch-size": "5000"}),
    ],
)
def test_only_what_cannot_be_taken_is_mended(
    properties: dict[str, str], options: dict[str, str]
) -> None:
    assert mend_options(properties) == options


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (None, 128 * MIB),
        ("16777216", 16 * MIB),
        ("1", MIB),
        ("-1", 128 * MIB),
        ("64m", 128 * MIB),
        ("many", 128 * MIB),
    ],
)
def test_both_readers_have_one_target_size(text: str | None, size: int) -> None:
    assert choose_target_size({} if text is None else {"read.split.target-size": text}) == size
