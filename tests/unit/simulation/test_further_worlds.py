"""As many worlds again, for another worker of the tests: see `test_worlds`."""

import pytest

from .child import WORLDS, find_failure

pytestmark = pytest.mark.unit

SEEDS = range(WORLDS // 2, WORLDS)


@pytest.mark.timeout(1800)
def test_in_every_further_world_the_index_equals_the_table_or_the_batch_says_why_not() -> None:
    failure = find_failure(SEEDS)
    assert not failure, failure
