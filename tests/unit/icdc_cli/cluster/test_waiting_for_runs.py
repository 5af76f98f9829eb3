"""The waiting of `icdc restart` and `rollback` with `--wait`: also for a run that goes on."""

from collections.abc import Callable, Iterable

import pytest

from icdc_cli import main
from icdc_cli.cluster.awaiting import loop
from icdc_testing.kube.api_stub import Object
from icdc_testing.kube.stored_pipelines import make_condition
from icdc_testing.operator.resync_statuses import (
    APPLIED,
    BEFORE,
    ENDED,
    FAILURE,
    GAP,
    STALLED,
    make_table,
    make_taken_up,
    run,
)

pytestmark = pytest.mark.unit

WAITS = make_condition("Stalled", "True", reason="TableStalled", message="orders: Gap")


def make_caught_up(generation: int) -> Object:
    """Return a status in which the new run is active, and a run of `generation` has reported."""
    spec = make_condition("Reconciling", "False", reason="UpToDate", observedGeneration=generation)
    return make_taken_up(
        currentRun=run("Running"), conditions=[spec, make_condition("CaughtUp", "True")]
    )


@pytest.mark.parametrize(
    ("trigger", "statuses", "code", "said"),
    [
        ("OnCommit", [BEFORE, make_taken_up(**ENDED)], 0, "shop: the run shop-e50-1 has succeeded"),
        # CaughtUp of the run before; and a run that ends by itself is waited for.
        (
            "Continuous",
            [make_caught_up(0), make_taken_up(**ENDED)],
            0,
            "shop: the run shop-e50-1 has succeeded",
        ),
        (
            "OnCommit",
            [make_caught_up(1), make_taken_up(**ENDED)],
            0,
            "the run shop-e50-1 has succeeded",
        ),
        (
            "Continuous",
            [make_caught_up(1)],
            0,
            "shop: the run shop-e50-1 has caught up and goes on",
        ),
        (
            "OnCommit",
            [make_taken_up(make_table("Stalled", **GAP), conditions=[WAITS], **ENDED)],
            1,
            "the run shop-e50-1 has succeeded; orders: Gap",
        ),
        (
            "OnCommit",
            [
                make_taken_up(recentRuns=[run("Succeeded", 51, kind="Verify")]),
                make_taken_up(**ENDED),
            ],
            0,
            "the run shop-e50-1 has succeeded",
        ),
        (
            "OnCommit",
            [
                make_taken_up(
                    recentRuns=[run("Failed", failure=FAILURE)],
                    lastRun=run("Failed", failure=FAILURE),
                    conditions=[STALLED],
                )
            ],
            3,
            "failed 8 times in a row",
        ),
    ],
)
def test_a_restart_is_waited_for(
    trigger: str,
    statuses: list[Object],
    code: int,
    said: str,
    shop: Object,
    play: Callable[[Iterable[Object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["spec"]["changelog"] = {"trigger": trigger}
    play(statuses)
    assert main.main(["restart", "shop", "--wait"]) == code
    printed = capsys.readouterr()
    assert said in (printed.err if code else printed.out)


WITHOUT_ID: Object = {
    "observedTriggers": {"resyncNonce": 5, "resync": {"nonce": 5, "mode": "Rollback"}}
}


@pytest.mark.parametrize(
    ("trigger", "statuses", "code", "said"),
    [
        # CaughtUp of the run before; then the run has passed the tables that stay as they are.
        ("Continuous", [make_caught_up(0), make_caught_up(1)], 0, "no table, as none has"),
        ("OnCommit", [make_caught_up(1), make_taken_up(**ENDED)], 0, "no table, as none has"),
        # A table shows what its last run did, and the first one has come to one table alone.
        (
            "OnCommit",
            [
                make_taken_up(
                    make_table(rolledBackAt=APPLIED),
                    make_table(name="customers"),
                    currentRun=run("Running"),
                ),
                make_taken_up(
                    make_table(),
                    make_table(name="customers", rolledBackAt=APPLIED),
                    currentRun=run("Running", 51),
                ),
            ],
            0,
            "ended: rolled back shop.orders, shop.customers",
        ),
        ("OnCommit", [make_taken_up() | WITHOUT_ID], 2, "no run makes it"),
    ],
)
def test_a_rollback_has_ended_once_a_run_has_come_to_every_table(
    trigger: str,
    statuses: list[Object],
    code: int,
    said: str,
    shop: Object,
    play: Callable[[Iterable[Object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["spec"]["changelog"] = {"trigger": trigger}
    left = iter(statuses)
    play(left)
    assert main.main(["rollback", "shop", "--wait"]) == code
    printed = capsys.readouterr()
    assert said in (printed.err if code else printed.out).splitlines()[-1]
    assert not list(left)


CAUGHT_UP: Object = {"snapshotsBehind": 0}
GOES_ON: Object = {
    "currentRun": run("Running"),
    "conditions": [WAITS, make_condition("Reconciling", "False", reason="Stalled")],
}


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("restart", 1, "icdc: shop: the run shop-e50-1 goes on; orders: Gap"),
        ("rollback", 0, "shop: resync 5 has ended: rolled back shop.customers"),
    ],
)
def test_a_table_that_waits_for_a_person_is_not_waited_for_beside_those_that_are_followed(
    command: str,
    code: int,
    said: str,
    shop: Object,
    play: Callable[[Iterable[Object]], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["spec"]["changelog"] = {"trigger": "Continuous"}
    stalled = make_table("Stalled", **GAP)
    back = make_table(name="customers", rolledBackAt=APPLIED)
    left = iter(
        [
            # Not before the run has reported for a while, and has come to the other table.
            make_taken_up(stalled, back | CAUGHT_UP, **GOES_ON | {"currentRun": run("Submitted")}),
            make_taken_up(stalled, back, **GOES_ON),
            make_taken_up(stalled, back | CAUGHT_UP, **GOES_ON),
        ]
    )
    play(left)
    monkeypatch.setattr(loop, "SETTLED_SECONDS", 0.0)
    assert main.main([command, "shop", "--wait"]) == code
    printed = capsys.readouterr()
    assert (printed.err if code else printed.out).splitlines()[-1] == said
    assert not list(left)


def test_a_new_run_has_time_to_come_to_a_table_that_waited_for_a_person(
    shop: Object,
    play: Callable[[Iterable[Object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["spec"]["changelog"] = {"trigger": "Continuous"}
    stalled = make_taken_up(make_table("Stalled", **GAP), **GOES_ON)
    play([stalled, stalled, make_caught_up(1)])
    assert main.main(["restart", "shop", "--wait"]) == 0
    assert "the run shop-e50-1 has caught up and goes on" in capsys.readouterr().out
