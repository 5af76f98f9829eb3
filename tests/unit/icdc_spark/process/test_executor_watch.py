"""Since when a run has waited for its first executor, as its report has it."""

from pathlib import Path

import pytest

from icdc_api.errors import NodeLost
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_spark.process import executor_watch
from icdc_spark.process.executor_watch import USUAL_SECONDS, ExecutorWatch
from icdc_spark.reporting.reporter import Reporter
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.unit


class PlayedExecutors:
    """What Spark answers in turn: True where jobs wait, None where it has ended."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)

    def lack_executors(self) -> bool:
        answer = self.answers.pop(0)
        if answer is None:
            raise NodeLost("the JVM has ended")
        return answer


def make_request(path: Path) -> RunRequest:
    return RunRequest(run_id="r.1", pipeline={}, owner="a/b", epoch=1, report_path=str(path))


def follow(path: Path, *answers: bool | None) -> list[bool]:
    """Ask every 20 seconds; return after each whether the report says that the run waits."""
    reporter = Reporter(make_request(path), [])
    watch = ExecutorWatch(PlayedExecutors(*answers), reporter)
    said = []
    for number in range(len(answers)):
        watch.poll(20.0 * number)
        report = RunReport.read(path)
        since = report.without_executors_since
        said.append(since is not None)
        assert since is None or report.started_at <= since <= report.updated_at
    return said


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([True, True, False], [False, False, False]),
        ([True, True, True, True, False], [False, False, True, True, False]),
        ([True, False, True, True], [False, False, False, False]),
        ([True, None, True], [False, False, True]),
    ],
    ids=["a usual start", "none comes for long", "one came between", "Spark does not answer once"],
)
def test_a_run_says_so_once_it_waits_longer_than_executors_usually_need(
    tmp_path: Path, answers: list[bool | None], said: list[bool]
) -> None:
    assert 20 < USUAL_SECONDS < 40
    assert follow(tmp_path / "report.json", *answers) == said


class UnforeseenExecutors(PlayedExecutors):
    """The first time that they are asked for, something fails that nobody foresaw."""

    def lack_executors(self) -> bool:
        if len(self.answers) == 2:
            self.answers.pop()
            raise ValueError("nobody foresaw")
        return True


def test_an_error_that_nobody_foresaw_does_not_end_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_watch, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(executor_watch, "USUAL_SECONDS", 0.0)
    path = tmp_path / "report.json"
    reporter = Reporter(make_request(path), [])
    with ExecutorWatch(UnforeseenExecutors(True, True), reporter):

        def is_reported() -> bool:
            return RunReport.read(path).without_executors_since is not None

        wait_until(is_reported, "the report says that no executor is there")


def test_a_run_that_ends_without_an_executor_says_so_however_short_it_was(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    reporter = Reporter(make_request(path), [])
    with ExecutorWatch(PlayedExecutors(True), reporter) as watch:
        watch.poll(1.0)
        assert RunReport.read(path).without_executors_since is None
    assert RunReport.read(path).without_executors_since is not None
