"""What ends the waiting of `--wait` beside the end of a resync, and the waiting for a restart."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest

from icdc_cli import main
from icdc_cli.cluster import awaiting
from icdc_testing.kube.api_stub import ApiStub, Object
from icdc_testing.kube.stored_pipelines import condition
from icdc_testing.operator.resync_statuses import (
    BEFORE,
    DONE,
    ENDED,
    FAILURE,
    OLD,
    STALLED,
    run,
    taken_up,
)

pytestmark = pytest.mark.unit


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
