"""A driver that alone renews its report no longer is frozen; one that is not read is not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from icdc_api.errors import FailureClass, NodeLost
from icdc_api.status.runs import Failure, RunState
from icdc_operator.cluster.runs.renewals import ReportRenewals
from icdc_operator.core.observed import RunPhase, RunSeen
from icdc_testing.operator.adapter.fakes.api import make_fault, refuse
from icdc_testing.operator.adapter.fakes.world import APPLICATION, POD, FakeWorld
from icdc_testing.operator.adapter.objects import make_application, make_pod, make_running
from icdc_testing.operator.adapter.sequences import Moment, play
from icdc_testing.operator.adapter.spark_operator import begin, make_report
from icdc_testing.operator.deciding.pipelines import NOW, run_record

pytestmark = pytest.mark.unit

DRIVERS_CLOCK = datetime(2001, 1, 1, tzinfo=UTC)
HOURS = 2 * 3600
SHOP, TAXI = ("default", "shop"), ("default", "taxi")
RECORD = run_record()
NODE = Failure.of(NodeLost("its node does not answer"))

Renews = Callable[[int], int]
"""How often a driver has renewed its report by a second."""


def freeze_at(second: int, *, again: int = HOURS, every: int = 120) -> Renews:
    """Renew it every two minutes; not from one second on, until it goes on at another."""
    return lambda now: (min(now, second) + max(0, now - again)) // every


FROZEN = freeze_at(60)


@dataclass(frozen=True)
class DriverStory:
    """What a driver does, and what the operator reads of it, every 30 seconds."""

    shown: int | None
    """When the report is shown as late; None: never."""
    ended: int | None
    """When the run is given up; None: never."""
    renews: Renews = FROZEN
    other: Renews | None = None
    """The same of the driver of another pipeline."""
    unread: range = range(0)
    """Seconds in which the operator reads nothing."""
    restarted: int = -1
    """When the operator is started again."""
    leap: timedelta = timedelta(0)
    """By how much the operator's clock is set at second 500."""
    report: dict[str, object] = field(default_factory=lambda: {"renewal_seconds": 120})
    phase: RunPhase = RunPhase.RUNNING
    failure: Failure | None = None


STORIES = {
    "frozen": DriverStory(300, 600),
    "renews in time": DriverStory(None, None, freeze_at(HOURS)),
    "renews late, by a CPU that is throttled": DriverStory(None, None, freeze_at(HOURS, every=285)),
    "frozen for a while": DriverStory(300, None, freeze_at(60, again=500)),
    "another one goes on": DriverStory(300, 600, other=freeze_at(HOURS)),
    "the API server takes no reports": DriverStory(300, None, other=freeze_at(200)),
    "it takes them again, of one after the other": DriverStory(
        420, None, freeze_at(120, again=1980), other=freeze_at(120, again=1800)
    ),
    "the API server is away for ten minutes": DriverStory(
        None, None, freeze_at(100, again=710), unread=range(100, 700)
    ),
    "it is away, and the driver is frozen": DriverStory(1000, 1300, unread=range(100, 700)),
    "the operator is started again": DriverStory(300, 1000, restarted=400),
    "the operator's clock leaps ahead": DriverStory(300, 1110, leap=timedelta(hours=1)),
    "the operator's clock is set back": DriverStory(300, 1110, leap=timedelta(hours=-1)),
    "an image that renews nothing": DriverStory(None, None, report={}),
    "an image that renews it every quarter of an hour": DriverStory(
        None, None, freeze_at(HOURS, every=900), report={"renewal_seconds": 900}
    ),
    "it has reported its end": DriverStory(
        None, None, report={"renewal_seconds": 120, "finished": True}
    ),
    "it waits for a node": DriverStory(None, None, phase=RunPhase.PENDING),
    "its node does not answer": DriverStory(None, None, failure=NODE),
}


def read(story: DriverStory, renews: Renews, now: int) -> RunSeen:
    """Return the run as the adapter reads it, in the driver's time of long ago."""
    moment = DRIVERS_CLOCK + timedelta(minutes=renews(now))
    report = make_report().model_copy(update={"updated_at": moment, **story.report})
    name, epoch = RECORD.name, RECORD.epoch
    return RunSeen(name, epoch, story.phase, True, report=report, failure=story.failure)


def iterate_reads(story: DriverStory) -> Iterator[tuple[int, RunSeen]]:
    """Yield what the operator makes of the run, at each second at which it reads it."""
    renewals = ReportRenewals()
    for second in range(0, HOURS, 30):
        if second in story.unread:
            continue
        if second > story.restarted > second - 30:
            renewals = ReportRenewals()
        now = NOW + timedelta(seconds=second) + (story.leap if second >= 500 else timedelta(0))
        if story.other is not None:
            other = read(DriverStory(None, None), story.other, second)
            renewals.judge_current(TAXI, RECORD, (other,), now)
        seen = read(story, story.renews, second)
        (judged,) = renewals.judge_current(SHOP, RECORD, (seen,), now)
        yield second, judged


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_a_driver_is_given_up_if_it_alone_renews_its_report_no_longer(story: DriverStory) -> None:
    reads = list(iterate_reads(story))
    late = [second for second, run in reads if run.failure not in (None, NODE)]
    ended = [second for second, run in reads if run.given_up]
    for expected, seconds in ((story.shown, late), (story.ended, ended)):
        assert (seconds[0] if seconds else None) == pytest.approx(expected, abs=29)


def test_a_run_whose_driver_is_frozen_is_ended_and_says_why_and_the_next_one_begins() -> None:
    frozen = make_pod("Running", state=make_running(), report=make_report(renewal_seconds=120))
    played = play(begin(Moment(60, pod=frozen)))

    assert any("has not renewed its report since 2026-03-01T12:01:00Z" in t for t in played.said)
    assert played.ended is not None
    assert played.ended.state == RunState.FAILED
    failure = played.ended.failure
    assert failure is not None
    assert (failure.failure_class, failure.reason) == (
        FailureClass.NODE_LOST,
        "DriverNotResponding",
    )
    assert "platform engineer" in failure.message
    assert 655 <= played.closed_after <= 670
    assert played.next_after is not None
    assert played.next_after <= 5


BROKEN_WEBHOOK = refuse(500, 'failed calling webhook "all.example.com": no endpoints available')
QUOTA = refuse(403, "exceeded quota: configmaps")


def play_frozen(world: FakeWorld, minutes: int) -> list[RunState]:
    """Return the states of the run, read every 30 seconds for so many minutes."""
    states = []
    for _ in range(2 * minutes):
        world.now += timedelta(seconds=30)
        run = world.step().status.current_run
        states += [] if run is None else [run.state]
    return states


def test_the_only_driver_is_not_ended_while_writes_of_the_operator_get_no_answer_either() -> None:
    world = FakeWorld(run=RECORD)
    world.server.add(APPLICATION, make_application("RUNNING"))
    frozen = make_pod("Running", state=make_running(), report=make_report(renewal_seconds=120))
    world.server.add(POD, frozen)
    world.server.fault = make_fault("POST", "configmaps", BROKEN_WEBHOOK)
    assert set(play_frozen(world, 40)) == {RunState.RUNNING}

    # A refusal is an answer: it says nothing of reports, and a quota may stay as it is.
    world.server.fault = make_fault("POST", "configmaps", QUOTA)
    assert RunState.STOPPING in play_frozen(world, 11)
