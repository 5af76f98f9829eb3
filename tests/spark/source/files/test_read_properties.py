"""Whatever a table's properties say about reading, its rows are read: none of them depends on it.

With Iceberg alone each of these tables is refused, or fails in its tasks.
"""

import pytest

from icdc_testing.lake.lake import Lake

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("text", ["0", "-1", "many", "99999999999999999999999"])
@pytest.mark.parametrize(
    "name",
    [
        "read.split.target-size",
        "read.split.planning-lookback",
        "read.split.open-file-cost",
        "read.parquet.vectorization.batch-size",
    ],
)
def test_a_property_that_iceberg_refuses_keeps_no_row_from_the_index(
    lake: Lake, name: str, text: str
) -> None:
    table = lake.create("id bigint, text string", properties=f", '{name}'='{text}'")
    lake.sql(f"insert into lake.{table} values (1, 'a'), (2, 'b')")
    (exported,) = lake.export(table)
    assert {op.id for op in exported.ops} == {"1", "2"}
