"""Conditions, phase and totals; what kstatus makes of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from icdc_api import errors
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import (
    Duplicates,
    ExportProgress,
    Phase,
    PipelineStatus,
    TableReason,
    TableState,
    TableStatus,
)
from icdc_api.status.runs import Failure, RunState
from icdc_operator.core.conditions import summary
from icdc_operator.core.conditions.messages import AFTER_REFUSALS
from icdc_operator.core.observed import Observed, RunPhase
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    make_stalled,
    run_record,
)

pytestmark = pytest.mark.unit

STORED = "shop.orders-dead-letters"


def judge(resource_generation: int, value: PipelineStatus) -> str:
    """Return the verdict that Helm, Flux and cli-utils come to, from their published rules."""
    if value.observed_generation != resource_generation:
        return "InProgress"
    if value.holds(ConditionType.RECONCILING):
        return "InProgress"
    if value.holds(ConditionType.STALLED):
        return "Failed"
    ready = value.find_condition(ConditionType.READY)
    return "Current" if ready is None or ready.status == "True" else "InProgress"


def summarize_world(world: Observed, **more: Any) -> PipelineStatus:
    value = world.status.model_copy(update={"observed_generation": world.generation, **more})
    value = value.model_copy(update={"conditions": summary.build_conditions(value, world, now=NOW)})
    return summary.summarise(value)


def make_exporting(name: str = "shop.orders", **more: Any) -> TableStatus:
    export = ExportProgress(chunks_total=4, chunks_done=1, rows=10)
    return TableStatus(name=name, index=name, state=TableState.EXPORTING, export=export, **more)


GOOD_RUN = run_record(state=RunState.SUCCEEDED, finished_at=NOW)
BAD_RUN = run_record(
    state=RunState.FAILED, failure=Failure.of(errors.TargetUnavailable("http://search is down"))
)
LIVE_RUN = run_record()
LATER = NOW + timedelta(seconds=10)


@pytest.mark.parametrize(
    ("spec", "fields", "verdict", "phase", "ready"),
    [
        ({}, {"tables": (TableStatus(name="a", index="a"),)}, "InProgress", "Pending", "Exporting"),
        (
            {},
            {"tables": (make_exporting(),), "current_run": LIVE_RUN},
            *("InProgress", "Exporting"),
            "Exporting",
        ),
        (
            {},
            {"tables": (make_caught_up(),), "last_run": GOOD_RUN},
            "Current",
            "Streaming",
            "Streaming",
        ),
        (
            {},
            {
                "tables": (make_caught_up(snapshots_behind=9, lag_seconds=900),),
                "last_run": GOOD_RUN,
            },
            *("Current", "Streaming", "Streaming"),
        ),
        (
            {},
            {
                "tables": (make_exporting(applied_snapshot_id="7"),),
                "last_run": GOOD_RUN,
                "current_run": LIVE_RUN,
            },
            *("Current", "Exporting", "Streaming"),
        ),
        (
            {},
            {"tables": (make_stalled(TableReason.ALIAS_TAKEN),), "last_run": GOOD_RUN},
            *("Failed", "Stalled", "TableStalled"),
        ),
        (
            {},
            {
                "tables": (make_caught_up(),),
                "last_run": BAD_RUN,
                "consecutive_failures": 2,
                "next_attempt_time": LATER,
            },
            *("InProgress", "Retrying", "Retrying"),
        ),
        (
            {},
            {
                "tables": (make_caught_up(),),
                "last_run": BAD_RUN,
                "consecutive_failures": 8,
                "next_attempt_time": LATER,
            },
            *("Failed", "Stalled", "TargetUnavailable"),
        ),
        ({"suspend": True}, {"tables": (make_caught_up(),)}, "Current", "Suspended", "Suspended"),
        (
            {"suspend": True},
            {"tables": (make_caught_up(),), "current_run": LIVE_RUN},
            *("InProgress", "Streaming", "Suspending"),
        ),
    ],
)
def test_kstatus_phase_and_ready_agree(
    spec: dict[str, Any], fields: dict[str, Any], verdict: str, phase: str, ready: str
) -> None:
    value = summarize_world(make_observed(make_spec(**spec)), **fields)
    condition = value.find_condition(ConditionType.READY)
    assert condition is not None
    assert (judge(1, value), value.phase, condition.reason) == (verdict, Phase(phase), ready)


def test_a_wrong_spec_is_stalled_with_the_message_of_the_check() -> None:
    world = replace(make_observed(None), problem="spec.tables: missing")
    value = summarize_world(world)
    for kind in (ConditionType.READY, ConditionType.STALLED, ConditionType.SPEC_VALID):
        condition = value.find_condition(kind)
        assert condition is not None
        assert condition.message == "spec.tables: missing"
    assert judge(1, value) == "Failed"


def test_a_new_generation_is_reconciling_until_a_run_of_it_has_taken_hold() -> None:
    old = summarize_world(make_observed(make_spec()), tables=(make_caught_up(),), last_run=GOOD_RUN)
    assert judge(1, old) == "Current"
    world = replace(make_observed(make_spec(), old), generation=2)
    assert judge(2, old) == "InProgress"
    planned = summarize_world(world, current_run=run_record(generation=2, state=RunState.PLANNED))
    assert judge(2, planned) == "InProgress"
    live = make_seen(RunPhase.RUNNING, report=make_report(make_caught_up()))
    active = replace(world, runs=(live,))
    in_effect = summarize_world(active, current_run=run_record(generation=2))
    assert judge(2, in_effect) == "Current"
    lost_report = replace(world, status=in_effect)
    assert judge(2, summarize_world(lost_report)) == "Current"


def test_transition_times_change_only_when_a_status_flips() -> None:
    first = summarize_world(
        make_observed(make_spec()), tables=(make_caught_up(),), last_run=GOOD_RUN
    )
    behind = (make_caught_up(snapshots_behind=3),)
    world = make_observed(make_spec(), first)
    value = first.model_copy(update={"tables": behind})
    second = summary.build_conditions(value, world, now=LATER)
    moments = {condition.type: condition.last_transition_time for condition in second}
    assert moments.pop(ConditionType.CAUGHT_UP) == LATER
    assert set(moments.values()) == {NOW}


def test_messages_name_tables_and_stay_bounded() -> None:
    names = [f"shop.table{number}" for number in range(40)]
    tables = tuple(
        make_stalled(TableReason.GAP).model_copy(update={"name": name, "message": "x" * 900})
        for name in names
    )
    value = summarize_world(make_observed(make_spec(*names)), tables=tables, last_run=GOOD_RUN)
    condition = value.find_condition(ConditionType.STALLED)
    assert condition is not None
    assert condition.message.startswith("shop.table0: Gap: ")
    assert len(condition.message) <= 1024
    assert value.summary is not None
    assert value.summary.tables == "0/40"


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        (
            ConditionType.DEAD_LETTERS,
            {"dead_letters": 3},
            ("True", f"shop.orders: 3 refused rows, stored in {STORED}; {AFTER_REFUSALS}"),
        ),
        (ConditionType.DEAD_LETTERS, {}, ("False", "")),
        (
            ConditionType.CAUGHT_UP,
            {"snapshots_behind": 2},
            ("False", "shop.orders: 2 snapshots behind"),
        ),
        (
            ConditionType.DUPLICATES,
            {"duplicates": Duplicates(count=2, samples=("1", "2"))},
            ("True", "shop.orders: 2 keys in more than one row, such as 1, 2"),
        ),
    ],
)
def test_a_condition_says_what_a_person_needs(
    kind: ConditionType, fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    value = summarize_world(
        make_observed(make_spec()), tables=(make_caught_up(**fields),), last_run=GOOD_RUN
    )
    condition = value.find_condition(kind)
    assert condition is not None
    assert (condition.status.value, condition.message) == expected


@pytest.mark.parametrize(
    ("policy", "expected"), [("Never", "False"), ("Auto", "Unknown"), ("Always", "Unknown")]
)
def test_nothing_is_claimed_about_pins_that_no_run_reported(policy: str, expected: str) -> None:
    value = summarize_world(make_observed(make_spec(changelog={"pinSnapshots": policy})))
    condition = value.find_condition(ConditionType.SNAPSHOTS_PINNED)
    assert condition is not None
    assert condition.status.value == expected


PINNED: dict[str, Any] = {"snapshot_pinned": True}
LOOSE: dict[str, Any] = {"snapshot_pinned": False, "pin_message": "the catalog is read-only"}
EMPTY: dict[str, Any] = {"applied_snapshot_id": None}


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ([PINNED, PINNED], ("True", "Pinned", "")),
        ([PINNED, LOOSE], ("False", "NotPinned", "shop.t1: the catalog is read-only")),
        ([PINNED, EMPTY], ("True", "Pinned", "")),
        (
            [EMPTY],
            ("Unknown", "NotReported", "no run has reported yet whether the snapshots are tagged"),
        ),
        (
            [PINNED, {}],
            ("Unknown", "NotReported", "no run has reported yet whether the snapshots are tagged"),
        ),
    ],
)
def test_whether_tags_keep_the_snapshots_is_said_for_all_tables(
    tables: list[dict[str, Any]], expected: tuple[str, str, str]
) -> None:
    names = [f"shop.t{number}" for number in range(len(tables))]
    entries = [make_caught_up(name, **fields) for name, fields in zip(names, tables, strict=True)]
    value = summarize_world(
        make_observed(make_spec(*names)), tables=tuple(entries), last_run=GOOD_RUN
    )
    condition = value.find_condition(ConditionType.SNAPSHOTS_PINNED)
    assert condition is not None
    assert (condition.status.value, condition.reason, condition.message) == expected


def test_a_catalog_that_only_runs_can_look_at_is_told_of_until_it_can_be_looked_at() -> None:
    tables = (make_caught_up("shop.a"), make_caught_up("shop.b"))

    def describe(status: PipelineStatus, heads: dict[str, str | None] | None, **spec: Any) -> str:
        world = replace(make_observed(make_spec("shop.a", "shop.b", **spec), status), heads=heads)
        condition = summarize_world(world, tables=tables, last_run=GOOD_RUN).find_condition(
            ConditionType.CAUGHT_UP
        )
        assert condition is not None
        assert condition.status.value == "True"
        return condition.message

    before = summarize_world(
        make_observed(make_spec("shop.a", "shop.b")), tables=tables, last_run=GOOD_RUN
    )
    assert describe(before, None) == ""
    partly = describe(before, {"shop.a": "7"})
    assert partly.startswith("as of the last run: the operator cannot read the catalog")
    assert partly.endswith(": shop.b")
    blind = replace(make_observed(make_spec("shop.a", "shop.b"), before), heads={})
    blinded = summarize_world(blind, tables=tables, last_run=GOOD_RUN)
    # While a run is at work nobody looks, and nothing is taken back.
    assert describe(blinded, None).endswith(": shop.a; shop.b")
    assert describe(blinded, {"shop.a": "7", "shop.b": "7"}) == ""
    assert describe(blinded, None, changelog={"trigger": "Continuous"}) == ""
