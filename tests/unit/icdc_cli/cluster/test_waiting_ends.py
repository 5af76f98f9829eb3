"""What ends the waiting of `--wait` beside the end of a resync."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest

from icdc_cli import main
from icdc_cli.cluster.awaiting import loop
from icdc_testing.kube.api_stub import ApiStub, Object
from icdc_testing.kube.stored_pipelines import make_condition
from icdc_testing.operator.resync_statuses import (
    APPLIED,
    BEFORE,
    DONE,
    ENDED,
    FAILURE,
    GAP,
    OLD,
    make_table,
    make_taken_up,
    run,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("status", "seconds", "code", "said"),
    [
        ({}, 61.0, 3, "no operator has read generation 1 of shop within 61 s; action required"),
        ({"currentRun": run("Running")}, 61.0, 3, "no operator has read generation 1 of shop"),
        (make_taken_up(currentRun=run("Running")), 601.0, 3, "the run shop-e50-1 is Running"),
        (
            {
                **BEFORE,
                "conditions": [make_condition("SpecValid", "False", message="no such field")],
            },
            1.0,
            2,
            "no such field",
        ),
        (
            make_taken_up()
            | {"observedTriggers": {"resyncNonce": 6, "resync": {"nonce": 6, "mode": "Export"}}},
            1.0,
            2,
            "resync 5 was replaced by resync 6",
        ),
    ],
)
def test_what_cannot_end_well_is_not_waited_for(
    status: Object,
    seconds: float,
    code: int,
    said: str,
    play: Callable[[Iterable[Object]], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    play([status] * 20)
    clock = iter(range(0, 10_000, int(seconds)))
    times = SimpleNamespace(monotonic=lambda: float(next(clock)))
    monkeypatch.setattr(loop, "time", times)
    assert main.main(["resync", "shop", "--wait", "--timeout", "600"]) == code
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_an_api_server_that_restarts_is_outlasted(
    play: Callable[[Iterable[Object]], None],
    api: ApiStub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    play([make_taken_up(DONE, **ENDED)])
    left = [1] * 3

    def fail(*_: object) -> None:
        api.failure = (503, "not ready") if left else None
        del left[:1]

    first = api.after_patch

    def apply_and_fail(pipeline: Object) -> None:
        first(pipeline)
        fail()

    api.after_patch = apply_and_fail
    monkeypatch.setattr(loop, "_sleep", fail)
    assert main.main(["resync", "shop", "--wait"]) == 0
    left += [1] * (loop.MAX_UNANSWERED + 1)
    api.after_patch = fail
    assert main.main(["resync", "shop", "--wait"]) == 3
    assert "not ready" in capsys.readouterr().err


def test_a_login_that_is_refused_while_it_waits_ends_the_waiting_alone(
    play: Callable[[Iterable[Object]], None],
    api: ApiStub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    play([make_taken_up(OLD, currentRun=run("Running"))])
    monkeypatch.setattr(loop, "_sleep", lambda _: setattr(api, "failure", (401, "Unauthorized")))
    assert main.main(["resync", "shop", "--wait"]) == 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("icdc: resync 5 goes on in the cluster, but cannot be followed: ")
    # With the login that was read anew, once.
    assert len(api.asked) == 5


def test_who_stops_waiting_leaves_the_request_as_it_is(
    shop: Object,
    play: Callable[[Iterable[Object | BaseException]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    play([make_taken_up(OLD, currentRun=run("Running")), KeyboardInterrupt()])
    assert main.main(["resync", "shop", "--wait"]) == 130
    assert shop["spec"]["resync"]["nonce"] == 5
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "icdc: resync 5 goes on in the cluster; see icdc status shop",
        "icdc: interrupted",
    ]


RETRIED = make_table("Stalled", reason="TargetUnavailable", message="down")
ANOTHER = make_table("Stalled", "customers", **GAP)
FAILED: Object = {
    "recentRuns": [run("Failed", failure=FAILURE)],
    "lastRun": run("Failed", failure=FAILURE),
    "nextAttemptTime": APPLIED,
    "conditions": [
        make_condition("Stalled", "True", reason="TableStalled", message="customers: Gap")
    ],
}


@pytest.mark.parametrize(
    ("mode", "statuses", "code", "said"),
    [
        # A stall of another table neither ends it at the first failure, nor hides the last one.
        (
            "Export",
            [
                make_taken_up(RETRIED, ANOTHER, **FAILED, consecutiveFailures=1),
                make_taken_up(DONE, ANOTHER, **ENDED),
            ],
            0,
            "exported shop.orders (snapshot 9)",
        ),
        ("Export", [make_taken_up(RETRIED, ANOTHER, **FAILED, consecutiveFailures=8)], 3, "down"),
        ("Verify", [make_taken_up(make_table("Stalled", **GAP), **FAILED)], 3, "customers: Gap"),
        ("Export", [make_taken_up(ANOTHER, **ENDED)], 2, "resync 5: the spec has lost shop.orders"),
        ("Verify", [make_taken_up(ANOTHER, **ENDED)], 2, "resync 5: the spec has lost shop.orders"),
        ("Export", [make_taken_up(**ENDED) | {"tables": []}], 2, "status.tables is empty"),
    ],
)
def test_other_tables_than_those_asked_for_do_not_end_the_waiting(
    mode: str,
    statuses: list[Object],
    code: int,
    said: str,
    play: Callable[[Iterable[Object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    play(statuses)
    asked = ["resync", "shop", "--table", "shop.orders", "--mode", mode, "--wait"]
    assert main.main(asked) == code
    printed = capsys.readouterr()
    assert said in (printed.err if code else printed.out).splitlines()[-1]


STILL = make_table("Stalled", **GAP)
REFUSED = make_table("Stalled", reason="RollbackRefused", message="why")


@pytest.mark.parametrize(
    ("command", "table", "said"),
    [
        ("resync", STILL, "shop.orders: Gap: the changes are lost"),
        ("rollback", REFUSED, "shop.orders: RollbackRefused: why"),
    ],
)
def test_a_table_that_a_run_which_goes_on_stalls_as_before_ends_the_waiting(
    command: str,
    table: Object,
    said: str,
    shop: Object,
    play: Callable[[Iterable[Object]], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["spec"]["changelog"] = {"trigger": "Continuous"}
    other = make_table(name="customers", appliedAt=APPLIED, appliedSnapshotId="9")
    left = iter(
        [
            # Neither before the run reports, nor while it has work in another table.
            make_taken_up(table, other | {"snapshotsBehind": 0}, currentRun=run("Submitted")),
            make_taken_up(table, other, currentRun=run("Running")),
            make_taken_up(table, other | {"snapshotsBehind": 0}, currentRun=run("Running")),
        ]
    )
    play(left)
    shop["status"] = {**BEFORE, "tables": [table]}
    monkeypatch.setattr(loop, "SETTLED_SECONDS", 0.0)
    assert main.main([command, "shop", "--table", "shop.orders", "--wait"]) == 1
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert not list(left)


def test_a_table_that_stays_stalled_while_runs_of_other_tables_follow_each_other_ends_the_waiting(
    play: Callable[[Iterable[Object]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    ended = [run("Succeeded", 51), run("Succeeded", 50)]
    left = iter(
        [
            # The first one may have been asked to end before it came to the table.
            make_taken_up(STILL, currentRun=run("Running", 51), recentRuns=ended[1:]),
            make_taken_up(STILL, currentRun=run("Running", 52), recentRuns=ended),
        ]
    )
    play(left)
    assert main.main(["resync", "shop", "--table", "shop.orders", "--wait"]) == 1
    assert "shop.orders: Gap: the changes are lost" in capsys.readouterr().err
    assert not list(left)
