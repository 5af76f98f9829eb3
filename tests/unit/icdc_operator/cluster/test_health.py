"""`/healthz`, `/readyz` and `/metrics`, over HTTP."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass

import aiohttp
import pytest

from icdc_operator.cluster import health
from icdc_operator.cluster.metrics import Metrics

pytestmark = pytest.mark.unit

LONG = 1000.0


@dataclass
class Vitals:
    """What the watchdog is told."""

    oldest_seconds: float = 0.0
    finished_seconds: float = 0.0
    missed_seconds: float = 0.0
    ready: str | None = None


def ask(app_of: object, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    """Status and body of one answer."""
    app = (
        health.build_health_app(app_of)
        if isinstance(app_of, Vitals)
        else health.build_metrics_app(Metrics())
    )

    async def play() -> tuple[int, str]:
        ports: list[int] = []
        async with (
            health.serve(app, port=0, bound=ports.append),
            aiohttp.ClientSession() as session,
            session.get(f"http://{host}:{ports[0]}{path}") as answer,
        ):
            return answer.status, await answer.text()

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("vitals", "status", "text"),
    [
        pytest.param(Vitals(), 200, "ok", id="at rest"),
        pytest.param(Vitals(finished_seconds=LONG), 200, "ok", id="nothing to do for long"),
        pytest.param(Vitals(oldest_seconds=LONG), 200, "ok", id="busy, but looks end"),
        pytest.param(Vitals(LONG, LONG), 503, "waited for a worker", id="hung workers"),
        pytest.param(Vitals(missed_seconds=LONG), 503, "the watch", id="a dead watch"),
        pytest.param(Vitals(missed_seconds=10), 200, "ok", id="a watch that is a little late"),
        pytest.param(Vitals(ready="not listed"), 200, "ok", id="not ready is not sick"),
    ],
)
def test_only_what_a_restart_mends_is_sick(vitals: Vitals, status: int, text: str) -> None:
    got, body = ask(vitals, "/healthz")
    assert got == status
    assert text in body


@pytest.mark.parametrize(("problem", "status"), [(None, 200), ("not listed yet", 503)])
def test_ready_says_why_not(problem: str | None, status: int) -> None:
    got, body = ask(Vitals(ready=problem), "/readyz")
    assert (got, body.strip()) == (status, problem or "ok")


def list_loopbacks() -> list[str]:
    """Return the addresses of this host alone, of each family that it has, as URLs have them."""
    found = []
    for family, address, shown in (
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "[::1]"),
    ):
        with contextlib.suppress(OSError), socket.socket(family) as tried:
            tried.bind((address, 0))
            found.append(shown)
    return found


@pytest.mark.parametrize("host", list_loopbacks())
def test_every_family_of_addresses_that_a_pod_may_have_is_answered(host: str) -> None:
    assert ask(Vitals(), "/healthz", host) == (200, "ok\n")


def test_metrics_are_served_as_text() -> None:
    status, body = ask(None, "/metrics")
    assert status == 200
    assert "# TYPE icdc_reconciles_total counter" in body
