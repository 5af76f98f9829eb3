"""Hypothesis strategies for what `decide` may find: also what no operator of ours has left behind.

Names, epochs and tables come from small sets, so that what does not belong together meets.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st

from icdc_api import errors
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableState, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus
from icdc_api.status.triggers import ObservedTriggers
from icdc_operator.core.observed import RunPhase, RunSeen
from icdc_testing.operator.deciding.pipelines import NOW
from icdc_testing.operator.deciding.world import TABLES

Made = TypeVar("Made")

EPOCHS = (1, 1000, int(NOW.timestamp() * 1000) + 60_000)
"""The last one is of an operator whose clock is ahead."""
NAMES = ("shop-e1-1", "shop-e1-2", "shop-c2-1", "shop-c9-3", "somebody")
FAILURES = tuple(
    Failure.of(error)
    for error in (
        errors.TargetUnavailable("down"),
        errors.NodeLost("lost"),
        errors.Unauthorized("the Secret x"),
        errors.ImagePull("no image"),
        errors.Bug("boom"),
    )
)

moments = st.integers(-7200, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))
failures = st.sampled_from(FAILURES)
_few = st.integers(0, 9)


def _build(
    target: Callable[..., Made], /, **fields: st.SearchStrategy[Any]
) -> st.SearchStrategy[Made]:
    """`st.builds` guesses further fields of a model, by aliases that it then does not take."""
    return st.fixed_dictionaries(fields).map(lambda values: target(**values))


def build_tables(name: str) -> st.SearchStrategy[TableStatus]:
    """Return a table in any state; its index may be another's."""
    return _build(
        TableStatus,
        name=st.just(name),
        index=st.sampled_from((name, "old")),
        state=st.sampled_from(TableState),
        reason=st.none() | st.sampled_from(TableReason),
        applied_snapshot_id=st.none() | _few.map(str),
        applied_at=st.none() | moments,
        current_snapshot_id=st.none() | _few.map(str),
        snapshots_behind=st.none() | _few,
    )


_run_states = st.sampled_from(RunState)
run_records = _build(
    RunStatus,
    name=st.sampled_from(NAMES[:4]),
    kind=st.sampled_from(RunKind),
    sequence=st.integers(1, 9),
    attempt=st.integers(1, 3),
    epoch=st.sampled_from(EPOCHS),
    state=_run_states,
    run_id=st.none() | st.just("shop-e1-1.1000"),
    generation=st.none() | st.integers(1, 3),
    planned_at=st.none() | moments,
    started_at=st.none() | moments,
    finished_at=st.none() | moments,
    failure=st.none() | failures,
)

_some_tables = st.tuples(*(build_tables(name) for name in TABLES)).flatmap(
    lambda both: st.sampled_from([both, both[:1], both[::-1], ()])
)

statuses = _build(
    PipelineStatus,
    observed_generation=st.none() | st.integers(1, 3),
    tables=_some_tables,
    current_run=st.none() | run_records,
    last_run=st.none() | run_records,
    recent_runs=st.lists(run_records, max_size=3).map(tuple),
    consecutive_failures=st.integers(0, 9),
    next_attempt_time=st.none() | moments,
    observed_triggers=st.none() | _build(ObservedTriggers, restart_nonce=_few, resync_nonce=_few),
)

reports = _build(
    RunReport,
    run_id=st.just("shop-e1-1.1000"),
    started_at=moments,
    updated_at=moments,
    finished=st.booleans(),
    tables=_some_tables,
    outcome=st.none() | failures,
)


@st.composite
def draw_runs(draw: st.DrawFn) -> tuple[RunSeen, ...]:
    """Up to three runs that left a trace, each name and epoch once."""
    keys: list[Any] = draw(
        st.lists(
            st.tuples(st.sampled_from(NAMES), st.sampled_from(EPOCHS)), max_size=3, unique=True
        )
    )
    return tuple(
        RunSeen(
            name,
            epoch,
            draw(st.sampled_from(RunPhase)),
            draw(st.booleans()),
            draw(st.none() | moments),
            draw(st.none() | reports),
            draw(st.none() | failures),
        )
        for name, epoch in keys
    )
