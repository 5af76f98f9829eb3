"""Where a batch ends, and whether it is worth more than an export.

Few questions are asked, and a batch never ends beyond what fits.
"""

from dataclasses import dataclass
from typing import Self, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_spark.diff.change_plan import ChangePlan
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_spark.replication.batches import find_last_that_fits, find_reason_to_rebuild


@pytest.mark.parametrize(
    ("ends", "up_to", "expected"),
    [
        pytest.param([1, 2, 3, 4, 5], 3, 3, id="in the middle"),
        pytest.param([1, 2, 3, 4, 5], 4, 4, id="the last but one"),
        pytest.param([1, 2, 3, 4, 5], 0, 1, id="not even the first"),
        pytest.param([1, 2], 1, 1, id="the first of two"),
        pytest.param([5], 0, 5, id="no other"),
    ],
)
def test_a_batch_ends_at_the_last_snapshot_that_fits(
    ends: list[int], up_to: int, expected: int
) -> None:
    assert find_last_that_fits(ends, lambda end: end <= up_to) == expected


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_whatever_fits_the_end_is_the_first_or_fits_and_few_are_asked(fitting: list[bool]) -> None:
    asked: list[int] = []

    def is_fitting(end: int) -> bool:
        asked.append(end)
        return fitting[end]

    end = find_last_that_fits(range(len(fitting)), is_fitting)
    assert end == 0 or fitting[end]
    assert len(asked) <= len(fitting).bit_length()


@dataclass
class SizedTable:
    """A table of `stated` bytes, of which a plan from snapshot 7 to 8 reads `changed`."""

    stated: int | None
    changed: int
    planned: int = 0
    name: str = "shop.orders"

    @property
    def java(self) -> Self:
        """The same in Java: its snapshots are asked for nothing but their summaries."""
        return self

    def snapshot(self, snapshot_id: int) -> Self:
        assert snapshot_id == 8
        return self

    def summary(self) -> dict[str, str]:
        return {} if self.stated is None else {"total-files-size": str(self.stated)}

    def list_snapshots_between(self, from_id: int, to_id: int) -> None:
        """The table was rolled back in between."""
        assert (from_id, to_id) == (7, 8)

    def plan(self, table: object, from_id: int | None, to_id: int) -> ChangePlan:
        assert (table, from_id, to_id) == (self, 7, 8)
        self.planned += 1
        return cast("ChangePlan", SizedPlan(bytes=self.changed))


@dataclass
class SizedPlan:
    bytes: int


@pytest.mark.parametrize(
    ("above", "stated", "changed", "rebuilds"),
    [
        pytest.param(0.5, 100, 50, False, id="just as much"),
        pytest.param(0.5, 100, 51, True, id="more"),
        pytest.param(2, 100, 199, False, id="both sides of a whole rewrite"),
        pytest.param(0.5, None, 51, False, id="a table whose size nobody states"),
        pytest.param(0.5, 0, 80, False, id="a table that became empty"),
    ],
)
def test_a_table_is_exported_again_where_its_changes_read_a_larger_share_of_it(
    above: float, stated: int | None, changed: int, rebuilds: bool
) -> None:
    table, noted = SizedTable(stated, changed), list[bool]()
    reason = find_reason_to_rebuild(
        cast("IcebergTable", table),
        7,
        8,
        above=above,
        plan=table.plan,
        note_progress=lambda: noted.append(True),
    )
    assert (reason is not None) == rebuilds
    assert len(noted) == table.planned
    if reason:
        assert reason.endswith("and changelog.rebuildAbove is 0.5")
