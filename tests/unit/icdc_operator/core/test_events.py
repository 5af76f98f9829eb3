"""What people are told of a change between two statuses."""

from datetime import timedelta
from typing import Any

import pytest

from icdc_api.errors import SourceUnavailable
from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import (
    ExportProgress,
    PipelineStatus,
    TableReason,
    TableState,
    TableStatus,
    Verification,
)
from icdc_api.status.runs import Failure, ResyncMode, RunState
from icdc_api.status.triggers import ObservedResync, ObservedTriggers
from icdc_operator.core.events import Event, derive_events
from icdc_operator.core.progress import apply_report
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up, run_record

pytestmark = pytest.mark.unit

REPORTED = Event(
    "AliasMoved",
    "shop.orders: somebody moved or removed the alias shop.orders; it is restored",
    warning=True,
)


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (None, None, []),
        (None, NOW, [REPORTED]),
        (NOW, NOW, []),
        (NOW, NOW + timedelta(hours=1), [REPORTED]),
        (NOW, None, []),
    ],
)
def test_an_alias_that_was_put_back_is_told_once(
    before: object, after: object, events: list[Event]
) -> None:
    was, now = (
        PipelineStatus(tables=(make_caught_up(state=TableState.STREAMING, alias_restored_at=at),))
        for at in (before, after)
    )
    assert derive_events(was, now) == events


@pytest.mark.parametrize(
    ("before", "after", "is_repeated"),
    [(None, None, False), (None, 1, True), (1, 1, False), (1, 2, True), (1, None, False)],
)
def test_an_export_that_is_repeated_is_an_event_each_time(
    before: int | None, after: int | None, is_repeated: bool
) -> None:
    was, now = (
        make_caught_up(state=TableState.EXPORTING, export=ExportProgress(repeats=repeats))
        for repeats in (before, after)
    )
    text = (
        "shop.orders: the new index did not hold what was written into it; the export is repeated "
        "once"
    )
    expected = [Event("ExportRepeated", text, warning=True)] if is_repeated else []
    assert derive_events(PipelineStatus(tables=(was,)), PipelineStatus(tables=(now,))) == expected


def test_a_rollback_is_an_event_and_what_was_verified_before_counts_no_more() -> None:
    verified = Verification(at=NOW, equal=True)
    before = make_caught_up(state=TableState.STREAMING, verification=verified)
    back = RunReport(
        run_id=RUN.run_id or "",
        started_at=NOW,
        updated_at=NOW,
        tables=(make_caught_up(state=TableState.STREAMING, rolled_back_at=NOW),),
    )
    (after,) = apply_report((before,), back, RUN, now=NOW)
    (again,) = apply_report((after,), back, RUN, now=NOW)
    assert (after.verification, after.rolled_back_at) == (None, NOW)
    was, now, later = (PipelineStatus(tables=(table,)) for table in (before, after, again))
    text = (
        "shop.orders: readers of shop.orders see the previous index again; "
        "what was committed since is applied to it"
    )
    assert derive_events(was, now) == [Event("RolledBack", text)]
    assert derive_events(now, later) == []


RUN = run_record()
FAILED = RUN.model_copy(
    update={
        "state": RunState.FAILED,
        "failure": Failure.of(SourceUnavailable("the catalog does not answer")),
    }
)
PENDING = TableStatus(name="shop.orders", index="shop.orders")
EXPORTING: dict[str, Any] = {"state": TableState.EXPORTING, "snapshots_behind": None}


