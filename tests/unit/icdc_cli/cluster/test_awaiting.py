"""`--wait` of `icdc resync` and `restart`: when it ends, with what, and what it leaves as it is."""

from collections.abc import Callable, Iterable

import pytest

from icdc_cli import main
from icdc_testing.kube.api_stub import Object
from icdc_testing.kube.stored_pipelines import make_condition
from icdc_testing.operator.resync_statuses import (
    APPLIED,
    BEFORE,
    DIFFERENT,
    DONE,
    ENDED,
    EQUAL,
    FAILURE,
    GAP,
    OLD,
    STALLED,
    make_compared,
    make_table,
    make_taken_up,
    run,
)

pytestmark = pytest.mark.unit

LATER = run("Succeeded", 60, plannedAt="2026-03-01T14:00:00Z")


@pytest.mark.parametrize(
    ("mode", "statuses", "code", "said"),
    [
        # An export: of a run that ends, of one that goes on, of an empty table.
        ("Export", [make_taken_up(DONE, **ENDED)], 0, "exported shop.orders (snapshot 9)"),
        # A run that was asked to end before it came to the table has succeeded, too.
        ("Export", [make_taken_up(OLD, **ENDED), make_taken_up(DONE, **ENDED)], 0, "(snapshot 9)"),
        (
            "Export",
            [
                make_taken_up(
                    make_table("Stalled", **GAP), **ENDED, currentRun=run("Submitted", 51)
                ),
                make_taken_up(DONE, **ENDED),
            ],
            0,
            "(snapshot 9)",
        ),
        # A rolling proof exports nothing.
        (
            "Export",
            [
                make_taken_up(recentRuns=[run("Succeeded", 51, kind="Verify")]),
                make_taken_up(DONE, **ENDED),
            ],
            0,
            "(snapshot 9)",
        ),
        # What the first run exported counts when the log has forgotten that run.
        (
            "Export",
            [
                make_taken_up(
                    DONE, make_table("Exporting", "customers"), currentRun=run("Running")
                ),
                make_taken_up(DONE, make_table(name="customers"), recentRuns=[LATER]),
            ],
            0,
            "shop.orders (snapshot 9), shop.customers (snapshot None)",
        ),
        (
            "Export",
            [
                make_taken_up(OLD, currentRun=run("Running")),
                make_taken_up(DONE, currentRun=run("Running")),
            ],
            0,
            "shop: resync 5 has ended: exported shop.orders (snapshot 9)",
        ),
        (
            "Export",
            [
                make_taken_up(
                    DONE, make_table("Exporting", "customers"), currentRun=run("Running")
                ),
                make_taken_up(DONE, make_table("Complete", "customers"), **ENDED),
            ],
            0,
            "shop.customers (snapshot None)",
        ),
        # A stall that was there before is what it shall correct; after its run it is the result.
        (
            "Export",
            [
                make_taken_up(make_table("Stalled", **GAP), currentRun=run("Submitted")),
                make_taken_up(make_table("Stalled", **GAP), currentRun=run("Running")),
                make_taken_up(DONE, **ENDED),
            ],
            0,
            "exported shop.orders (snapshot 9)",
        ),
        (
            "Export",
            [make_taken_up(make_table("Stalled", **GAP), **ENDED)],
            1,
            "shop.orders: Gap: the changes are lost",
        ),
        (
            "Export",
            [
                make_taken_up(
                    make_table("Stalled", reason="AliasTaken", message="taken"),
                    currentRun=run("Running"),
                )
            ],
            1,
            "shop.orders: AliasTaken: taken",
        ),
        # A failure is an end only once the pipeline is Stalled by it.
        (
            "Export",
            [
                make_taken_up(OLD, recentRuns=[run("Failed", failure=FAILURE)]),
                make_taken_up(
                    OLD,
                    recentRuns=[run("Failed", failure=FAILURE)],
                    lastRun=run("Failed", failure=FAILURE),
                    conditions=[STALLED],
                ),
            ],
            3,
            "failed 8 times in a row: down",
        ),
        (
            "Export",
            [
                make_taken_up(
                    make_table("Stalled", reason="TargetUnavailable", message="down"),
                    **ENDED,
                    consecutiveFailures=8,
                    conditions=[STALLED],
                )
            ],
            3,
            "failed 8 times in a row: down",
        ),
        # The failure of an earlier run says nothing.
        (
            "Export",
            [
                make_taken_up(OLD, recentRuns=[run("Failed", 40)], conditions=[STALLED]),
                make_taken_up(DONE, **ENDED),
            ],
            0,
            "has ended",
        ),
        (
            "Rollback",
            [
                make_taken_up(
                    make_table(rolledBackAt="2026-02-01T00:00:00Z"), currentRun=run("Running")
                ),
                make_taken_up(make_table(rolledBackAt=APPLIED), currentRun=run("Running")),
            ],
            0,
            "shop: resync 5 has ended: rolled back shop.orders",
        ),
        # A table without an earlier index stays as it is.
        (
            "Rollback",
            [
                make_taken_up(OLD, make_table(name="customers"), **ENDED)
                | {"currentRun": run("Planned", 51)},
                make_taken_up(OLD, make_table(rolledBackAt=APPLIED, name="customers"), **ENDED),
            ],
            0,
            "ended: rolled back shop.customers",
        ),
        ("Rollback", [make_taken_up(OLD, **ENDED)], 0, "no table, as none has an earlier index"),
        (
            "Rollback",
            [
                make_taken_up(
                    make_table("Stalled", reason="RollbackRefused", message="why"), **ENDED
                )
            ],
            1,
            "shop.orders: RollbackRefused: why",
        ),
        (
            "Verify",
            [make_taken_up(mode="Verify"), make_taken_up(EQUAL, verified=5)],
            0,
            "orders: 3 documents",
        ),
        ("Verify", [make_taken_up(DIFFERENT, EQUAL, verified=5)], 1, "orders: 2 missing, 0 extra"),
        ("Verify", [make_taken_up(verified=5)], 1, "no table was compared"),
        (
            "Verify",
            [
                make_taken_up(
                    make_table(verification={"nonce": 4, "at": APPLIED, "equal": True}), verified=5
                )
            ],
            1,
            "no table was compared",
        ),
        (
            "Verify",
            [
                make_taken_up(
                    make_compared(reason="TargetUnavailable", message="down"),
                    verified=5,
                    lastRun=run("Failed", kind="Verify", failure=FAILURE),
                )
            ],
            3,
            "shop.orders: TargetUnavailable: down",
        ),
        (
            "Verify",
            [make_taken_up(make_compared(reason="Gap", message="lost"), verified=5)],
            1,
            "Gap: lost",
        ),
        (
            "Verify",
            [make_taken_up(make_compared(reason="BatchUnderWay", message="later"), verified=5)],
            3,
            "BatchUnderWay: later",
        ),
        (
            "Repair",
            [
                make_taken_up(
                    make_compared(equal=False, missing=2, extra=0, different=0, repaired=2),
                    verified=5,
                )
            ],
            0,
            "2 documents repaired",
        ),
    ],
)
def test_a_resync_is_waited_for_and_its_result_is_said(
    mode: str,
    statuses: list[Object],
    code: int,
    said: str,
    play: Callable[[Iterable[Object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    play(statuses)
    assert main.main(["resync", "shop", "--mode", mode, "--wait"]) == code
    printed = capsys.readouterr()
    assert printed.out.startswith("shop: resync 5 of all tables is requested\n")
    stream = printed.err if code else printed.out
    assert said in stream.splitlines()[-1]


def test_only_the_tables_that_were_asked_for_are_waited_for(
    play: Callable[[Iterable[Object]], None],
) -> None:
    play([make_taken_up(DONE, make_table("Exporting", "customers"), currentRun=run("Running"))])
    assert main.main(["resync", "shop", "--table", "shop.orders", "--wait"]) == 0


def test_the_progress_is_said_once_for_each_state(
    play: Callable[[Iterable[Object]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    unseen = {**BEFORE, "observedGeneration": -1}
    exporting = make_taken_up(make_table("Exporting"), currentRun=run("Running"))
    submitted = make_taken_up(OLD, currentRun=run("Submitted"))
    why = "run shop-e50-1: the run waits for executors: no room"
    waiting = exporting | {"conditions": [make_condition("RunActive", "True", message=why)]}
    play(
        [
            unseen,
            {**BEFORE, "currentRun": run("Running", 40)},
            {**BEFORE, "conditions": [make_condition("Suspended", "True")]},
            *(submitted, submitted, exporting, exporting, waiting),
            make_taken_up(DONE, **ENDED),
        ]
    )
    assert main.main(["resync", "shop", "--wait"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "icdc: resync 5: no operator has read it yet",
        "icdc: resync 5: the run shop-e40-1 is active and must end first",
        "icdc: resync 5: the pipeline is suspended; it begins when it is resumed",
        "icdc: resync 5: the run shop-e50-1 is Submitted",
        "icdc: resync 5: the run shop-e50-1 is Running, 1 table exporting",
        "icdc: resync 5: the run shop-e50-1 is Running, 1 table exporting: the run waits for "
        "executors: no room",
    ]
