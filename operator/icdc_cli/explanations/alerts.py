"""Alerts of the chart's PrometheusRule: what each means, beside what its own text says to whoever
is paged, and what to do. A test compares them with the chart."""

from dataclasses import dataclass

from icdc_api.errors import WhoActs
from icdc_cli.explanations import cures
from icdc_cli.explanations.entry import NAMED, Explanation, Family

_AUTHOR = WhoActs.DATA_ENGINEER.value
_PLATFORM = WhoActs.PLATFORM.value
_MAINTAINER = WhoActs.MAINTAINER.value


@dataclass(frozen=True)
class Alert:
    """One rule, and the series that it watches."""

    word: str
    """The name of the alert."""
    metric: str
    """The series in its expression."""
    meaning: str
    """What is wrong, and what still works."""
    who_acts: str
    """As in `Explanation`."""
    cure: tuple[str, ...]
    """As in `Explanation`."""


ALERTS = (
    Alert(
        "IcebergCDCPipelineStalled",
        "icdc_pipeline_condition",
        "The condition Stalled of a pipeline has been True for five minutes: at least one index is "
        "no longer updated. The message of the condition has the cause.",
        NAMED,
        (f"{cures.STATUS}  # then icdc explain with the reason of the table", cures.PLAN),
    ),
    Alert(
        "IcebergCDCPipelineFailing",
        "icdc_consecutive_failures",
        "The last runs of a pipeline have failed, one after the other, and its indices are no "
        "longer updated. It is retried until a run succeeds or a person must act.",
        NAMED,
        (f"{cures.STATUS}  # then icdc explain with the class of the failure", cures.LOGS),
    ),
    Alert(
        "IcebergCDCPipelineLags",
        "icdc_lag_seconds",
        "An index is further behind its table than the chart value allows. Its runs cannot keep up "
        "with the commits, are queued, or fail. It does not fire while the pipeline is suspended.",
        _AUTHOR,
        (
            f"{cures.STATUS}  # which tables are behind, and whether a run is queued or fails",
            cures.edit("spark.executor.instances", "more, if runs cannot keep up"),
            cures.edit("spark.dynamicAllocation.maxExecutors", "more, where that is set"),
            f"{cures.set_value('limits.activeRuns=N')}  # more, if runs are queued",
        ),
    ),
    Alert(
        "IcebergCDCDriverNotResponding",
        "icdc_report_age_seconds",
        "The driver of a pipeline has not renewed its report for five minutes, although its node "
        "answers: it is frozen, or cannot write to the API server. What its tables are behind is "
        "not known meanwhile. After ten minutes the operator ends the run and starts it anew, "
        "unless no driver at all renews its report.",
        _PLATFORM,
        (
            f"{cures.PODS}  # on which node it is",
            cures.LOGS,
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations  # one that "
            "does not answer, if it is so for all pipelines",
        ),
    ),
    Alert(
        "IcebergCDCDeadLetters",
        "icdc_dead_letters",
        "A table has four fifths of the dead letters that it may have. Above the limit it is "
        "stalled with the reason DeadLetterLimit.",
        _AUTHOR,
        (
            cures.DEAD_LETTERS,
            cures.edit("tables[].mapping", "a type that the refused values fit"),
            f"{cures.REPLAY}  # after the rows or the mapping were corrected",
            cures.edit("sink.opensearch.deadLetters.maxRows", "a higher limit, if they may stay"),
        ),
    ),
    Alert(
        "IcebergCDCProofOverdue",
        "icdc_oldest_proof_timestamp_seconds",
        "A table was not compared with its index for longer than spec.verify.every promises. It is "
        "still replicated. Its comparisons fail, are queued, or wait for the end of a run.",
        _AUTHOR,
        (
            f"{cures.STATUS}  # the condition Verified names the table and the reason",
            cures.edit("verify.every", "longer, if comparisons cannot keep up"),
            f"{cures.set_value('limits.activeRuns=N')}  # more, if runs are queued",
        ),
    ),
    Alert(
        "IcebergCDCIndexDiffers",
        "icdc_compared_tables",
        "The last comparison of an index with its table found documents that are missing, extra or "
        "different, and nothing has corrected them since. The pipeline goes on with new changes.",
        _AUTHOR,
        (
            f"{cures.STATUS}  # the condition Verified names the tables",
            f"{cures.VERIFY}  # which documents differ",
            f"{cures.REPAIR}  # writes them again; find out who changes the index",
        ),
    ),
    Alert(
        "IcebergCDCOperatorDown",
        "icdc_leader",
        "No operator leads. Active runs continue to their end, but no new run starts and no status "
        "is updated.",
        _PLATFORM,
        (cures.OPERATOR_PODS, cures.OPERATOR_LOG),
    ),
    Alert(
        "IcebergCDCOperatorError",
        "icdc_unexpected_errors_total",
        "The operator had an error that nobody expected. It retries what failed; its log has the "
        "traceback.",
        _MAINTAINER,
        (f"{cures.OPERATOR_LOG}  # open an issue with the traceback",),
    ),
    Alert(
        "IcebergCDCOperatorForbidden",
        "icdc_api_requests_total",
        "The API server refuses requests of the operator, because a rule of its Role is missing, "
        "or a quota or a policy of the namespace refuses runs. The condition Stalled or Ready of "
        "the affected pipelines says which; the operator's log names a namespace that it cannot "
        "read at all. Other namespaces are not affected.",
        _PLATFORM,
        (
            cures.RIGHTS,
            f"{cures.set_value('rbac.create=true')}  # or add the rule to the Role that you wrote",
        ),
    ),
    Alert(
        "IcebergCDCOperatorBehind",
        "icdc_queue_oldest_seconds",
        "Pipelines wait longer than a minute to be reconciled, so runs start late. The operator "
        "has too little CPU or too few workers, or the API server answers slowly.",
        _PLATFORM,
        (
            cures.set_value("resources.requests.cpu=N"),
            cures.set_value("workers=N"),
        ),
    ),
    Alert(
        "IcebergCDCRunQueued",
        "icdc_runs_waiting_oldest_seconds",
        "A run has been due for longer than `metrics.prometheusRule.lagSeconds`, and is queued "
        "because of a limit of active runs. Its tables are not followed meanwhile; those of a new "
        "pipeline have no index yet, so no other alert speaks of them.",
        _PLATFORM,
        (
            "kubectl get icdc --all-namespaces  # which pipelines have a run, and which wait",
            cures.set_value("limits.activeRuns=N"),
        ),
    ),
    Alert(
        "IcebergCDCCatalogOverdue",
        "icdc_catalogs_overdue",
        "Catalogs do not answer the operator in time. Runs poll them for new snapshots instead, so "
        "commits may be applied later.",
        _PLATFORM,
        (f"{cures.OPERATOR_LOG}  # names the catalogs; make them reachable from the operator",),
    ),
    Alert(
        "IcebergCDCReconcilesFail",
        "icdc_reconciles_total",
        "The API server does not take what the operator writes for a pipeline, so no run of it "
        "starts, and its status may not say so: the CRD is older than the operator, an admission "
        "webhook does not answer, a permission is missing, or the API server is overloaded.",
        _PLATFORM,
        (
            f"{cures.OPERATOR_LOG}  # names the pipeline and the request",
            "icdc doctor -n NAMESPACE  # whether the CRD is older, and which permission is missing",
        ),
    ),
)
"""All alerts, in the order of the chart."""


def list_alerts() -> list[Explanation]:
    """Return all alerts, in the order of the chart."""
    return [
        Explanation(one.word, Family.ALERT, one.meaning, one.who_acts, one.cure) for one in ALERTS
    ]
