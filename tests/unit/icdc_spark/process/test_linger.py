"""How long the tables of a run that has caught up wait for the next commit."""

from collections.abc import Callable

import pytest

from icdc_spark.process.scheduling.linger import Linger
from icdc_testing.waiting.manual_clock import ManualClock

pytestmark = pytest.mark.unit


def make_linger(
    seconds: int,
    clock: ManualClock,
    tables: list[str],
    note_lingering: Callable[[], None] = lambda: None,
) -> Linger:
    return Linger(seconds, tables, note_lingering, clock=clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_run_that_does_not_linger_keeps_no_table(clock: ManualClock) -> None:
    linger = make_linger(0, clock, ["orders", "users"])
    linger.mark_idle("orders")
    assert not linger.must_stay()


def test_a_table_stays_as_long_as_another_is_at_work(clock: ManualClock) -> None:
    linger = make_linger(60, clock, ["orders", "users"])
    linger.mark_idle("orders")
    clock.seconds = 3600
    assert linger.must_stay()
    linger.mark_idle("users")
    clock.seconds += 59
    assert linger.must_stay()
    clock.seconds += 1
    assert not linger.must_stay()


def test_a_commit_of_any_table_keeps_all_of_them_anew(clock: ManualClock) -> None:
    linger = make_linger(60, clock, ["orders", "users"])
    linger.mark_idle("orders")
    linger.mark_idle("users")
    clock.seconds = 50
    linger.mark_busy("users")
    linger.mark_idle("users")
    clock.seconds = 100
    assert linger.must_stay()


def test_polls_that_find_nothing_do_not_count_as_work(clock: ManualClock) -> None:
    linger = make_linger(60, clock, ["orders"])
    for second in range(0, 60, 10):
        clock.seconds = second
        linger.mark_idle("orders")
        assert linger.must_stay()
    clock.seconds = 60
    assert not linger.must_stay()


def test_where_one_has_left_all_leave(clock: ManualClock) -> None:
    linger = make_linger(60, clock, ["orders", "users"])
    linger.mark_idle("orders")
    linger.mark_idle("users")
    clock.seconds = 60
    assert not linger.must_stay()
    linger.mark_busy("users")
    assert not linger.must_stay()


def test_a_failure_lets_all_leave(clock: ManualClock) -> None:
    linger = make_linger(60, clock, ["orders", "users"])
    linger.mark_idle("orders")
    linger.end()
    assert not linger.must_stay()


def test_it_is_noted_once_that_every_table_has_been_caught_up(clock: ManualClock) -> None:
    """Not whether all are at this moment: with many commits they may never be."""
    noted: list[float] = []
    linger = make_linger(60, clock, ["orders", "users"], lambda: noted.append(clock.seconds))
    linger.mark_idle("orders")
    linger.mark_busy("orders")
    assert noted == []
    clock.seconds = 5
    linger.mark_idle("users")
    assert noted == [5]
    linger.mark_idle("orders")
    linger.mark_busy("users")
    linger.mark_idle("users")
    assert noted == [5]


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_run_that_ends_by_itself_is_not_told_to_linger(seconds: int, clock: ManualClock) -> None:
    noted: list[str] = []
    linger = make_linger(seconds, clock, ["orders"], lambda: noted.append("noted"))
    linger.end()
    linger.mark_idle("orders")
    assert noted == []


def test_a_passing_fault_is_tried_again_only_where_the_table_was_caught_up(
    clock: ManualClock,
) -> None:
    linger = make_linger(60, clock, ["orders", "users"])
    assert not linger.tries_again("orders", 1)
    linger.mark_idle("orders")
    assert [linger.tries_again("orders", failures) for failures in (1, 2, 3)] == [True, True, False]
    assert not linger.tries_again("users", 1)
    linger.end()
    assert not linger.tries_again("orders", 1)
