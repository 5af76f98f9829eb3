"""A table whose index or changes are lost amid a step: the next step is decided before a call."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from icdc_api.errors import Gap, IcdcError, TargetUnavailable
from icdc_spark.process import table_follower
from icdc_spark.process.question_file import RunQuestions
from icdc_spark.process.scheduling.fair_semaphore import FairSemaphore
from icdc_spark.process.scheduling.linger import Linger
from icdc_spark.process.table_follower import TableFollower
from icdc_spark.protocol.steps import StepKind
from icdc_spark.replication.context import TableContext

pytestmark = pytest.mark.unit

LOST = Gap("the index is lost")
SILENT = TargetUnavailable("no answer")


def follow(context: TableContext) -> None:
    """Follow the table in a run that goes on, and waits for nothing."""
    retry = context.spec.retry.model_copy(update={"initial_seconds": 0})
    request = context.request.model_copy(update={"continuous": True})
    TableFollower(
        replace(context, spec=context.spec.model_copy(update={"retry": retry}), request=request),
        FairSemaphore(1),
        RunQuestions(None, {}, jobs=cast("Any", None), publish=lambda _: None),
        question_semaphore=FairSemaphore(1),
        recheck_seconds=0,
        linger=Linger(0, [context.table.name], lambda: None),
    ).run()


@pytest.mark.parametrize(
    ("outcomes", "reported"),
    [
        ([LOST], []),
        ([LOST, LOST], [LOST]),
        ([LOST, LOST, LOST], [LOST, LOST]),
        ([LOST, StepKind.CHANGELOG, LOST], []),
        ([SILENT, LOST], [SILENT]),
        ([LOST, SILENT, LOST], [SILENT, LOST]),
    ],
)
def test_a_person_is_called_only_where_the_next_step_is_lost_as_well(
    context: TableContext,
    monkeypatch: pytest.MonkeyPatch,
    outcomes: list[IcdcError | StepKind],
    reported: list[IcdcError],
) -> None:
    steps: Iterator[IcdcError | StepKind] = iter([*outcomes, StepKind.COMPLETE])
    failures: list[IcdcError] = []

    class PlayedRun:
        def __init__(self, context: TableContext) -> None:
            pass

        def advance(self) -> StepKind:
            step = next(steps)
            if isinstance(step, IcdcError):
                raise step
            return step

        def close(self) -> None:
            pass

    monkeypatch.setattr(table_follower, "TableRun", PlayedRun)
    monkeypatch.setattr(
        table_follower, "report_failure", lambda context, error: failures.append(error)
    )
    follow(context)
    assert failures == reported
