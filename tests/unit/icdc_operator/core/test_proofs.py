"""`spec.verify`: tables are compared again in time, and replication comes first for most of it."""

from dataclasses import replace
from typing import Any

import pytest

from icdc_api.errors import Bug, OutOfMemory
from icdc_api.spec.cautions import find_cautions
from icdc_api.status.conditions import Condition, ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableState, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunStatus
from icdc_operator.core import progress
from icdc_operator.core.asked import comparisons, resyncs
from icdc_operator.core.decide import decide
from icdc_operator.core.limits.usage import Used, measure
from icdc_operator.core.observed import CreateRun, Decision, Observed, Queued, StopRun
from icdc_testing.operator.deciding.comparing import (
    ITEMS,
    ORDERS,
    ComparingWorld,
    make_ask,
    make_verdict,
)
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up, make_spec

from .followed_pipeline import RUN, TABLES, make_followed, make_run
from .proven_pipeline import EVERY, get_planned_kind, make_compared, make_hours, make_idle

pytestmark = pytest.mark.unit


def decide_creation(world: Observed, decision: Decision) -> CreateRun:
    (action,) = decide(replace(world, status=decision.status), NOW).actions
    assert isinstance(action, CreateRun)
    return action


@pytest.mark.parametrize(
    ("age", "head", "kind"),
    [
        (7.9, "7", None),
        (7.9, "8", RunKind.CHANGELOG),
        (8.0, "7", RunKind.VERIFY),
        (8.9, "8", RunKind.CHANGELOG),
        (9.0, "8", RunKind.VERIFY),
    ],
)
def test_a_table_is_compared_again_after_eight_tenths_of_the_time(
    age: float, head: str, kind: RunKind | None
) -> None:
    decision = decide(make_idle(make_compared(ORDERS, age), head=head), NOW)
    assert get_planned_kind(decision) == kind
    if kind is None:
        assert decision.requeue_after == pytest.approx(make_hours(8 - age).total_seconds())


@pytest.mark.parametrize(
    ("second", "tables"),
    [
        (make_compared(ITEMS, 7.1), (ORDERS, ITEMS)),
        (make_compared(ITEMS, 6.9), (ORDERS,)),
        (make_caught_up(ITEMS), (ORDERS, ITEMS)),
        (make_compared(ITEMS, 30, state=TableState.EXPORTING), (ORDERS,)),
        (make_compared(ITEMS, 30, state=TableState.STALLED), (ORDERS,)),
        (make_compared(ITEMS, 0.9, equal=None), (ORDERS, ITEMS)),
        (make_compared(ITEMS, 0.9, equal=None, reason="SourceUnavailable"), (ORDERS, ITEMS)),
        (make_compared(ITEMS, 6.9, equal=None, reason="Gap"), (ORDERS,)),
        (make_compared(ITEMS, 0.0, equal=None), (ORDERS, ITEMS)),
        (make_compared(ITEMS, 0.0, equal=False), (ORDERS,)),
    ],
)
def test_tables_that_are_due_soon_share_a_run_with_one_executor(
    second: TableStatus, tables: tuple[str, ...]
) -> None:
    world = make_idle(make_compared(ORDERS, 8), second, verify={"every": "10h", "maxCpu": 2.5})
    action = decide_creation(world, decide(world, NOW))
    assert (action.tables, action.max_cpu, action.continuous) == (tables, 2.5, False)


@pytest.mark.parametrize(
    "world",
    [
        make_idle(make_compared(ORDERS, 30, state=TableState.EXPORTING)),
        make_idle(make_compared(ORDERS, 0.9, equal=None)),
        make_idle(make_compared(ORDERS, 30), verify={"maxCpu": 1}),
        make_idle(make_compared(ORDERS, 30), suspend=True),
        # Until they are read nobody knows whether replication is due.
        replace(make_idle(make_compared(ORDERS, 8.5)), heads=None),
    ],
    ids=["incomplete", "no result just now", "never", "suspended", "heads unread"],
)
def test_no_table_is_compared_that_is_not_due(world: Observed) -> None:
    assert get_planned_kind(decide(world, NOW)) is None


def test_a_comparison_that_is_queued_does_not_change_when_replication_is_due() -> None:
    world = replace(make_idle(make_compared(ORDERS, 9)), queued=Queued(poll_after=60.0))
    decision = decide(world, NOW)
    assert (get_planned_kind(decision), decision.requeue_after) == (None, 60.0)
    assert decision.status.next_attempt_time is None


