"""Which runs are expected to end within a minute, so that their JVMs need not optimise code."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icdc_api.errors import SourceUnavailable
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import CreateRun
from icdc_operator.core.run_planning import SHORT_RUN, SOON
from icdc_testing.operator.deciding.pipelines import NOW, run_record

from .followed_pipeline import RUN, make_followed

pytestmark = pytest.mark.unit

SECOND = timedelta(seconds=1)
FAILURE = Failure.of(SourceUnavailable("the catalog does not answer"))


def make_ended(
    kind: RunKind = RunKind.CHANGELOG,
    *,
    ago: timedelta = SOON,
    took: timedelta = SHORT_RUN,
    **more: Any,
) -> RunStatus:
    """Return the record of a run that ended `ago` before now."""
    times = {"started_at": NOW - ago - took, "finished_at": NOW - ago}
    state = RunState.FAILED if "failure" in more else RunState.SUCCEEDED
    return run_record(
        name="shop-c1-1", kind=kind, epoch=RUN.epoch - 1, state=state, **times, **more
    )


def is_short(kind: RunKind, ended: list[RunStatus], **spec: Any) -> bool:
    """Return whether a run that is planned now is expected to be short."""
    world = make_followed(**({"changelog": {"trigger": "OnCommit"}} | spec))
    run = RUN.model_copy(update={"kind": kind, "state": RunState.PLANNED, "planned_at": NOW})
    runs = {"current_run": run, "last_run": ended[0] if ended else None, "recent_runs": (*ended,)}
    status = world.status.model_copy(update=runs)
    (create,) = decide(replace(world, status=status, runs=()), NOW).actions
    assert isinstance(create, CreateRun)
    return create.short


@pytest.mark.parametrize(
    ("ended", "short"),
    [
        ([make_ended()], True),
        ([make_ended(took=SHORT_RUN + SECOND)], False),
        ([make_ended(ago=SOON + SECOND)], False),
        ([make_ended(RunKind.EXPORT)], False),
        ([make_ended(failure=FAILURE)], False),
        ([], False),
        # What a comparison takes says nothing of a changelog.
        ([make_ended(RunKind.VERIFY, took=SHORT_RUN * 9), make_ended()], True),
        ([make_ended(RunKind.VERIFY)], False),
    ],
)
def test_a_changelog_soon_after_a_short_one_is_expected_to_be_short(
    ended: list[RunStatus], short: bool
) -> None:
    assert is_short(RunKind.CHANGELOG, ended) == short


@pytest.mark.parametrize("changelog", [{"trigger": "Continuous"}, {"lingerSeconds": 60}])
def test_a_run_that_stays_is_not_short(changelog: dict[str, Any]) -> None:
    assert not is_short(RunKind.CHANGELOG, [make_ended()], changelog=changelog)


@pytest.mark.parametrize(
    ("kind", "short"), [(RunKind.EXPORT, False), (RunKind.PLAN, True), (RunKind.DEAD_LETTERS, True)]
)
def test_other_runs_are_short_if_they_read_no_rows(kind: RunKind, short: bool) -> None:
    assert is_short(kind, [make_ended()]) == short
