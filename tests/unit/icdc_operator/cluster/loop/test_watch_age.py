"""A watch is judged by what a list has shown and the watch has not told."""

import pytest

from icdc_operator.cluster.loop.watch_age import WatchAge
from icdc_operator.cluster.queue import PipelineKey

pytestmark = pytest.mark.unit

SHOP, TAXI = PipelineKey("default", "shop"), PipelineKey("default", "taxi")


class TimedWatchAge:
    """A WatchAge with the clock of the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.age = WatchAge(lambda: self.now)

    def compare(self, versions: dict[PipelineKey, str]) -> None:
        self.age.note_list(versions, began=self.age.get_versions())


@pytest.fixture
def watch() -> TimedWatchAge:
    return TimedWatchAge()


def test_a_quiet_watch_that_missed_nothing_is_well(watch: TimedWatchAge) -> None:
    watch.age.note_event(SHOP, "10", deleted=False)
    watch.now = 9999.0
    watch.compare({SHOP: "10"})
    assert (watch.age.missed_seconds, watch.age.last_event_seconds) == (0.0, 9999.0)


@pytest.mark.parametrize(
    ("version", "listed", "missed"),
    [
        pytest.param("10", "11", True, id="a newer version"),
        pytest.param("9", "10", True, id="numbers, not text"),
        pytest.param("10", "9", False, id="a list that lags behind"),
        pytest.param("a", "b", True, id="versions that are no numbers"),
    ],
)
def test_what_is_missed_is_what_is_newer(
    watch: TimedWatchAge, version: str, listed: str, missed: bool
) -> None:
    watch.age.note_event(SHOP, version, deleted=False)
    watch.compare({SHOP: listed})
    watch.now = 5.0
    assert watch.age.missed_seconds == (5.0 if missed else 0.0)


def test_what_was_never_told_is_missed_until_it_is_told(watch: TimedWatchAge) -> None:
    watch.compare({SHOP: "10", TAXI: "11"})
    watch.now = 3.0
    watch.compare({SHOP: "10", TAXI: "11"})
    watch.now = 7.0
    assert watch.age.missed_seconds == 7.0
    watch.age.note_event(SHOP, "10", deleted=False)
    watch.age.note_event(TAXI, "12", deleted=False)
    assert watch.age.missed_seconds == 0.0


def test_a_pipeline_that_went_while_the_watch_listed_anew_is_no_loss(watch: TimedWatchAge) -> None:
    watch.age.note_event(SHOP, "10", deleted=False)
    watch.compare({})
    watch.now = 5.0
    assert (watch.age.missed_seconds, watch.age.get_versions()) == (0.0, {})


def test_a_pipeline_that_was_told_of_while_the_list_was_read_stays(watch: TimedWatchAge) -> None:
    began = watch.age.get_versions()
    watch.age.note_event(SHOP, "10", deleted=False)
    watch.age.note_list({}, began=began)
    assert watch.age.get_versions() == {SHOP: "10"}


def test_a_deleted_pipeline_is_forgotten(watch: TimedWatchAge) -> None:
    watch.age.note_event(SHOP, "10", deleted=False)
    watch.age.note_event(SHOP, "11", deleted=True)
    assert watch.age.get_versions() == {}


def test_a_new_watch_owes_nothing_yet(watch: TimedWatchAge) -> None:
    watch.compare({SHOP: "10"})
    watch.now = 5.0
    watch.age.note_restart(None)
    assert watch.age.missed_seconds == 0.0


def test_a_new_watch_of_one_namespace_owes_the_same_in_others(watch: TimedWatchAge) -> None:
    there = PipelineKey("elsewhere", "shop")
    watch.age.note_event(SHOP, "10", deleted=False)
    watch.age.note_event(there, "10", deleted=False)
    watch.compare({SHOP: "10", there: "10", TAXI: "11"})
    watch.now = 5.0
    watch.age.note_restart("elsewhere")
    assert (watch.age.missed_seconds, watch.age.get_versions()) == (5.0, {SHOP: "10"})
    watch.age.note_restart("default")
    assert (watch.age.missed_seconds, watch.age.get_versions()) == (0.0, {})


def test_a_watch_of_a_store_that_was_restored_is_dead(watch: TimedWatchAge) -> None:
    watch.age.note_event(SHOP, "10", deleted=False)
    watch.compare({SHOP: "7"})
    watch.now = 300.0
    assert watch.age.missed_seconds == 0.0, "one list may lag"
    watch.compare({SHOP: "8"})
    watch.now = 500.0
    assert watch.age.missed_seconds == 200.0
    watch.age.note_event(SHOP, "9", deleted=False)
    assert watch.age.missed_seconds == 0.0


def test_lists_that_lag_now_and_then_are_no_loss(watch: TimedWatchAge) -> None:
    watch.age.note_event(SHOP, "10", deleted=False)
    for listed in ("9", "10", "9"):
        watch.compare({SHOP: listed})
        watch.now += 300.0
    assert watch.age.missed_seconds == 0.0


def test_a_list_from_before_an_event_that_overtook_it_is_no_loss(watch: TimedWatchAge) -> None:
    for listed, reported in (("9", "10"), ("10", "11")):
        began = watch.age.get_versions()
        watch.age.note_event(SHOP, reported, deleted=False)
        watch.age.note_list({SHOP: listed}, began=began)
        watch.now += 300.0
    assert watch.age.missed_seconds == 0.0
