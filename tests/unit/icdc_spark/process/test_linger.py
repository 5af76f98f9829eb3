"""How long the tables of a run that has caught up wait for the next commit."""

import pytest

from icdc_spark.process.scheduling.linger import Linger
from icdc_testing.waiting.manual_clock import ManualClock

pytestmark = pytest.mark.unit


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_run_that_does_not_linger_keeps_no_table(clock: ManualClock) -> None:
    linger = Linger(0, ["orders", "users"], clock)
    linger.mark_idle("orders")
    assert not linger.must_stay()


def test_a_table_stays_as_long_as_another_is_at_work(clock: ManualClock) -> None:
    linger = Linger(60, ["orders", "users"], clock)
    linger.mark_idle("orders")
    clock.seconds = 3600
    assert linger.must_stay()
    linger.mark_idle("users")
    clock.seconds += 59
    assert linger.must_stay()
    clock.seconds += 1
    assert not linger.must_stay()


def test_a_commit_of_any_table_keeps_all_of_them_anew(clock: ManualClock) -> None:
    linger = Linger(60, ["orders", "users"], clock)
    linger.mark_idle("orders")
    linger.mark_idle("users")
    clock.seconds = 50
    linger.mark_busy("users")
    linger.mark_idle("users")
    clock.seconds = 100
    assert linger.must_stay()


def test_polls_that_find_nothing_do_not_count_as_work(clock: ManualClock) -> None:
    linger = Linger(60, ["orders"], clock)
    for second in range(0, 60, 10):
        clock.seconds = second
        linger.mark_idle("orders")
        assert linger.must_stay()
    clock.seconds = 60
    assert not linger.must_stay()


def test_where_one_has_left_all_leave(clock: ManualClock) -> None:
    linger = Linger(60, ["orders", "users"], clock)
    linger.mark_idle("orders")
    linger.mark_idle("users")
    clock.seconds = 60
    assert not linger.must_stay()
    linger.mark_busy("users")
    assert not linger.must_stay()


def test_a_failure_lets_all_leave(clock: ManualClock) -> None:
    linger = Linger(60, ["orders", "users"], clock)
    linger.mark_idle("orders")
    linger.end()
    assert not linger.must_stay()
