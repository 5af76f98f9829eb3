"""Define the gauges of single pipelines, and set them from statuses.

A pipeline's labels are its namespace and name alone, and are removed with the pipeline: nothing
grows with tables, runs or snapshots. It must not decide anything.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge

from icdc_api.job.answers import DIFFERENCE_KINDS
from icdc_api.job.resources import ResourceKind
from icdc_api.status.conditions import ConditionStatus, ConditionType
from icdc_api.status.pipeline_status import Phase, PipelineStatus
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.core import lag, run_log
from icdc_operator.core.asked import verification
from icdc_operator.core.asked.verification import ComparisonResult
from icdc_operator.core.limits.usage import Usage, Used
from icdc_operator.core.observed import RunSeen

_OF_PIPELINE = ("namespace", "name")
_KINDS = ("spec", "status", "report")
_OF_STATE = (ResourceKind.STATE_DOCUMENT, ResourceKind.STATE_INDEX)
"""What a run stores; what else it uses is of its processes."""


class PipelineMetrics:
    """The gauges of each pipeline. Durations in seconds, times in seconds since 1970."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.registry = CollectorRegistry()
        self._now = now
        self._phases: dict[PipelineKey, Phase] = {}
        self._statuses: dict[tuple[PipelineKey, ConditionType], ConditionStatus] = {}
        self._behind_since: dict[PipelineKey, datetime] = {}
        self._add_pipeline_metrics()

    def _add_pipeline_metrics(self) -> None:
        self.lag = self._create_gauge(
            "icdc_lag_seconds",
            "Largest lag of a table of the pipeline at the time of the scrape: now minus its "
            "behindSince; 0 when caught up. Absent while CaughtUp is Unknown.",
            *_OF_PIPELINE,
        )
        self.snapshots_behind = self._create_gauge(
            "icdc_snapshots_behind",
            "Largest snapshotsBehind of a table of the pipeline; absent as the lag.",
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
            "1 for the status that the condition has: True, False or Unknown. The other two have "
            "no series.",
            *_OF_PIPELINE,
            "type",
            "status",
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
        self._add_run_metrics()
        self._add_limit_metrics()
        self._add_comparison_metrics()

    def _add_run_metrics(self) -> None:
        self.open_sessions = self._create_gauge(
            "icdc_open_sessions",
            "Tables that have a session open in the pipeline's run, by its last report.",
            *_OF_PIPELINE,
        )
        self.report_age = self._create_gauge(
            "icdc_report_age_seconds",
            "Seconds for which the driver of the pipeline's run has not renewed its report, by the "
            "operator's clock at its last reconcile; a driver renews it every 120 s. Absent "
            "without a run, and of images that do not renew it.",
            *_OF_PIPELINE,
        )
        self.run_bytes = self._create_gauge(
            "icdc_run_bytes",
            "Most bytes that the active run has used, by its last report. bulk_requests: memory of "
            "those that one task had under way; python_worker: memory of one; scratch_volume: the "
            "fullest one for shuffles and spills, with what others store there.",
            *_OF_PIPELINE,
            "kind",
        )
        self.run_limit = self._create_gauge(
            "icdc_run_limit_bytes",
            "Limit of icdc_run_bytes, by kind: the budget of a task; what the container leaves to "
            "each core beside the heap; the size of the volume.",
            *_OF_PIPELINE,
            "kind",
        )

    def _add_limit_metrics(self) -> None:
        self.state_bytes = self._create_gauge(
            "icdc_state_bytes",
            "Bytes of what is stored for the pipeline: spec, status, and report of its active run; "
            "by that report the largest state_document of a table, and state_index (icdc-state, of "
            "all pipelines).",
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

    def _add_comparison_metrics(self) -> None:
        self.compared_tables = self._create_gauge(
            "icdc_compared_tables",
            "Tables by the result of their last comparison with the index: Equal, Repaired, "
            "Different or NotVerified. Tables that were never compared are left out.",
            *_OF_PIPELINE,
            "result",
        )
        self.differences = self._create_gauge(
            "icdc_differing_documents",
            "Documents that differed in the last comparisons of all tables, before anything was "
            "repaired: missing, extra or different. Absent if no table was compared.",
            *_OF_PIPELINE,
            "kind",
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

    def show(self, key: PipelineKey, status: PipelineStatus) -> None:
        """Set the gauges of a pipeline from its status."""
        summary = status.summary
        self._show_lag(key, status)
        _set(self.snapshots_behind, key, None if summary is None else summary.snapshots_behind)
        succeeded = run_log.find_last_success(status)
        # None: it is longer ago than `recentRuns` reaches, so the last value stays.
        if succeeded is not None:
            _set(self.last_success, key, succeeded.timestamp())
        _set(self.failures, key, status.consecutive_failures)
        waited = [t.last_batch.limited_millis or 0 for t in status.tables if t.last_batch]
        _set(self.limited, key, max(waited) / 1000 if any(waited) else None)
        self._show_conditions(key, status)
        self._show_comparisons(key, status)
        self._count_phase(key, status.phase)

    def forget(self, key: PipelineKey) -> None:
        """Remove the gauges of a deleted pipeline."""
        self._behind_since.pop(key, None)
        gauges = (self.lag, self.snapshots_behind, self.last_success, self.failures)
        limits = (self.dead_letters, self.dead_letters_limit, self.limited, self.pinned_tables)
        proofs = (self.oldest_proof, self.proof_limit)
        for gauge in (*gauges, *limits, *proofs, self.open_sessions, self.report_age):
            _set(gauge, key, None)
        for kind in (*_KINDS, *ResourceKind):
            self._show_used(key, kind, Used())
        self._show_conditions(key, PipelineStatus())
        self._show_comparisons(key, PipelineStatus())
        self._count_phase(key, None)

    def show_run(self, key: PipelineKey, run: RunSeen | None) -> None:
        """Set what the report of a live run says of it; none, or one that ended, has no gauges.

        The names of tables with a session are in the report alone: a series for each table would
        grow with their number.
        """
        report = None if run is None or not run.live else run.report
        _set(self.report_age, key, None if run is None or report is None else run.report_age)
        _set(self.open_sessions, key, None if report is None else len(report.open_sessions))

    def show_usage(self, key: PipelineKey, usage: Usage) -> None:
        """Set how much of each limit a pipeline has used; what is not known has no gauge."""
        for kind, amount in zip(_KINDS, (usage.spec, usage.status, usage.report), strict=True):
            self._show_used(key, kind, amount)
        for resource in ResourceKind:
            self._show_used(key, resource, usage.resources.get(resource, Used()))
        _set(self.dead_letters, key, usage.dead_letters.used)
        _set(self.dead_letters_limit, key, usage.dead_letters.limit)
        _set(self.pinned_tables, key, usage.pinned_tables)
        _set(self.oldest_proof, key, usage.proof.used)
        _set(self.proof_limit, key, usage.proof.limit)

    def _show_used(self, key: PipelineKey, kind: str, amount: Used) -> None:
        is_of_run = kind in set(ResourceKind) - set(_OF_STATE)
        used = self.run_bytes if is_of_run else self.state_bytes
        limits = self.run_limit if is_of_run else self.state_limit
        _set(used, key, amount.used, kind)
        # Not alone: a limit without what is used of it would look like a state that is empty.
        _set(limits, key, None if amount.used is None else amount.limit, kind)

    def show_unseen(self, key: PipelineKey, tables: int | None) -> None:
        """Set the number of tables whose catalog cannot be read; None removes the gauge."""
        _set(self.unseen_tables, key, tables)

    def _show_lag(self, key: PipelineKey, status: PipelineStatus) -> None:
        """Set the lag, which grows from scrape to scrape: a pipeline that waits has no new status.

        By a function from the first, since a gauge that has one cannot be set to a value again.
        """
        since = lag.find_behind_since(status.tables)
        if since is None:
            self._behind_since.pop(key, None)
        else:
            self._behind_since[key] = since
        if status.summary is None or status.summary.lag_seconds is None:
            _set(self.lag, key, None)
        else:
            self.lag.labels(*key).set_function(lambda: self._compute_lag(key))

    def _compute_lag(self, key: PipelineKey) -> float:
        since = self._behind_since.get(key)
        return 0.0 if since is None else max(0.0, (self._now() - since).total_seconds())

    def _show_conditions(self, key: PipelineKey, status: PipelineStatus) -> None:
        """Set one series for each condition: three would be three times as many to store."""
        now = {condition.type: condition.status for condition in status.conditions}
        for kind in ConditionType:
            before, after = self._statuses.pop((key, kind), None), now.get(kind)
            if before is not None and before != after:
                self.conditions.remove(*key, kind.value, before.value)
            if after is not None:
                self._statuses[key, kind] = after
                self.conditions.labels(*key, kind.value, after.value).set(1)

    def _show_comparisons(self, key: PipelineKey, status: PipelineStatus) -> None:
        results = verification.group_by_result(status.tables)
        compared = any(results.values())
        for result in ComparisonResult:
            # With zeros: a table that differs no more must not leave a gap in its place.
            tables = len(results[result]) if compared else None
            _set(self.compared_tables, key, tables, result.value)
        for kind in DIFFERENCE_KINDS:
            found = [getattr(table.verification, kind, None) for table in status.tables]
            documents = sum(count or 0 for count in found) if compared else None
            _set(self.differences, key, documents, kind)

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
