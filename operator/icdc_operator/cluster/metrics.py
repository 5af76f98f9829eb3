"""Define the metrics of the operator itself: names, labels, and how each is set.

One registry for each `Metrics`, so that two operators in one process (as in tests) do not share
values. The gauges of single pipelines are in `pipeline_metrics`. It must not decide anything.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from prometheus_client import (
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunStatus
from icdc_operator.cluster.pipeline_metrics import PipelineMetrics
from icdc_operator.cluster.queue import WorkQueue
from icdc_operator.core import run_log

# Seconds, from a reconcile that reads three objects nearby to half of its time-out of 120 s.
_RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# From a driver whose image is on its node to thrice the default of `timeouts.startSeconds`, 600 s.
_START_BUCKETS = (5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1800.0)
# From no wait at all to a day behind exports.
_WAIT_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)


class Metrics(PipelineMetrics):
    """The metrics of `/metrics`. Durations in seconds, times in seconds since 1970."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__(now)
        self._add_work_metrics()
        self._add_cluster_metrics()

    def _add_work_metrics(self) -> None:
        self.reconciles = self._create_counter(
            "icdc_reconciles", "Reconciles of a pipeline, by result.", "result"
        )
        self.reconcile_seconds = Histogram(
            "icdc_reconcile_seconds",
            "Duration of one reconcile of a pipeline.",
            registry=self.registry,
            buckets=_RECONCILE_BUCKETS,
        )
        self.status_writes = self._create_counter(
            "icdc_status_writes", "Writes of a pipeline's status."
        )
        self.unexpected_errors = self._create_counter(
            "icdc_unexpected_errors",
            "Unexpected errors of the operator, see its log; please report them.",
        )
        self.events_posted = self._create_counter(
            "icdc_events_posted", "Kubernetes Events that were posted or dropped.", "result"
        )
        self.runs = self._create_counter(
            "icdc_runs",
            "Runs that ended, by kind, result and failure class.",
            "kind",
            "result",
            "class",
        )
        self.run_start_seconds = Histogram(
            "icdc_run_start_latency_seconds",
            "Time from the plan of a run until its driver is seen running.",
            registry=self.registry,
            buckets=_START_BUCKETS,
        )
        self.run_wait_seconds = Histogram(
            "icdc_run_wait_seconds",
            "Time that a due run was queued because of a limit of active runs; 0 without limits.",
            registry=self.registry,
            buckets=_WAIT_BUCKETS,
        )

    def _add_cluster_metrics(self) -> None:
        self.api_requests = self._create_counter(
            "icdc_api_requests", "Requests to the Kubernetes API.", "verb", "kind", "code"
        )
        self.watch_restarts = self._create_counter(
            "icdc_watch_restarts", "Watches that ended with an error and were started again."
        )
        self.watch_events = self._create_counter(
            "icdc_watch_events", "Events of watches, by kind of object.", "kind"
        )
        self.leader = self._create_gauge("icdc_leader", "1 while this process leads, else 0.")
        self.build_info = self._create_gauge(
            "icdc_build_info", "1, with the version of the operator.", "version"
        )

    def show_process(self, version: str | None) -> None:
        """Show what runs, and what the process takes of CPU, memory, threads and files.

        Once: the metrics of a process say nothing of a second operator in it.
        """
        self.build_info.labels(version or "unknown").set(1)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)

    def follow_queue(self, queue: WorkQueue) -> None:
        """Show depth, age and activity of `queue`."""
        self.follow("icdc_queue_depth", "Pipelines that wait for a worker.", lambda: queue.depth)
        self.follow(
            "icdc_queue_oldest_seconds",
            "Seconds that the pipeline that waits longest has waited for a worker.",
            lambda: queue.oldest_seconds,
        )
        self.follow(
            "icdc_queue_active", "Pipelines that are being reconciled.", lambda: queue.active
        )

    def follow(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Show a gauge whose value is `value()` at each scrape."""
        self._create_gauge(name, documentation).set_function(value)

    def count_request(self, verb: str, kind: str, code: int | str) -> None:
        """Count one request to the API server; an `Observer` of `kube.transport`."""
        self.api_requests.labels(verb, kind, str(code)).inc()

    def count_change(self, before: PipelineStatus, after: PipelineStatus) -> None:
        """Count what happened between two written statuses of one pipeline.

        From statuses, not from the code that acts: a run that ended while no operator was there is
        counted once, by whichever operator writes its end.
        """
        self.status_writes.inc()
        ended = after.last_run
        if ended is not None and _get_epoch(before.last_run) != ended.epoch:
            failure = ended.failure
            self.runs.labels(
                ended.kind.value,
                ended.state.value,
                "" if failure is None else failure.failure_class.value,
            ).inc()
        started = run_log.compute_start_seconds(before, after)
        if started is not None:
            self.run_start_seconds.observe(started)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


def _get_epoch(run: RunStatus | None) -> int | None:
    return None if run is None else run.epoch