@pytest.mark.parametrize(
    ("table", "head", "since", "kind"),
    [
        (make_caught_up(ORDERS), "7", 0.0, RunKind.VERIFY),
        (make_caught_up(ORDERS), "8", 8.9, RunKind.CHANGELOG),
        (make_caught_up(ORDERS), "8", 9.0, RunKind.VERIFY),
        (make_compared(ORDERS, 8.9, equal=None), "8", 30.0, RunKind.CHANGELOG),
        (make_compared(ORDERS, 9.0, equal=None), "8", 30.0, RunKind.VERIFY),
    ],
)
def test_replication_comes_first_where_there_is_no_result_too(
    table: TableStatus, head: str, since: float, kind: RunKind
) -> None:
    """`since`: for how many hours the condition Verified has been Unknown."""
    world = make_idle(table, head=head)
    verified = Condition(
        type=ConditionType.VERIFIED,
        status=ConditionStatus.UNKNOWN,
        reason="NotVerified",
        message="",
        last_transition_time=NOW - make_hours(since),
    )
    status = world.status.model_copy(update={"conditions": (verified,)})
    assert get_planned_kind(decide(replace(world, status=status), NOW)) == kind


@pytest.mark.parametrize(
    ("ahead", "every", "reason", "kind"),
    [
        (61, "10h", "NotVerified", RunKind.VERIFY),
        (60, "10h", "Equal", None),
        (61, "", "Equal", None),
    ],
)
def test_a_comparison_in_the_future_is_no_proof(
    ahead: int, every: str, reason: str, kind: RunKind | None
) -> None:
    decision = decide(make_idle(make_compared(ORDERS, -ahead / 3600), verify={"every": every}), NOW)
    verified = decision.status.find_condition(ConditionType.VERIFIED)
    assert verified is not None
    assert (verified.reason, get_planned_kind(decision)) == (reason, kind)


@pytest.mark.parametrize(
    ("update", "kind"),
    [
        # The rest of a run that made room, or a turn in the queue.
        ({"next_attempt_time": NOW}, RunKind.VERIFY),
        ({"next_attempt_time": NOW, "consecutive_failures": 1}, RunKind.CHANGELOG),
    ],
)
def test_nothing_but_a_failure_goes_before_a_comparison_in_the_end(
    update: dict[str, Any], kind: RunKind
) -> None:
    world = make_idle(make_compared(ORDERS, 9), head="8")
    decision = decide(replace(world, status=world.status.model_copy(update=update)), NOW)
    assert get_planned_kind(decision) == kind


def test_a_request_whose_tables_are_not_complete_is_not_answered_by_a_proof() -> None:
    exporting = make_caught_up(ITEMS, state=TableState.EXPORTING)
    world = make_idle(make_compared(ORDERS, 9), exporting, head="8", **make_ask())
    triggers = resyncs.record_triggers(world.status, make_spec(**make_ask()), epoch=5)
    status = world.status.model_copy(update={"observed_triggers": triggers})
    assert get_planned_kind(decide(replace(world, status=status), NOW)) == RunKind.CHANGELOG


@pytest.mark.parametrize(("age", "ends"), [(8.5, False), (9.0, True)])
def test_a_run_that_lingers_makes_room_in_the_end(age: float, ends: bool) -> None:
    world = make_followed(changelog={"lingerSeconds": 60}, **EVERY)
    tables = tuple(make_compared(name, age) for name in TABLES)
    report = make_run(takes_questions=False, lingers=True)
    world = replace(world, status=world.status.model_copy(update={"tables": tables}))
    decision = decide(replace(world, runs=(report,)), NOW)
    assert (decision.actions == (StopRun(RUN.name, graceful=True),)) == ends


@pytest.fixture
def world() -> ComparingWorld:
    """Two tables that a run has exported, just now."""
    world = ComparingWorld(make_spec(ORDERS, ITEMS, **EVERY))
    assert world.start() == "e1-1"
    world.follow()
    return world


def test_what_was_never_compared_is_compared_after_its_export(world: ComparingWorld) -> None:
    assert world.start() == "v2-1"
    assert world.verified[1] == "NotVerified"
    assert world.verified[2].startswith("shop.orders: not compared yet; shop.items: not")
    world.answer(make_verdict(ORDERS), make_verdict(ITEMS))
    at = f"{world.now:%Y-%m-%dT%H:%MZ}"
    world.reconcile()
    age = f"; the oldest comparison is of {at}, and is repeated within 10h"
    assert world.verified == (
        "True",
        "Equal",
        f"shop.orders: 10 documents; shop.items: 10 documents{age}",
    )
    assert world.status.current_run is None
    assert world.find_verification().nonce is None, "nobody has requested it"


