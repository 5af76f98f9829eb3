"""Whole worlds in one process: the operator's core and runs, whatever befalls them."""

import pytest

from .child import WORLDS, find_failure, play

pytestmark = pytest.mark.unit

SEEDS = range(WORLDS // 2)
"""Always the same, unless ICDC_TEST_SEED names others; `make soak-simulation` plays new ones."""


@pytest.mark.timeout(1800)
def test_in_every_world_the_index_equals_the_table_or_the_recorded_batch_says_why_not() -> None:
    failure = find_failure(SEEDS)
    assert not failure, failure


def test_a_world_is_the_same_each_time_that_its_seed_is_played() -> None:
    stories = [play("--story", "--seed", "7").stdout for _ in range(2)]
    assert "broken: None" in stories[0]
    assert stories[0] == stories[1]


@pytest.mark.timeout(120)
def test_worlds_that_are_played_on_all_cores_come_to_an_end() -> None:
    played = play("--worlds", "6", "--cores", "0")
    assert played.returncode == 0, played.stderr
    assert played.stdout.startswith("6 worlds, ")
