"""A step is cancelled when nothing is done in it, and not because it takes long."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from icdc_api.errors import Bug, DriverLost, Fenced, IcdcError, NoProgress, TargetUnavailable
from icdc_spark.iceberg.jvm.table_jobs import JobProgress
from icdc_spark.process.step_watch import StepWatch

pytestmark = pytest.mark.unit

SECONDS = 60.0
RUNNING = JobProgress(
    newest=7, running=("Spark job 7, 3 of 8 tasks ended",), metrics=("rows -> 10",)
)
READ_MORE = replace(RUNNING, metrics=("rows -> 20",))


class PlayedJobs:
    """Stands for the jobs in the JVM."""

    def __init__(self) -> None:
        self.seen = RUNNING
        self.cancelled: list[str] = []
        self.has_ended = False
        self.on_read: Callable[[str], None] = lambda _: None

    def read(self, tag: str) -> JobProgress:
        self.on_read(tag)
        if self.has_ended:
            raise DriverLost("the JVM of the driver has ended")
        return self.seen

    def cancel(self, tag: str) -> None:
        if self.has_ended:
            raise DriverLost("the JVM of the driver has ended")
        self.cancelled.append(tag)


class TimedStep:
    """One step of a table, and a watch whose time is the test's."""

    def __init__(self) -> None:
        self.spark = PlayedJobs()
        self.watch = StepWatch(SECONDS, self.spark)
        self.stuck: list[NoProgress] = []
        self._now = time.monotonic()
        self._open = ExitStack()
        self._open.enter_context(self.watch.step("db.a", "a", self.stuck.append))
        self.wait(0)

    def wait(self, seconds: float) -> None:
        """Let time pass, and the watch poll at its end."""
        self._now += seconds
        self.watch.judge_all(self._now)

    def end(self, error: IcdcError | None = None) -> None:
        """Let the step end, perhaps with an error."""
        with self._open:
            if error is not None:
                raise error


@pytest.fixture
def step() -> Iterator[TimedStep]:
    watched = TimedStep()
    yield watched
    watched._open.pop_all()


def test_a_step_in_which_something_is_done_may_take_for_ever(step: TimedStep) -> None:
    for _ in range(10):
        step.spark.seen = READ_MORE
        step.wait(SECONDS - 1)
        step.spark.seen = RUNNING
        step.wait(SECONDS - 1)
    assert not step.spark.cancelled
    step.end()


def test_an_error_that_nobody_foresaw_keeps_no_step_from_being_judged(step: TimedStep) -> None:
    def fail(_: str) -> None:
        raise ValueError("nobody foresaw")

    step.spark.on_read = fail
    step.wait(SECONDS / 2)
    step.spark.on_read = lambda _: None
    step.wait(SECONDS)
    assert step.spark.cancelled == ["a"]


@pytest.mark.parametrize("error", [NoProgress("cancelled"), Bug("nobody foresaw")])
def test_the_jobs_of_a_step_without_progress_are_cancelled_and_it_fails(
    step: TimedStep, error: IcdcError
) -> None:
    step.wait(SECONDS - 1)
    assert not step.spark.cancelled
    step.wait(2)
    assert step.spark.cancelled == ["a"]
    with pytest.raises(NoProgress) as failed:
        step.end(error)
    assert not step.stuck
    assert "db.a: no progress since 20" in failed.value.message
    assert "Z: Spark job 7, 3 of 8 tasks ended. The step is cancelled and" in failed.value.message
    assert failed.value.retryable


def test_a_step_that_ends_well_after_it_was_cancelled_fails_too(step: TimedStep) -> None:
    step.wait(SECONDS + 1)
    with pytest.raises(NoProgress):
        step.end()


@pytest.mark.parametrize("error", [Fenced("taken over"), TargetUnavailable("no answer")])
def test_an_error_that_says_more_than_that_time_has_passed_is_raised(
    step: TimedStep, error: IcdcError
) -> None:
    step.wait(SECONDS + 1)
    with pytest.raises(type(error)):
        step.end(error)


def test_a_step_that_does_not_end_when_it_is_cancelled_is_reported_once(step: TimedStep) -> None:
    step.spark.seen = JobProgress()
    step.wait(0)
    step.wait(SECONDS + 1)
    assert not step.stuck
    step.wait(1)
    step.wait(1)
    (error,) = step.stuck
    assert "outside of Spark jobs. The step is retried as soon as it ends" in error.message
    # Whatever it has begun meanwhile.
    assert step.spark.cancelled == ["a", "a", "a"]
    with pytest.raises(NoProgress):
        step.end()


def test_a_step_that_notes_what_no_job_shows_goes_on(step: TimedStep) -> None:
    for _ in range(3):
        step.watch.note("db.a")
        step.wait(SECONDS - 1)
    assert not step.spark.cancelled
    step.wait(SECONDS - 1)
    step.wait(2)
    assert step.spark.cancelled == ["a"]
    with pytest.raises(NoProgress):
        step.end()


def test_a_step_is_not_judged_while_it_is_in_a_call_that_has_a_limit(step: TimedStep) -> None:
    with step.watch.call("db.a"):
        for _ in range(3):
            step.wait(SECONDS + 1)
    assert not step.spark.cancelled
    step.end()


def test_the_time_without_progress_begins_when_such_a_call_ends() -> None:
    spark = PlayedJobs()
    watch = StepWatch(SECONDS, spark)
    with watch.step("db.a", "a", lambda _: None):
        begun = time.monotonic()
        watch.judge_all(begun - SECONDS + 1)
        with watch.call("db.a"):
            pass
        watch.judge_all(begun + 2)
    assert not spark.cancelled


def test_a_step_whose_job_waits_for_executors_is_not_judged(step: TimedStep) -> None:
    step.spark.seen = replace(RUNNING, is_waiting=True)
    for _ in range(3):
        step.wait(SECONDS + 1)
    assert not step.spark.cancelled
    step.end()


def test_a_call_of_a_table_that_is_in_no_step_is_let_through() -> None:
    with StepWatch(SECONDS, PlayedJobs()).call("db.a"):
        pass


def test_a_step_that_has_ended_is_not_judged_any_more(step: TimedStep) -> None:
    step.end()
    step.wait(2 * SECONDS)
    assert not step.spark.cancelled


def test_a_step_that_ends_while_another_is_judged_is_not_cancelled() -> None:
    spark = PlayedJobs()
    watch = StepWatch(SECONDS, spark)
    first, second = ExitStack(), ExitStack()
    first.enter_context(watch.step("db.a", "a", lambda _: None))
    second.enter_context(watch.step("db.b", "b", lambda _: None))
    begun = time.monotonic()
    watch.judge_all(begun)
    # The watch has begun to judge all of them by then.
    spark.on_read = lambda tag: second.close() if tag == "a" else None
    watch.judge_all(begun + SECONDS + 1)
    assert spark.cancelled == ["a"]
    with pytest.raises(NoProgress):
        first.close()


def test_the_end_of_the_jvm_ends_no_watch(step: TimedStep) -> None:
    step.spark.has_ended = True
    step.wait(0)
    step.wait(SECONDS + 1)
    with pytest.raises(DriverLost):
        step.end(DriverLost("the JVM of the driver has ended"))


def test_the_watch_polls_by_itself_while_it_is_open() -> None:
    spark, cancelled = PlayedJobs(), threading.Event()
    with StepWatch(0.1, spark) as watch, pytest.raises(NoProgress):  # noqa: SIM117
        with watch.step("db.a", "a", lambda _: cancelled.set()):
            assert cancelled.wait(SECONDS)
    assert spark.cancelled
