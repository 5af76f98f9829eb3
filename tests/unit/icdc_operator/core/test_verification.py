"""What comparisons have found, as status, condition and events tell it."""

from typing import Any

import pytest

from icdc_api import errors
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableState
from icdc_api.status.runs import Failure
from icdc_operator.core.conditions.messages import AFTER_DIFFERENCES
from icdc_testing.operator.deciding.comparing import (
    ITEMS,
    ORDERS,
    ComparingWorld,
    begin_comparison,
    make_ask,
    make_exported,
    make_verdict,
)

pytestmark = pytest.mark.unit

AGE = "; the oldest comparison is of 2026-03-01T12:00Z"

OUT_OF_MEMORY = Failure.of(errors.OutOfMemory("heap"))


@pytest.fixture
def world() -> ComparingWorld:
    """Two tables that a run has exported."""
    return make_exported()


def test_a_comparison_touches_neither_ready_nor_reconciling(world: ComparingWorld) -> None:
    begin_comparison(world)
    world.answer(outcome=OUT_OF_MEMORY)
    for _ in range(2):
        world.reconcile()
        assert world.status.holds(ConditionType.READY)
        assert not world.status.holds(ConditionType.RECONCILING)
    assert world.start() == "v3-2"
    world.answer(make_verdict(ORDERS, "1"), make_verdict(ITEMS))
    world.reconcile()
    assert world.verified[:2] == ("False", "Different")
    assert world.status.holds(ConditionType.READY)
    assert not world.status.holds(ConditionType.STALLED)


def test_what_differs_is_told_with_counts_and_bounded_samples(world: ComparingWorld) -> None:
    begin_comparison(world)
    ids = [f"{number:0300}" for number in range(30)]
    more = {"extra": {"count": 1, "samples": ["9"]}}
    world.answer(make_verdict(ORDERS, *ids, **more), make_verdict(ITEMS))
    world.reconcile()
    assert world.verified == (
        "False",
        "Different",
        f"shop.orders: 30 missing, 1 extra, 0 different{AGE}; {AFTER_DIFFERENCES}",
    )
    result = world.find_verification()
    assert (len(result.samples), result.samples[1]) == (20, "extra 9")
    assert max(len(sample) for sample in result.samples) == 253
    warnings = [event for event in world.recorded if event.warning]
    assert [(event.reason, event.message) for event in warnings] == [
        ("DifferencesFound", world.verified[2].replace(AGE, ""))
    ]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            make_verdict(ORDERS, "1", "2", repaired=2),
            ("True", "Repaired", "shop.orders: 2 documents repaired, not compared again since"),
        ),
        (
            make_verdict(ORDERS, "1", "2", repaired=1),
            (
                "False",
                "Different",
                f"shop.orders: 2 missing, 0 extra, 0 different; 1 of them repaired{AGE}; "
                f"{AFTER_DIFFERENCES}",
            ),
        ),
        (
            make_verdict(ORDERS, "1", underWay=True, message="a batch is under way"),
            ("Unknown", "NotVerified", "shop.orders: BatchUnderWay: a batch is under way"),
        ),
        (
            {"name": ORDERS, "reason": "Gap", "message": "It was never exported."},
            ("Unknown", "NotVerified", "shop.orders: Gap: It was never exported."),
        ),
        (
            {"name": ORDERS, "equal": "yes"},
            ("Unknown", "NotVerified", "shop.orders: Bug: run shop-r3-1 succeeded but reported"),
        ),
        (
            make_verdict(ORDERS, refused=3),
            ("True", "Equal", "shop.orders: 10 documents, and 3 refused rows"),
        ),
        (
            make_verdict(ORDERS, ofTheFuture=1),
            ("True", "Equal", "shop.orders: 10 documents"),
        ),
    ],
    ids=[
        "mended",
        "a row is refused",
        "under way",
        "no index",
        "unreadable",
        "refused",
        "a newer driver",
    ],
)
def test_nothing_is_called_equal_that_was_not_compared(
    world: ComparingWorld, entry: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    begin_comparison(world, "Repair")
    world.answer(entry, make_verdict(ITEMS))
    world.reconcile()
    assert world.verified[:2] == expected[:2]
    assert world.verified[2].startswith(expected[2])
    # That of the other table, which was compared.
    assert "the oldest comparison is of 2026-03-01T12:" in world.verified[2]
    assert world.status.current_run is None


def test_only_the_tables_that_were_named_are_compared(world: ComparingWorld) -> None:
    world.edit(**make_ask(tables=(ITEMS,)))
    world.start()
    world.follow()
    world.start()
    world.answer(make_verdict(ITEMS))
    world.reconcile()
    assert world.verified == ("True", "Equal", f"shop.items: 10 documents{AGE}")
    assert world.status.tables[0].verification is None


def test_a_new_export_takes_back_what_was_found_in_the_old_index(world: ComparingWorld) -> None:
    begin_comparison(world)
    world.answer(make_verdict(ORDERS, "1"), make_verdict(ITEMS))
    world.reconcile()
    world.edit(**make_ask("Export", nonce=2))
    assert world.start() == "e4-1"
    assert world.verified[1] == "Different"
    world.follow(TableState.EXPORTING)
    world.reconcile()
    assert world.verified[1] == "NotVerified"
    # The nonce was for an export: with another mode it asks for nothing.
    world.edit(**make_ask("Verify", nonce=2))
    world.start()
    world.follow()
    world.reconcile()
    assert world.status.current_run is None
