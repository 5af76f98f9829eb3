"""The driver's pod as a sink of reports: rare, newest first, patient at the end, never in the way.

The border is the function that patches; it is slow, fails or answers as the test says.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from icdc_api.errors import Throttled
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure
from icdc_operator.manifests.pods import pod_paths
from icdc_operator.manifests.pods.templates import DRIVER_ENV
from icdc_spark.reporting import pod_report
from icdc_spark.reporting.pod_report import Intervals, PodSink
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 21, 13, 53, 59, tzinfo=UTC)
NEVER = 3600.0
"""Longer than any test waits."""
RAISED = "raised"
"""A problem that the API's client raises, and that nobody foresaw."""
SLOW = Intervals(interval=NEVER, urgent_interval=NEVER, retry=0.01)


def make_report(number: int, *, finished: bool = False) -> RunReport:
    """Return the report number `number` of a run."""
    moment = NOW + timedelta(seconds=number)
    return RunReport(run_id="r", started_at=NOW, updated_at=moment, finished=finished)


class Api:
    """Stands for the API server: keeps what it was sent, answers what it is told to."""

    def __init__(self) -> None:
        self.received: list[RunReport] = []
        self.tries = 0
        self.problem: str | None = None
        self.open = threading.Event()
        self.open.set()

    def annotate(self, text: str, seconds: float) -> str | None:
        assert seconds > 0
        self.tries += 1
        # Bounded, so that the thread of a sink that nobody waits for comes to an end.
        self.open.wait(30)
        if self.problem == RAISED:
            raise RuntimeError(self.problem)
        if self.problem is not None:
            return self.problem
        read, problem = report_text.from_annotation(text)
        assert read is not None, problem
        self.received.append(read)
        return None


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.open.set()


@pytest.fixture
def message(tmp_path: Path) -> Path:
    return tmp_path / "termination-log"


def has_arrived(api: Api, *numbers: int) -> Callable[[], bool]:
    return lambda: api.received == [make_report(number) for number in numbers]


def test_the_first_report_is_sent_at_once(api: Api, message: Path) -> None:
    sink = PodSink(api.annotate, message, intervals=SLOW)
    sink.offer(make_report(1), urgent=False)
    wait_until(has_arrived(api, 1), "the first report arrives")
    assert not message.exists()


def test_within_the_interval_only_the_last_report_is_sent(api: Api, message: Path) -> None:
    sink = PodSink(api.annotate, message, intervals=SLOW)
    sink.offer(make_report(1), urgent=False)
    wait_until(has_arrived(api, 1), "the first report arrives")
    for number in (2, 3, 4):
        sink.offer(make_report(number), urgent=False)
    sink.deliver(make_report(5))
    assert has_arrived(api, 1, 5)()


def test_after_the_interval_the_newest_report_is_sent_without_another_offer(
    api: Api, message: Path
) -> None:
    sink = PodSink(api.annotate, message, intervals=Intervals(interval=0.3, urgent_interval=NEVER))
    sink.offer(make_report(1), urgent=False)
    wait_until(has_arrived(api, 1), "the first report arrives")
    for number in (2, 3):
        sink.offer(make_report(number), urgent=False)
    wait_until(lambda: api.received[-1] == make_report(3), "the newest report arrives")


def test_an_urgent_report_does_not_wait_for_the_interval(api: Api, message: Path) -> None:
    sink = PodSink(api.annotate, message, intervals=Intervals(interval=NEVER, urgent_interval=0.0))
    sink.offer(make_report(1), urgent=False)
    wait_until(has_arrived(api, 1), "the first report arrives")
    sink.offer(make_report(2), urgent=True)
    wait_until(has_arrived(api, 1, 2), "the urgent report arrives")


def test_what_follows_an_urgent_report_within_its_pause_is_urgent_too(
    api: Api, message: Path
) -> None:
    sink = PodSink(api.annotate, message, intervals=Intervals(interval=NEVER, urgent_interval=0.3))
    sink.offer(make_report(1), urgent=False)
    wait_until(has_arrived(api, 1), "the first report arrives")
    sink.offer(make_report(2), urgent=True)
    sink.offer(make_report(3), urgent=False)
    wait_until(
        lambda: api.received[-1] == make_report(3), "it arrives as soon as the urgent one may"
    )


def test_a_slow_server_holds_up_nobody_and_gets_the_newest_report(api: Api, message: Path) -> None:
    api.open.clear()
    sink = PodSink(api.annotate, message, intervals=Intervals(interval=0.0))
    sink.offer(make_report(1), urgent=True)
    wait_until(lambda: api.tries == 1, "the first patch is under way")
    for number in range(2, 200):
        sink.offer(make_report(number), urgent=True)
    assert api.received == []
    api.open.set()
    sink.deliver(make_report(200, finished=True))
    assert api.received[-1] == make_report(200, finished=True)
    assert len(api.received) <= 3