def test_one_that_fails_holds_up_nothing_and_is_tried_again_after_a_tenth(
    world: ComparingWorld,
) -> None:
    world.start()
    world.answer(make_verdict(ORDERS), outcome=Failure.of(OutOfMemory("heap")))
    world.reconcile()
    assert (world.find_verification().equal, world.find_verification(ITEMS).reason) == (
        True,
        "OutOfMemory",
    )
    assert (world.status.next_attempt_time, world.status.consecutive_failures) == (None, 0)
    assert world.verified[1] == "NotVerified"
    assert world.status.current_run is None
    world.now += make_hours(1)
    world.start()
    assert (world.created[-1].run.kind, world.created[-1].tables) == (RunKind.VERIFY, (ITEMS,))


def test_a_fault_of_the_comparison_stalls_no_table_and_counts_as_its_result(
    world: ComparingWorld,
) -> None:
    world.start()
    stalled = {"state": TableState.STALLED, "reason": "Bug", "message": "KeyError"}
    tables = tuple(make_caught_up(name).model_copy(update=stalled) for name in (ORDERS, ITEMS))
    world.end(world.make_report(tables, outcome=Failure.of(Bug("KeyError"))))
    world.reconcile()
    assert [(table.state, table.reason) for table in world.status.tables] == [
        (TableState.STREAMING, None),
        (TableState.STREAMING, None),
    ]
    assert [world.find_verification(name).reason for name in (ORDERS, ITEMS)] == ["Bug", "Bug"]
    assert world.status.current_run is None


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ((make_compared(ORDERS, 10.1), make_compared(ITEMS, 1)), ("Unknown", "Overdue")),
        ((make_compared(ORDERS, 9.9), make_compared(ITEMS, 1)), ("True", "Equal")),
        ((make_compared(ORDERS, 9.9), make_caught_up(ITEMS)), ("Unknown", "NotVerified")),
        (
            (make_compared(ORDERS, 10.1, equal=False), make_compared(ITEMS, 1)),
            ("False", "Different"),
        ),
    ],
)
def test_the_condition_says_that_a_comparison_is_overdue(
    tables: tuple[TableStatus, ...], expected: tuple[str, str]
) -> None:
    verified = decide(make_idle(*tables), NOW).status.find_condition(ConditionType.VERIFIED)
    assert verified is not None
    assert (verified.status.value, verified.reason) == expected
    if verified.reason == "Overdue":
        assert verified.message == "shop.orders: last compared at 2026-03-01T01:54Z"


def test_the_age_is_measured_beside_its_limit() -> None:
    world = make_idle(make_compared(ORDERS, 5), make_compared(ITEMS, 3, equal=None))
    assert progress.find_oldest_proof(world.status) == NOW - make_hours(5)
    status = decide(world, NOW).status
    # The table without a result counts from when the condition ceased to hold, which is now.
    assert measure(world, status, None).proof == Used(
        int((NOW - make_hours(5)).timestamp()), int(make_hours(10).total_seconds())
    )
    only = status.model_copy(update={"tables": status.tables[1:]})
    assert progress.find_oldest_proof(only) == NOW
    # That it is compared may have been promised only now.
    never = status.model_copy(update={"tables": (make_caught_up(ITEMS),)})
    assert progress.find_oldest_proof(never) is None
    assert (
        measure(make_idle(make_caught_up(), suspend=True), PipelineStatus(), None).proof == Used()
    )


def test_a_limit_that_has_no_effect_is_a_caution() -> None:
    limited = {"verify": {"every": "10h", "maxCpu": 2}}
    assert list(find_cautions(make_spec(**limited))) == []
    (caution,) = find_cautions(make_spec(**limited, changelog={"trigger": "Continuous"}))
    assert caution.startswith("spec.verify.maxCpu: it has no effect with the trigger Continuous")


def test_a_run_that_answers_a_person_is_none_of_these() -> None:
    spec = make_spec(ORDERS, **EVERY)
    run = RunStatus(name="shop-v3-1", kind=RunKind.VERIFY, sequence=3, epoch=3, ask="a1")
    assert comparisons.list_tables_of_run(PipelineStatus(), spec, run) is None
    assert comparisons.find_max_cpu(PipelineStatus(), spec, run) is None
