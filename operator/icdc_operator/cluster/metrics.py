"""Define the operator's metrics in one place: names, labels, and how each is set.

One registry for each `Metrics`, so that two operators in one process (as in tests) do not share
values. A pipeline's labels are its namespace and name alone, and are removed with the pipeline:
nothing grows with tables, runs or snapshots. It must not decide anything.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import Phase, PipelineStatus
from icdc_api.status.runs import RunStatus
from icdc_operator.cluster.queue import PipelineKey, WorkQueue
from icdc_operator.core import run_log
from icdc_operator.core.observed import RunSeen
from icdc_operator.core.usage import Usage

# Seconds, from a reconcile that reads three objects nearby to half of its time-out of 120 s.
_RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# From a driver whose image is on its node to thrice the default of `timeouts.startSeconds`, 600 s.
_START_BUCKETS = (5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1800.0)
# From no wait at all to a day behind exports.
_WAIT_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
# No others: each is one series for each pipeline, and alerts and dashboard need these alone.
_SHOWN_CONDITIONS = (ConditionType.READY, ConditionType.STALLED)
_OF_PIPELINE = ("namespace", "name")
_KINDS = ("spec", "status", "report")


class Metrics:
    """The metrics of `/metrics`. Durations in seconds, times in seconds since 1970."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._add_work_metrics()
        self._add_cluster_metrics()
        self._add_pipeline_metrics()
        self._phases: dict[PipelineKey, Phase] = {}

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

    def _add_pipeline_metrics(self) -> None:
        self.lag = self._create_gauge(
            "icdc_lag_seconds", "Largest lagSeconds of a table of the pipeline.", *_OF_PIPELINE
        )
        self.snapshots_behind = self._create_gauge(
            "icdc_snapshots_behind",
            "Largest snapshotsBehind of a table of the pipeline.",
            *_OF_PIPELINE,
        )
        self.last_success = self._create_gauge(
            "icdc_last_success_timestamp_seconds", "Time of the last successful run.", *_OF_PIPELINE
        )
        self.failures = self._create_gauge(
            "icdc_consecutive_failures", "Failed attempts in a row.", *_OF_PIPELINE
        )
        self.conditions = self._create_gauge(
            "icdc_pipeline_condition",
            "1 if the condition of the pipeline is True, else 0.",
            *_OF_PIPELINE,
            "type",
        )
        self.pipelines = self._create_gauge("icdc_pipelines", "Pipelines by phase.", "phase")
        self.head_reads = self._create_counter(
            "icdc_head_reads",
            "Polls of a table's current snapshot by the operator; unseen: it could not be read.",
            "result",
        )
        self.unseen_tables = self._create_gauge(
            "icdc_tables_without_head",
            "Tables whose current snapshot the operator cannot read; runs poll them.",
            *_OF_PIPELINE,
        )
        self.open_sessions = self._create_gauge(
            "icdc_open_sessions",
            "Tables that have a session open in the pipeline's run, by its last report.",
            *_OF_PIPELINE,
        )
        self._add_limit_metrics()

    def _add_limit_metrics(self) -> None:
        self.state_bytes = self._create_gauge(
            "icdc_state_bytes",
            "Bytes of what is stored for the pipeline: spec, status, and report of its active run.",
            *_OF_PIPELINE,
            "kind",
        )
        self.state_limit = self._create_gauge(
            "icdc_state_limit_bytes", "Limit of icdc_state_bytes, by kind.", *_OF_PIPELINE, "kind"
        )
        self.dead_letters = self._create_gauge(
            "icdc_dead_letters", "Largest deadLetters of a table of the pipeline.", *_OF_PIPELINE
        )
        self.dead_letters_limit = self._create_gauge(
            "icdc_dead_letters_limit",
            "Dead letters above which a table is stalled; absent if the first dead letter stalls "
            "it.",
            *_OF_PIPELINE,
        )
        self.limited = self._create_gauge(
            "icdc_limited_seconds",
            "Time that all tasks of a last batch waited for sink.opensearch.limits; largest.",
            *_OF_PIPELINE,
        )
        self.pinned_tables = self._create_gauge(
            "icdc_pinned_tables",
            "Tables whose applied snapshot is retained by a tag; each has two tags at most.",
            *_OF_PIPELINE,
        )
        self.oldest_proof = self._create_gauge(
            "icdc_oldest_proof_timestamp_seconds",
            "Time of the last comparison with its index of the table whose last comparison is "
            "oldest. For one without a result, the time since when the condition Verified does not "
            "hold. Tables that were never compared are left out.",
            *_OF_PIPELINE,
        )
        self.proof_limit = self._create_gauge(
            "icdc_proof_limit_seconds",
            "Time within which spec.verify.every promises the next comparison; absent without.",
            *_OF_PIPELINE,
        )

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

    def show(self, key: PipelineKey, status: PipelineStatus) -> None:
        """Set the gauges of a pipeline from its status."""
        summary = status.summary
        _set(self.lag, key, None if summary is None else summary.lag_seconds)
        _set(self.snapshots_behind, key, None if summary is None else summary.snapshots_behind)
        succeeded = run_log.find_last_success(status)
        # None: it is longer ago than `recentRuns` reaches, so the last value stays.
        if succeeded is not None:
            _set(self.last_success, key, succeeded.timestamp())
        _set(self.failures, key, status.consecutive_failures)
        waited = [t.last_batch.limited_millis or 0 for t in status.tables if t.last_batch]
        _set(self.limited, key, max(waited) / 1000 if any(waited) else None)
        for kind in _SHOWN_CONDITIONS:
            self.conditions.labels(*key, kind.value).set(status.holds(kind))
        self._count_phase(key, status.phase)

    def forget(self, key: PipelineKey) -> None:
        """Remove the gauges of a deleted pipeline."""
        gauges = (self.lag, self.snapshots_behind, self.last_success, self.failures)
        limits = (self.dead_letters, self.dead_letters_limit, self.limited, self.pinned_tables)
        proofs = (self.oldest_proof, self.proof_limit)
        for gauge in (*gauges, *limits, *proofs, self.open_sessions):
            _set(gauge, key, None)
        for kind in _KINDS:
            for gauge in (self.state_bytes, self.state_limit):
                gauge.remove(*key, kind)
        for kind in _SHOWN_CONDITIONS:
            self.conditions.remove(*key, kind.value)
        self._count_phase(key, None)

    def show_sessions(self, key: PipelineKey, run: RunSeen | None) -> None:
        """Set how many tables have a session open in a run; none, or one that ended, has no gauge.

        The names are in the report alone: a series for each table would grow with their number.
        """
        report = None if run is None or not run.live else run.report
        _set(self.open_sessions, key, None if report is None else len(report.open_sessions))

    def show_usage(self, key: PipelineKey, usage: Usage) -> None:
        """Set how much of each limit a pipeline has used; what is not known has no gauge."""
        for kind, amount in zip(_KINDS, (usage.spec, usage.status, usage.report), strict=True):
            _set(self.state_bytes, key, amount.used, kind)
            # Not alone: a limit without what is used of it would look like a state that is empty.
            limit = None if amount.used is None else amount.limit
            _set(self.state_limit, key, limit, kind)
        _set(self.dead_letters, key, usage.dead_letters.used)
        _set(self.dead_letters_limit, key, usage.dead_letters.limit)
        _set(self.pinned_tables, key, usage.pinned_tables)
        _set(self.oldest_proof, key, usage.proof.used)
        _set(self.proof_limit, key, usage.proof.limit)

    def show_unseen(self, key: PipelineKey, tables: int | None) -> None:
        """Set the number of tables whose catalog cannot be read; None removes the gauge."""
        _set(self.unseen_tables, key, tables)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _count_phase(self, key: PipelineKey, phase: Phase | None) -> None:
        # By differences: a count over all pipelines at each status would grow with their number.
        before = self._phases.pop(key, None)
        if phase is not None:
            self._phases[key] = phase
        if before != phase:
            for changed, step in ((before, -1), (phase, 1)):
                if changed is not None:
                    self.pipelines.labels(changed.value).inc(step)

    def _create_counter(self, name: str, documentation: str, *labels: str) -> Counter:
        # The client library appends `_total` to the name.
        return Counter(name, documentation, labels, registry=self.registry)

    def _create_gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(name, documentation, labels, registry=self.registry)


def _set(gauge: Gauge, key: PipelineKey, value: float | None, *kind: str) -> None:
    """Set the gauge of one pipeline, or of one kind of its state; None removes it."""
    if value is None:
        gauge.remove(*key, *kind)
    else:
        gauge.labels(*key, *kind).set(value)


def _get_epoch(run: RunStatus | None) -> int | None:
    return None if run is None else run.epoch
