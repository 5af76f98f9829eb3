"""Read the report of a run from its driver pod. Pure.

A pod carries it twice: as an annotation, which the driver keeps up to date, and as the termination
message, which is small but survives if the last update of the annotation was lost. A report of
another attempt is ignored.

    annotation                    termination message     result
    finished                      -                       the annotation
    not finished                  finished, outcome X     the annotation, finished with X
    none                          finished                a bare report: finished, no tables
    unreadable                    -                       none, and the failure ReportUnreadable
"""

from datetime import UTC, datetime

from icdc_api.errors import Bug
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence, pods


def read_report(pod: Resource, run_id: str) -> tuple[RunReport | None, Failure | None]:
    """Return the newest report of the attempt, and the failure if it cannot be read."""
    text = _find_text(pod)
    report, problem = report_text.from_annotation(text) if text else (None, None)
    unreadable = None
    if report is None and problem is not None:
        wrong = Bug(
            evidence.join_foreign_text(
                f"{evidence.describe(pod)} has a report that cannot be read", problem
            )
        )
        unreadable = evidence.build_failure(wrong, "ReportUnreadable")
    if report is not None and report.run_id != run_id:
        report = None
    return _with_ending(report, pod, run_id), unreadable


def measure_report(pod: Resource) -> int | None:
    """Return the bytes of the report in the pod's annotation; None if there is none."""
    text = _find_text(pod)
    return None if text is None else len(text.encode(errors="replace"))


def _find_text(pod: Resource) -> str | None:
    text: str | None = (pod["metadata"].get("annotations") or {}).get(report_text.ANNOTATION_REPORT)
    return text


def _with_ending(report: RunReport | None, pod: Resource, run_id: str) -> RunReport | None:
    """Return the report, finished if the termination message says so."""
    state = pods.find_container_exit(pod)
    if state is None or not state.message or (report is not None and report.finished):
        return report
    ending, _ = report_text.from_termination_message(state.message)
    if ending is None or ending.run_id != run_id or not ending.finished:
        return report
    # It ended before its first annotation was written, or was not allowed to write one: its
    # tables are unknown, but its outcome is not.
    if report is None:
        begun = pods.find_start(pod) or datetime.fromtimestamp(0, UTC)
        report = RunReport(run_id=run_id, started_at=begun, updated_at=begun)
    return report.model_copy(update={"finished": True, "outcome": ending.outcome})
