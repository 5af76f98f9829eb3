"""Serve `/healthz`, `/readyz` and `/metrics` over HTTP; the first is answered by a watchdog.

Healthy means that this process does its work: a constant 200 has hidden dead operators for hours.
It does not mean that the API server answers, or that pipelines do well: a restart heals neither.

    a pipeline waits 400 s, the last reconcile ended 350 s ago    503: workers hang
    a pipeline waits 400 s, the last reconcile ended 2 s ago      200: there is much to do
    the watch has missed a version for 200 s                      503: the watch is dead
    the API server does not answer                                200: the queue backs off
"""

import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from aiohttp import web

from icdc_operator.cluster.metrics import Metrics

WAIT_SECONDS = 300.0
"""How long a pipeline may wait for a worker while no reconcile ends; more than twice the time-out
of a reconcile."""

MISSED_SECONDS = 180.0
"""How long the watch may miss a version that a list has shown. kopf ends a watch that is silent for
90 s and starts it again, so one that works has caught up by then."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Work(Protocol):
    """The state of the process that the watchdog judges. Times in seconds."""

    @property
    def oldest_seconds(self) -> float:
        """Return how long the pipeline that waits longest has waited for a worker."""
        ...

    @property
    def finished_seconds(self) -> float:
        """Return how long ago the last reconcile ended."""
        ...

    @property
    def missed_seconds(self) -> float:
        """Return how long the watch has missed a version."""
        ...

    @property
    def ready(self) -> str | None:
        """Return why the process is not ready yet, or None."""
        ...


def find_sickness(work: Work) -> str | None:
    """Return why only a restart can help, or None."""
    # Both: with nothing to do no reconcile ends for hours, and with much to do a pipeline waits
    # long although workers work.
    oldest, finished = work.oldest_seconds, work.finished_seconds
    if oldest > WAIT_SECONDS and finished > WAIT_SECONDS:
        return (
            f"a pipeline has waited for a worker for {oldest:.0f} s, "
            f"and no reconcile has ended for {finished:.0f} s"
        )
    if work.missed_seconds > MISSED_SECONDS:
        return f"the watch has not reported a change for {work.missed_seconds:.0f} s"
    return None


def build_health_app(work: Work) -> web.Application:
    """Return the probes of the kubelet: 200 with `ok`, or 503 with the reason."""

    async def answer_healthz(_: web.Request) -> web.Response:
        return _build_answer(find_sickness(work))

    async def answer_readyz(_: web.Request) -> web.Response:
        return _build_answer(work.ready)

    app = web.Application()
    app.router.add_get("/healthz", answer_healthz)
    app.router.add_get("/readyz", answer_readyz)
    return app


def build_metrics_app(metrics: Metrics) -> web.Application:
    """Return the page that Prometheus scrapes."""

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": METRICS_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return app


@contextlib.asynccontextmanager
async def serve(
    app: web.Application, *, port: int, bound: Callable[[int], None]
) -> AsyncIterator[None]:
    """Serve `app` in the block. Port 0 takes a free one; `bound` is called with the real port.

    At all addresses, because the kubelet and Prometheus use the pod's, which may be of IPv6 alone.
    """
    # No access log: probes and scrapes come every few seconds.
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.SockSite(runner, _open_socket(port))
        await site.start()
        bound(runner.addresses[0][1])
        yield
    finally:
        await runner.cleanup()


def _open_socket(port: int) -> socket.socket:
    """Return one socket for both families, or for IPv4 where the host has nothing else."""
    if socket.has_dualstack_ipv6():
        family = socket.AF_INET6
        return socket.create_server(("", port), family=family, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _build_answer(problem: str | None) -> web.Response:
    if problem is None:
        return web.Response(text="ok\n")
    return web.Response(status=503, text=f"{problem}\n")
