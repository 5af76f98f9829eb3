"""Where a batch ends: asked few questions, and never beyond what fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_spark.replication.batches import find_last_that_fits


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

    def fits(end: int) -> bool:
        asked.append(end)
        return fitting[end]

    end = find_last_that_fits(range(len(fitting)), fits)
    assert end == 0 or fitting[end]
    assert len(asked) <= len(fitting).bit_length()
