"""Take pipelines from the queue and reconcile them, until the queue is closed.

A worker survives whatever a reconcile raises: one broken pipeline must not cost the others their
worker. It must not know what a reconcile does, nor the cluster.

    reconcile returns 30          finish: due again in 30 s
    Conflict, Unavailable, …      retry with the backoff of the queue
    ValueError                    the same, logged with its stack and counted as unexpected
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from icdc_api.errors import IcdcError
from icdc_operator.cluster import logs
from icdc_operator.cluster.kube.api_errors import Conflict, NameTaken, Unavailable
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey, WorkQueue

RECONCILE_SECONDS = 120.0
"""Time-out of one reconcile: far above those of its requests, so that it ends what would hang for
ever and never a slow API server."""

Reconcile = Callable[[PipelineKey], Awaitable[float | None]]
"""Reconciles one pipeline; returns the seconds until the next time, or None."""

_log = logging.getLogger(__name__)


class Workers:
    """A fixed number of workers on one queue. Use `run` once."""

    def __init__(
        self,
        queue: WorkQueue,
        reconcile: Reconcile,
        metrics: Metrics,
        *,
        reconcile_seconds: float = RECONCILE_SECONDS,
    ) -> None:
        self._queue = queue
        self._reconcile = reconcile
        self._metrics = metrics
        self._reconcile_seconds = reconcile_seconds
        self.last_finished = time.monotonic()
        """When a reconcile last ended, well or not, by `time.monotonic`."""

    async def run(self, count: int) -> None:
        """Run `count` workers until the queue is closed and running reconciles have ended."""
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(self._work(), name=f"worker-{number}")

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            with logs.label_lines(pipeline=str(key)):
                await self._reconcile_one(key)

    async def _reconcile_one(self, key: PipelineKey) -> None:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._reconcile_seconds):
                again_after = await self._reconcile(key)
        except asyncio.CancelledError:
            # Given back, so that whoever waits for an idle queue does not wait for ever.
            self._queue.retry(key)
            raise
        except (IcdcError, TimeoutError) as error:
            self._retry(key, error)
        except Exception:  # noqa: BLE001 - the root of a worker
            # One of the places that catch everything, one for each root of a process or a thread
            # (tests/unit/tools/test_broad_excepts.py). An unexpected error concerns this
            # pipeline alone: it is logged whole, counted, and tried again with backoff.
            _log.exception("internal error; please report it")
            self._metrics.unexpected_errors.inc()
            self._queue.retry(key)
            self._metrics.reconciles.labels("error").inc()
        else:
            self._queue.finish(key, again_after=again_after)
            self._metrics.reconciles.labels("done").inc()
        finally:
            self.last_finished = time.monotonic()
            self._metrics.reconcile_seconds.observe(self.last_finished - started)

    def _retry(self, key: PipelineKey, error: IcdcError | TimeoutError) -> None:
        at_least = 0.0
        if isinstance(error, Unavailable):
            at_least = error.retry_after or 0.0
        wait = self._queue.retry(key, at_least=at_least)
        # No warning: somebody else was faster, and the next reconcile reads what they wrote.
        if isinstance(error, Conflict) and not isinstance(error, NameTaken):
            self._metrics.reconciles.labels("conflict").inc()
            return
        result = "timeout" if isinstance(error, TimeoutError) else "failed"
        self._metrics.reconciles.labels(result).inc()
        text = str(error) or f"the reconcile took longer than {self._reconcile_seconds:.0f} s"
        _log.warning("%s; again in %.1f s", text, wait)
