"""Run the core of one operator, from its start until it is killed.

The core is adapter, reconciler, queue and workers as `process.Operator` connects them. Its watch is
played by the trial, which may lose events. It must not know the story.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import cast

from kubernetes.aio.client import ApiClient

from icdc_operator.cluster import together
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.loop import relist
from icdc_operator.cluster.loop.posting import Poster
from icdc_operator.cluster.loop.reconciler import Reconciler
from icdc_operator.cluster.loop.workers import Workers
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey, WorkQueue
from icdc_operator.cluster.runs.adapter import ClusterAdapter
from icdc_testing.kube.stored_pipelines import Resource
from icdc_testing.operator.adapter.stepping import SETTINGS
from icdc_testing.operator.kills.cuts import CutError, CutLine
from icdc_testing.waiting.leaping_clock import LeapingClock


class KilledOperator:
    """One operator, from its start to its death."""

    def __init__(
        self, line: CutLine, key: PipelineKey, clock: LeapingClock, now: Callable[[], datetime]
    ) -> None:
        self.metrics = Metrics()
        self.line = line
        self._key = key
        api = ClusterApi(cast(ApiClient, line), observer=self.metrics.count_request)
        self._queue = WorkQueue(lambda: clock.seconds)
        self._adapter = ClusterAdapter(api, SETTINGS, now=now)
        self._reconciler = Reconciler(
            self._adapter,
            now=now,
            post_events=Poster(api, self.metrics).post,
            metrics=self.metrics,
        )
        self._workers = Workers(self._queue, self._reconciler.reconcile, self.metrics)

    async def run(self) -> None:
        """Work until it is cut off."""
        self._queue.add(self._key)
        try:
            await together.run_until_first(self._workers.run(2), self._relist())
        except BaseExceptionGroup as group:
            _, others = group.split(CutError)
            if others is not None:
                raise
        finally:
            self.line.end()

    async def _relist(self) -> None:
        """Add a pipeline whose event was lost, as `Relist` would."""
        while True:
            await asyncio.sleep(relist.PERIOD_SECONDS)
            self._queue.add(self._key)

    def notify(self, plural: str, pipeline: Resource, deleted: bool) -> None:
        """Take an event of a watch, as `process.Operator` does."""
        version = str(pipeline["metadata"].get("resourceVersion", ""))
        living = plural == kinds.PIPELINE.plural and not deleted
        if living and self._reconciler.knows(self._key, version):
            return
        if plural == kinds.POD.plural:
            self._adapter.note_driver_pod(pipeline)
        self._queue.add(self._key)

    @property
    def is_active(self) -> bool:
        """Return whether a reconcile is running."""
        return self._queue.active > 0

    def check_errors(self) -> None:
        """Raise AssertionError after an error that nobody foresaw."""
        (errors,) = self.metrics.unexpected_errors.collect()
        assert errors.samples[0].value == 0, "an internal error; see the log"