@pytest.mark.parametrize(
    ("problem", "said"),
    [("403 Forbidden", "403 Forbidden"), (RAISED, "RuntimeError, which is unforeseen")],
)
def test_a_report_that_was_not_sent_is_sent_with_the_next(
    api: Api, message: Path, caplog: pytest.LogCaptureFixture, problem: str, said: str
) -> None:
    caplog.set_level(logging.INFO)
    api.problem = problem
    sink = PodSink(api.annotate, message, intervals=Intervals(interval=0.0))
    sink.offer(make_report(1), urgent=False)
    wait_until(lambda: api.tries >= 3, "it is tried again without another offer")
    api.problem = None
    wait_until(has_arrived(api, 1), "the report arrives")
    # However often it was tried, it is said once.
    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == [
        f"the report is not in the pod's annotation yet: {said}"
    ]
    wait_until(lambda: "again" in caplog.text, "the end of the trouble is said")


def test_the_last_report_is_tried_until_it_arrives(api: Api, message: Path) -> None:
    api.problem = "500"
    sink = PodSink(api.annotate, message, intervals=SLOW)

    def heal() -> None:
        wait_until(lambda: api.tries >= 3, "the last report is tried again")
        api.problem = None

    healer = threading.Thread(target=heal)
    healer.start()
    sink.deliver(make_report(9, finished=True))
    healer.join()
    assert api.received == [make_report(9, finished=True)]


def test_the_last_report_is_given_up_in_time_and_the_message_is_there(
    api: Api, message: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api.problem = "500 out of order"
    sink = PodSink(api.annotate, message, intervals=Intervals(retry=0.01, last=0.2))
    sink.deliver(make_report(9, finished=True))
    assert "the last report is not in the pod's annotation: 500 out of order" in caplog.text
    ending, _ = report_text.from_termination_message(message.read_text(encoding="utf-8"))
    assert ending is not None
    assert ending.finished


def test_a_server_that_does_not_answer_delays_the_end_for_a_bounded_time(
    api: Api, message: Path
) -> None:
    api.open.clear()
    sink = PodSink(api.annotate, message, intervals=Intervals(last=0.1))
    sink.offer(make_report(1), urgent=False)
    sink.deliver(make_report(2, finished=True))
    assert api.received == []
    assert message.exists()


def test_a_second_last_report_is_delivered_too(api: Api, message: Path) -> None:
    sink = PodSink(api.annotate, message, intervals=SLOW)
    sink.deliver(make_report(1, finished=True))
    failed = make_report(2, finished=True).model_copy(
        update={"outcome": Failure.of(Throttled("the queue is full"))}
    )
    sink.offer(make_report(2), urgent=True)
    sink.deliver(failed)
    assert api.received[-1] == failed
    ending, _ = report_text.from_termination_message(message.read_text(encoding="utf-8"))
    assert ending is not None
    assert ending.outcome == failed.outcome


def test_a_message_that_cannot_be_written_is_logged(
    api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = PodSink(api.annotate, tmp_path / "none" / "termination-log", intervals=SLOW)
    sink.deliver(make_report(1, finished=True))
    assert "the termination message cannot be written" in caplog.text
    assert api.received == [make_report(1, finished=True)]


@pytest.mark.parametrize(
    "environment",
    [{}, {"POD_NAME": "p"}, {"POD_NAMESPACE": "n"}, {"POD_NAME": "", "POD_NAMESPACE": "n"}],
)
def test_outside_a_pod_there_is_no_sink(environment: dict[str, str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    assert pod_report.build_sink(environment, token) is None


def test_a_pod_without_a_token_still_writes_its_message(
    tmp_path: Path, message: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environment = {
        "POD_NAME": "p",
        "POD_NAMESPACE": "n",
        "TERMINATION_MESSAGE_PATH": str(message),
    }
    sink = pod_report.build_sink(environment, tmp_path / "token")
    assert sink is not None
    sink.offer(make_report(1), urgent=True)
    sink.deliver(make_report(2, finished=True))
    assert message.exists()
    assert "no token" in caplog.text


def test_a_pod_with_a_token_speaks_for_itself(tmp_path: Path, message: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    environment = {
        "POD_NAME": "p",
        "POD_NAMESPACE": "n",
        "TERMINATION_MESSAGE_PATH": str(message),
    }
    assert pod_report.build_sink(environment, token) is not None


def test_the_manifests_give_the_driver_what_it_looks_for() -> None:
    assert set(DRIVER_ENV) == {pod_report.NAME_VARIABLE, pod_report.NAMESPACE_VARIABLE}
    assert pod_paths.TERMINATION_MESSAGE_FILE == pod_report.MESSAGE_PATH
