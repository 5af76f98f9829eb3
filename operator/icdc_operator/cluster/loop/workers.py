"""Tasks that take pipelines from the queue and have each looked at, until the queue is closed.

A worker survives whatever a look raises: one pipeline that cannot be looked at must not cost the
others their worker. Knows neither what a look is nor the cluster.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from icdc_api.errors import IcdcError
from icdc_operator.cluster import logs
from icdc_operator.cluster.kube.errors import Conflict, NameTaken, Unavailable
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey, WorkQueue

LOOK_SECONDS = 120.0
"""What one look may take: far above its requests' own time-outs, so that it never matters to a
slow API server, only to a look that would hang for ever."""

Look = Callable[[PipelineKey], Awaitable[float | None]]
"""One look at a pipeline: seconds until the next one, or None."""

_log = logging.getLogger(__name__)


class Workers:
    """A fixed number of workers on one queue. Use `run` once."""

    def __init__(
        self, queue: WorkQueue, look: Look, metrics: Metrics, *, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._queue = queue
        self._look = look
        self._metrics = metrics
        self._look_seconds = look_seconds
        self.last_finished = time.monotonic()
        """When a look last ended, well or not, by `time.monotonic`."""

    async def run(self, count: int) -> None:
        """Works with `count` workers until the queue is closed and what was begun is done."""
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(self._work(), name=f"worker-{number}")

    async def _work(self) -> None:
        while (key := await self._queue.get()) is not None:
            with logs.about(pipeline=str(key)):
                await self._one(key)

    async def _one(self, key: PipelineKey) -> None:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._look_seconds):
                again_after = await self._look(key)
        except asyncio.CancelledError:
            self._queue.retry(key)
            raise
        except (IcdcError, TimeoutError) as error:
            self._failed(key, error)
        except Exception:  # noqa: BLE001 - see below
            # The one place besides `main` that catches everything: an error that nobody foresaw
            # is this pipeline's alone, is logged whole, counted, and tried again with backoff.
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

    def _failed(self, key: PipelineKey, error: IcdcError | TimeoutError) -> None:
        at_least = 0.0
        if isinstance(error, Unavailable):
            at_least = error.retry_after or 0.0
        wait = self._queue.retry(key, at_least=at_least)
        if isinstance(error, Conflict) and not isinstance(error, NameTaken):
            self._metrics.reconciles.labels("conflict").inc()
            return
        result = "timeout" if isinstance(error, TimeoutError) else "failed"
        self._metrics.reconciles.labels(result).inc()
        text = str(error) or f"the look took longer than {self._look_seconds:.0f} s"
        _log.warning("%s; again in %.1f s", text, wait)
