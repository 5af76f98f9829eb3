import ast
import inspect
from datetime import UTC, datetime, timedelta, timezone

import pytest

from icdc_api import errors
from icdc_api.status.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    restate,
)
from icdc_api.status.pipeline_status import (
    Duplicates,
    ExportProgress,
    PipelineStatus,
    TableReason,
    TableState,
    TableStatus,
    parse_status,
)
from icdc_api.status.runs import Failure, RunKind, RunState, RunStatus

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 21, 13, 53, 59, 123456, tzinfo=UTC)


def _list_all_below(base: type[errors.IcdcError]) -> set[type[errors.IcdcError]]:
    return {kind for child in base.__subclasses__() for kind in (child, *_list_all_below(child))}


def test_reasons_are_the_errors_that_one_table_can_meet() -> None:
    named = _list_all_below(errors.TableError) | _list_all_below(errors.PassingError)
    named |= {errors.Bug, errors.OutOfMemory, errors.DiskFull, errors.NodeLost}
    assert {reason.value for reason in TableReason} == {kind.__name__ for kind in named}


EVERY_ERROR = {kind.__name__: kind for kind in _list_all_below(errors.IcdcError)}

WORDS = {
    errors.WhoActs.NOBODY: "retried",
    errors.WhoActs.DATA_ENGINEER: "author",
    errors.WhoActs.TABLE_OWNER: "table's owner",
    errors.WhoActs.SEARCH_ADMIN: "OpenSearch administrator",
    errors.WhoActs.PLATFORM: "platform engineer",
    errors.WhoActs.MAINTAINER: "maintainers",
}


def test_the_text_of_each_reason_says_who_acts_as_its_error_does() -> None:
    tree = ast.parse(inspect.getsource(TableReason))
    assert isinstance(tree.body[0], ast.ClassDef)
    texts = [
        statement.value.value
        for statement in tree.body[0].body[1:]
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ]
    for reason, text in zip(TableReason, texts, strict=True):
        assert WORDS[EVERY_ERROR[reason.value].who_acts] in str(text), reason


@pytest.mark.parametrize("name", sorted(EVERY_ERROR))
def test_every_error_has_a_form_in_the_status(name: str) -> None:
    error = EVERY_ERROR[name]
    failure = Failure.of(error("what happened"))
    assert failure.to_resource() == {
        "class": error.failure_class.value,
        "reason": name,
        "message": "what happened",
        "retryable": error.retryable,
        "whoActs": error.who_acts.value,
    }


def test_a_fenced_run_tells_which_run_owns_the_index_instead() -> None:
    failure = Failure.of(errors.Fenced("taken over", epoch=7, run_id="shop-c2-1.7"))
    assert failure.to_resource()["rival"] == {"epoch": 7, "runId": "shop-c2-1.7"}


def test_a_message_is_cut_rather_than_refused() -> None:
    failure = Failure.of(errors.Bug("x" * 5000))
    assert len(failure.message) == 1024
    assert failure.message.endswith("…")


def _make_full_status() -> PipelineStatus:
    run = RunStatus(
        name="shop-e1-1",
        kind=RunKind.EXPORT,
        sequence=1,
        epoch=3,
        state=RunState.FAILED,
        started_at=NOW,
        failure=Failure.of(errors.Throttled("slow down")),
    )
    table = TableStatus(
        name="shop.orders",
        index="orders",
        state=TableState.STALLED,
        applied_snapshot_id="8130000000000000001",
        applied_at=NOW,
        export=ExportProgress(snapshot_id="1", chunks_total=2, rows_total=10),
        duplicates=Duplicates(count=1, samples=("7",)),
        reason=TableReason.GAP,
        message="the snapshot has expired",
    )
    ready = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.TRUE,
        reason="Streaming",
        last_transition_time=NOW,
        observed_generation=1,
    )
    return PipelineStatus(conditions=(ready,), tables=(table,), current_run=run, recent_runs=(run,))


def test_a_status_is_written_and_read_without_loss() -> None:
    status = _make_full_status()
    assert parse_status(status.to_resource()) == status
    assert PipelineStatus.model_validate_json(status.model_dump_json()) == status


def test_a_status_is_camel_case_and_its_ids_are_strings() -> None:
    (table,) = _make_full_status().to_resource()["tables"]
    assert table["appliedSnapshotId"] == "8130000000000000001"
    assert table["appliedAt"] == "2026-11-21T13:53:59.123Z"
    assert table["export"] == {
        "snapshotId": "1",
        "chunksTotal": 2,
        "chunksDone": 0,
        "rows": 0,
        "rowsTotal": 10,
    }
    assert "tableUuid" not in table


def test_times_are_written_in_utc() -> None:
    local = NOW.replace(microsecond=0).astimezone(timezone(timedelta(hours=2)))
    table = TableStatus(name="a.b", index="a", applied_at=local)
    assert table.to_resource()["appliedAt"] == "2026-11-21T13:53:59Z"


def test_conditions_are_found_by_type() -> None:
    status = _make_full_status()
    assert status.holds(ConditionType.READY)
    assert not status.holds(ConditionType.STALLED)
    assert status.find_condition(ConditionType.STALLED) is None


@pytest.mark.parametrize(
    ("status", "moved"), [(ConditionStatus.TRUE, False), (ConditionStatus.FALSE, True)]
)
def test_the_time_of_a_condition_moves_only_with_its_status(
    status: ConditionStatus, moved: bool
) -> None:
    later = datetime(2026, 11, 21, 14, tzinfo=UTC)
    (old,) = _make_full_status().conditions
    result = restate(
        old, kind=ConditionType.READY, status=status, reason="Other", generation=7, now=later
    )
    assert result.reason == "Other"
    assert (result.last_transition_time == later) is moved


def test_a_run_kind_has_the_letter_of_its_name() -> None:
    assert [kind.letter for kind in RunKind] == ["e", "c", "p", "v", "r", "l", "l", "d"]


def test_only_two_states_of_a_run_are_final() -> None:
    final = {state for state in RunState if state.finished}
    assert final == {RunState.SUCCEEDED, RunState.FAILED}
