"""`/healthz`, `/readyz` and `/metrics` over HTTP, and the watchdog that answers the first.

Healthy means that this process does its work: a constant 200 has hidden dead operators for hours.
It does not mean that the API server answers, or that pipelines do well: a restart mends neither.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from aiohttp import web

from icdc_operator.cluster.metrics import Metrics

WAIT_SECONDS = 300.0
"""For how long a pipeline may wait for a worker while no look at any ends; more than twice what
a look may take."""

MISSED_SECONDS = 180.0
"""For how long a watch may owe an event that a list has shown."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Work(Protocol):
    """What the watchdog looks at. Times in seconds."""

    @property
    def oldest_seconds(self) -> float:
        """For how long the pipeline that waits longest has waited for a worker."""
        ...

    @property
    def finished_seconds(self) -> float:
        """How long ago a look at a pipeline ended."""
        ...

    @property
    def missed_seconds(self) -> float:
        """For how long the watch has owed an event."""
        ...

    @property
    def ready(self) -> str | None:
        """Why the process cannot do its part yet, or None."""
        ...


def sickness(work: Work) -> str | None:
    """Why only a restart can help, or None."""
    oldest, finished = work.oldest_seconds, work.finished_seconds
    if oldest > WAIT_SECONDS and finished > WAIT_SECONDS:
        return (
            f"a pipeline has waited for a worker for {oldest:.0f} s, "
            f"and no look has ended for {finished:.0f} s"
        )
    if work.missed_seconds > MISSED_SECONDS:
        return f"the watch has not told of a change for {work.missed_seconds:.0f} s"
    return None


def health_app(work: Work) -> web.Application:
    """Answers the kubelet: 200 with `ok`, or 503 with the reason."""

    async def healthz(_: web.Request) -> web.Response:
        return _answer(sickness(work))

    async def readyz(_: web.Request) -> web.Response:
        return _answer(work.ready)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def metrics_app(metrics: Metrics) -> web.Application:
    """Answers Prometheus."""

    async def scrape(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": METRICS_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return app


@contextlib.asynccontextmanager
async def serve(
    app: web.Application, *, host: str, port: int, bound: Callable[[int], None]
) -> AsyncIterator[None]:
    """Serves `app` in the block; port 0 is a free one, `bound` is told which it became."""
    # No access log: probes and scrapes come every few seconds.
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound(runner.addresses[0][1])
        yield
    finally:
        await runner.cleanup()


def _answer(problem: str | None) -> web.Response:
    if problem is None:
        return web.Response(text="ok\n")
    return web.Response(status=503, text=f"{problem}\n")
