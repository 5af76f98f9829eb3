"""`--wait` of `icdc resync` and `restart`: when it ends, with what, and what it leaves as it is."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from icdc_api.errors import TargetUnavailable
from icdc_api.status.runs import Failure
from icdc_cli import main
from icdc_cli.cluster import awaiting
from icdc_testing.kube.api_stub import ApiStub, Object
from icdc_testing.kube.stored_pipelines import condition

pytestmark = pytest.mark.unit

PLANNED, APPLIED = "2026-03-01T12:00:00Z", "2026-03-01T12:05:00Z"
FAILURE = Failure.of(TargetUnavailable("down")).to_resource()
STALLED = condition("Stalled", "True", message="failed 8 times in a row: down")


def run(state: str, epoch: int = 50, **more: Any) -> Object:
    name = {"name": f"shop-e{epoch}-1", "kind": "Export", "sequence": epoch, "generation": 1}
    return {**name, "epoch": epoch, "plannedAt": PLANNED, "state": state, **more}


def table(state: str = "Streaming", name: str = "orders", **more: Any) -> Object:
    return {"name": f"shop.{name}", "index": name, "state": state, **more}


def taken_up(*tables: Object, mode: str = "Export", verified: int = 0, **more: Any) -> Object:
    """Return a status in which the run of epoch 50 is the first one of resync 5."""
    resync = {"nonce": 5, "mode": mode, "id": 50}
    triggers = {"resyncNonce": 5, "verifiedNonce": verified, "resync": resync, "restartNonce": 5}
    return {
        "observedGeneration": 1,
        "observedTriggers": triggers,
        "tables": list(tables or (table(), table(name="customers"))),
        **more,
    }


def compared(name: str = "orders", **more: Any) -> Object:
    return table(name=name, verification={"nonce": 5, "at": APPLIED, **more})


DONE = table(appliedAt=APPLIED, appliedSnapshotId="9")
OLD = table(appliedAt="2026-02-01T00:00:00Z", appliedSnapshotId="8")
GAP: Object = {"reason": "Gap", "message": "the changes are lost"}
BEFORE: Object = {
    "observedGeneration": 1,
    "observedTriggers": {"resyncNonce": 4, "restartNonce": 4},
    "tables": [table("Stalled", **GAP)],
    "recentRuns": [run("Succeeded", 40)],
}
EQUAL = compared(equal=True, documents=3)
DIFFERENT = compared(equal=False, missing=2, extra=0, different=0)
ENDED: Object = {"recentRuns": [run("Succeeded")]}


@pytest.fixture
def play(
    shop: Object, api: ApiStub, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Iterable[Object | BaseException]], None]:
    """What is in the status when it is read for the first, the second, … time after the request."""
    shop["spec"] |= {"resync": {"nonce": 4}, "restartNonce": 4}
    shop["status"] = BEFORE

    def prepare(statuses: Iterable[Object | BaseException]) -> None:
        left = iter(statuses)

        def show_next(*_: object) -> None:
            status = next(left)
            if isinstance(status, BaseException):
                raise status
            shop["status"] = status

        api.after_patch = show_next
        monkeypatch.setattr(awaiting, "_sleep", show_next)

    return prepare


@pytest.mark.parametrize(
    ("mode", "statuses", "code", "said"),
    [
        # An export: of a run that ends, of one that goes on, of an empty table.
        ("Export", [taken_up(OLD, **ENDED)], 0, "exported shop.orders (snapshot 8)"),
        (
            "Export",
            [taken_up(OLD, currentRun=run("Running")), taken_up(DONE, currentRun=run("Running"))],
            0,
            "shop: resync 5 has ended: exported shop.orders (snapshot 9)",
        ),
        (
            "Export",
            [
                taken_up(DONE, table("Exporting", "customers"), currentRun=run("Running")),
                taken_up(DONE, table("Complete", "customers"), **ENDED),
            ],
            0,
            "shop.customers (snapshot None)",
        ),
        # A stall that was there before is what it shall correct; after its run it is the result.
        (
            "Export",
            [
                taken_up(table("Stalled", **GAP), currentRun=run("Submitted")),
                taken_up(table("Stalled", **GAP), currentRun=run("Running")),
                taken_up(DONE, **ENDED),
            ],
            0,
            "exported shop.orders (snapshot 9)",
        ),
        (
            "Export",
            [taken_up(table("Stalled", **GAP), **ENDED)],
            1,
            "shop.orders: Gap: the changes are lost",
        ),
        (
            "Export",
            [
                taken_up(
                    table("Stalled", reason="AliasTaken", message="taken"),
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
                taken_up(OLD, recentRuns=[run("Failed", failure=FAILURE)]),
                taken_up(
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
                taken_up(
                    table("Stalled", reason="TargetUnavailable", message="down"),
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
                taken_up(OLD, recentRuns=[run("Failed", 40)], conditions=[STALLED]),
                taken_up(OLD, **ENDED),
            ],
            0,
            "has ended",
        ),
        (
            "Verify",
            [taken_up(mode="Verify"), taken_up(EQUAL, verified=5)],
            0,
            "orders: 3 documents",
        ),
        ("Verify", [taken_up(DIFFERENT, EQUAL, verified=5)], 1, "orders: 2 missing, 0 extra"),
        ("Verify", [taken_up(verified=5)], 1, "no table was compared"),
        (
            "Verify",
            [
                taken_up(
                    compared(reason="TargetUnavailable", message="down"),
                    verified=5,
                    lastRun=run("Failed", kind="Verify", failure=FAILURE),
                )
            ],
            3,
            "shop.orders: TargetUnavailable: down",
        ),
        ("Verify", [taken_up(compared(reason="Gap", message="lost"), verified=5)], 1, "Gap: lost"),
        (
            "Repair",
            [
                taken_up(
                    compared(equal=False, missing=2, extra=0, different=0, repaired=2), verified=5
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
    play([taken_up(DONE, table("Exporting", "customers"), currentRun=run("Running"))])
    assert main.main(["resync", "shop", "--table", "shop.orders", "--wait"]) == 0


def test_the_progress_is_said_once_for_each_state(
    play: Callable[[Iterable[Object]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    unseen = {**BEFORE, "observedGeneration": -1}
    exporting = taken_up(table("Exporting"), currentRun=run("Running"))
    submitted = taken_up(OLD, currentRun=run("Submitted"))
    play(
        [
            unseen,
            {**unseen, "currentRun": run("Running", 40)},
            {**BEFORE, "conditions": [condition("Suspended", "True")]},
            *(submitted, submitted, exporting, exporting),
            taken_up(DONE, **ENDED),
        ]
    )
    assert main.main(["resync", "shop", "--wait"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "icdc: resync 5: no operator has read it yet",
        "icdc: resync 5: the run shop-e40-1 is active and must end first",
        "icdc: resync 5: the pipeline is suspended; it begins when it is resumed",
        "icdc: resync 5: the run shop-e50-1 is Submitted",
        "icdc: resync 5: the run shop-e50-1 is Running, 1 tables are exporting",
    ]


@pytest.mark.parametrize(
    ("status", "seconds", "code", "said"),
    [
        ({}, 61.0, 3, "no operator has read generation 1 of shop within 61 s; action required"),
        ({"currentRun": run("Running")}, 61.0, 3, "has not ended within 600 s and goes on"),
        (taken_up(currentRun=run("Running")), 601.0, 3, "the run shop-e50-1 is Running"),
        (
            {**BEFORE, "conditions": [condition("SpecValid", "False", message="no such field")]},
            1.0,
            2,
            "no such field",
        ),
        (
            taken_up()
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
    monkeypatch.setattr(awaiting, "time", times)
    assert main.main(["resync", "shop", "--wait", "--timeout", "600"]) == code
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_an_api_server_that_restarts_is_outlasted(
    play: Callable[[Iterable[Object]], None],
    api: ApiStub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    play([taken_up(DONE, **ENDED)])
    left = [1] * 3

    def fail(*_: object) -> None:
        api.failure = (503, "not ready") if left else None
        del left[:1]

    first = api.after_patch

    def then_fail(pipeline: Object) -> None:
        first(pipeline)
        fail()

    api.after_patch = then_fail
    monkeypatch.setattr(awaiting, "_sleep", fail)
    assert main.main(["resync", "shop", "--wait"]) == 0
    left += [1] * (awaiting.MAX_UNANSWERED + 1)
    api.after_patch = fail
    assert main.main(["resync", "shop", "--wait"]) == 3
    assert "not ready" in capsys.readouterr().err


def test_who_stops_waiting_leaves_the_request_as_it_is(
    shop: Object,
    play: Callable[[Iterable[Object | BaseException]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    play([taken_up(OLD, currentRun=run("Running")), KeyboardInterrupt()])
    assert main.main(["resync", "shop", "--wait"]) == 130
    assert shop["spec"]["resync"]["nonce"] == 5
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "icdc: resync 5 goes on in the cluster; see icdc status shop",
        "icdc: interrupted",
    ]


@pytest.mark.parametrize(
    ("statuses", "code", "said"),
    [
        ([BEFORE, taken_up(**ENDED)], 0, "shop: the run shop-e50-1 has succeeded"),
        (
            [
                taken_up(currentRun=run("Running")),
                taken_up(currentRun=run("Running"), conditions=[condition("CaughtUp", "True")]),
            ],
            0,
            "shop: the run shop-e50-1 has caught up and goes on",
        ),
        (
            [
                taken_up(
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
    statuses: list[Object],
    code: int,
    said: str,
    play: Callable[[Iterable[Object]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    play(statuses)
    assert main.main(["restart", "shop", "--wait"]) == code
    printed = capsys.readouterr()
    assert said in (printed.err if code else printed.out)
