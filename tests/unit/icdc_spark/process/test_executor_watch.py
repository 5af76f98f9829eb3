"""Since when a run has waited for its first executor, as its report has it."""

from pathlib import Path

import pytest

from icdc_api.errors import NodeLost
from icdc_api.job.run_files import RunReport, RunRequest
from icdc_spark.process.executor_watch import USUAL_SECONDS, ExecutorWatch
from icdc_spark.reporting.reporter import Reporter

pytestmark = pytest.mark.unit


class PlayedExecutors:
    """What Spark says, one look after the other: True where jobs wait; None where it has ended."""

    def __init__(self, *looks: bool | None) -> None:
        self.looks = list(looks)

    def lack_executors(self) -> bool:
        look = self.looks.pop(0)
        if look is None:
            raise NodeLost("the JVM has ended")
        return look


def follow(path: Path, *looks: bool | None) -> list[bool]:
    """Look every 20 seconds; return after each whether the report says that the run waits."""
    request = RunRequest(
        run_id="r.1", pipeline={}, owner="default/shop", epoch=1, report_path=str(path)
    )
    reporter = Reporter(request, [])
    watch = ExecutorWatch(PlayedExecutors(*looks), reporter)
    said = []
    for number in range(len(looks)):
        watch.look(20.0 * number)
        report = RunReport.read(path)
        said.append(report.without_executors_since is not None)
        if said[-1]:
            assert report.started_at <= report.without_executors_since <= report.updated_at
    return said


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([True, True, False], [False, False, False]),
        ([True, True, True, True, False], [False, False, True, True, False]),
        ([True, False, True, True], [False, False, False, False]),
        ([True, None, True], [False, False, True]),
    ],
    ids=["a usual start", "none comes for long", "one came between", "Spark does not answer once"],
)
def test_a_run_says_so_once_it_waits_longer_than_executors_usually_need(
    tmp_path: Path, looks: list[bool | None], said: list[bool]
) -> None:
    assert 20 < USUAL_SECONDS < 40
    assert follow(tmp_path / "report.json", *looks) == said