@pytest.mark.parametrize(
    ("before", "after", "messages"),
    [
        (
            {},
            {"current_run": RUN},
            [
                f"run {RUN.name} is planned ({RUN.kind.value}, attempt 1)",
                f"the driver of run {RUN.name} has started",
            ],
        ),
        (
            {"current_run": RUN},
            {"last_run": RUN.model_copy(update={"state": RunState.SUCCEEDED})},
            [f"run {RUN.name} has succeeded"],
        ),
        (
            {"current_run": RUN},
            {"last_run": FAILED, "next_attempt_time": NOW},
            [
                f"run {RUN.name} has failed: SourceUnavailable: the catalog does not answer",
                f"run {RUN.name} is retried at {NOW:%H:%M:%S} UTC",
            ],
        ),
        (
            {"tables": (PENDING,)},
            {"tables": (PENDING.model_copy(update=EXPORTING),)},
            [
                "shop.orders is exported to a new index; readers find it as shop.orders once it is "
                "complete"
            ],
        ),
        (
            {"tables": (make_caught_up(),)},
            {"tables": (make_caught_up(**EXPORTING),)},
            [
                "shop.orders is exported to a new index; until it is complete, readers of "
                "shop.orders stay where they are"
            ],
        ),
        (
            # Over before it was seen at work.
            {"tables": (PENDING,)},
            {"tables": (make_caught_up(export=ExportProgress(rows=5)),)},
            [
                "shop.orders is exported to a new index; readers find it as shop.orders once it is "
                "complete",
                "shop.orders: the index shop.orders has 5 rows",
            ],
        ),
        (
            {
                "tables": (
                    PENDING.model_copy(update=EXPORTING | {"export": ExportProgress(rows=4)}),
                )
            },
            {"tables": (make_caught_up(export=ExportProgress(rows=5)),)},
            ["shop.orders: the index shop.orders has 5 rows"],
        ),
        (
            {
                "tables": (
                    PENDING.model_copy(update=EXPORTING | {"export": ExportProgress(rows=5)}),
                )
            },
            {"tables": (make_caught_up(),)},
            ["shop.orders: the index shop.orders has 5 rows"],
        ),
        # StreamOnly has begun, or the status was lost: nothing was exported.
        ({"tables": (PENDING,)}, {"tables": (make_caught_up(),)}, []),
        (
            {"tables": (make_caught_up(),)},
            {"tables": (make_caught_up(dead_letters=3),)},
            [
                "shop.orders: the index refuses 3 rows, stored in shop.orders-dead-letters; "
                "correct the rows or the mapping, then run icdc dead-letters replay"
            ],
        ),
    ],
)
def test_an_event_says_what_happened_to_which_run_or_table(
    before: dict[str, object], after: dict[str, object], messages: list[str]
) -> None:
    was, now = (PipelineStatus().model_copy(update=fields) for fields in (before, after))
    assert [event.message for event in derive_events(was, now)] == messages


GAP_EVENT = Event(
    "Gap",
    "shop.orders: snapshot 7 has expired, so the changes since the applied snapshot are unknown",
    warning=True,
)


@pytest.mark.parametrize(
    ("cause", "because", "others"),
    [
        ("gap: snapshot 7 has expired", " (gap: snapshot 7 has expired)", [GAP_EVENT]),
        ("a re-export was requested", " (a re-export was requested)", []),
        pytest.param(None, "", [], id="an image of an earlier version"),
    ],
)
def test_an_export_of_a_table_that_has_an_index_says_why(
    cause: str | None, because: str, others: list[Event]
) -> None:
    was, now = (
        PipelineStatus(tables=(make_caught_up(state=state, message=message),))
        for state, message in ((TableState.STREAMING, None), (TableState.EXPORTING, cause))
    )
    text = "until it is complete, readers of shop.orders stay where they are"
    exported = f"shop.orders is exported to a new index{because}; {text}"
    assert derive_events(was, now) == [*others, Event("Reexporting", exported)]
    assert derive_events(now, now) == []


def test_a_failure_that_an_export_waits_out_is_not_why_the_table_is_exported() -> None:
    throttled = {"reason": TableReason.THROTTLED, "message": "OpenSearch is busy"}
    was, now = (
        PipelineStatus(tables=(make_caught_up(state=state, **more),))
        for state, more in ((TableState.STREAMING, {}), (TableState.EXPORTING, throttled))
    )
    (event,) = derive_events(was, now)
    assert event.message.startswith("shop.orders is exported to a new index; until it is complete")


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        (4, 5, "spec.resync.nonce 5 asks for Verify of shop.a; shop.b"),
        (5, 5, None),
        pytest.param(None, 5, None, id="the status was lost"),
    ],
)
def test_a_request_is_an_event_once_a_run_is_planned_for_it(
    was: int | None, now: int, message: str | None
) -> None:
    before, after = (
        PipelineStatus(
            observed_triggers=nonce
            and ObservedTriggers(
                resync_nonce=nonce,
                resync=ObservedResync(
                    nonce=nonce, mode=ResyncMode.VERIFY, tables=("shop.a", "shop.b")
                ),
            )
        )
        for nonce in (was, now)
    )
    expected = [] if message is None else [Event("ResyncRequested", message)]
    assert derive_events(before, after) == expected
