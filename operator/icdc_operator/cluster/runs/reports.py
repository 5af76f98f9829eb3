"""What the driver of a run has said: the report that its pod carries.

Two places: the annotation, which is kept up to date, and the termination message, which is small
but there even if the last annotation was lost. Pure. Only words of that very attempt count.
"""

from datetime import UTC, datetime

from icdc_api import report_text
from icdc_api.errors import Bug
from icdc_api.job import RunReport
from icdc_api.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence, pods


def read_report(pod: Resource, run_id: str) -> tuple[RunReport | None, Failure | None]:
    """The newest report of the attempt, and what is wrong with what cannot be read."""
    text = (pod["metadata"].get("annotations") or {}).get(report_text.ANNOTATION_REPORT)
    report, problem = report_text.from_annotation(text) if text else (None, None)
    unreadable = None
    if report is None and problem is not None:
        wrong = Bug(
            evidence.join_foreign_text(f"{evidence.describe(pod)} has a report of no use", problem)
        )
        unreadable = evidence.failure(wrong, "ReportUnreadable")
    if report is not None and report.run_id != run_id:
        report = None
    return _with_ending(report, pod, run_id), unreadable


def _with_ending(report: RunReport | None, pod: Resource, run_id: str) -> RunReport | None:
    """The report, finished if the termination message says that it was."""
    state = pods.container_exit(pod)
    if state is None or not state.message or (report is not None and report.finished):
        return report
    ending, _ = report_text.from_termination_message(state.message)
    if ending is None or ending.run_id != run_id or not ending.finished:
        return report
    if report is None:
        begun = pods.started_at(pod) or datetime.fromtimestamp(0, UTC)
        report = RunReport(run_id=run_id, started_at=begun, updated_at=begun)
    return report.model_copy(update={"finished": True, "outcome": ending.outcome})
