"""Judge whether kstatus' verdict on a stored pipeline is right. Pure.

By the spec, the runs in the status and the target; never by conditions, which are judged here.
"""

from collections.abc import Set
from typing import Any

from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunState
from icdc_operator.cluster.runs import resource
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.operator.adapter.stepping import SETTINGS

Resource = dict[str, Any]


def explain_wrong(
    verdict: Verdict,
    pipeline: Resource,
    status: PipelineStatus,
    *,
    target: Set[str],
    began: Set[str],
) -> str | None:
    """Return what the verdict overlooks; None if it is right.

    `target` names the tables that readers find, `began` the run ids whose drivers were started.
    """
    wanted = _list_right_verdicts(pipeline, status, target, began)
    if not wanted or verdict in wanted:
        return None
    return f"it is {' or '.join(sorted(wanted))}: {pipeline['spec']}, {status.to_resource()}"


def _list_right_verdicts(
    pipeline: Resource, status: PipelineStatus, target: Set[str], began: Set[str]
) -> set[Verdict]:
    """Return the verdicts that are right; none where a status is still to come."""
    generation, spec = pipeline["metadata"]["generation"], pipeline["spec"]
    if pipeline["metadata"].get("deletionTimestamp"):
        return {Verdict.TERMINATING}
    if status.observed_generation != generation:
        return {Verdict.IN_PROGRESS}
    if resource.read_spec(pipeline, SETTINGS)[0] is None:
        return {Verdict.FAILED}
    is_active = status.current_run is not None
    if spec.get("suspend"):
        return {Verdict.IN_PROGRESS if is_active else Verdict.CURRENT}
    last = status.last_run
    failed = last is not None and last.state == RunState.FAILED
    if failed and status.consecutive_failures >= spec["retry"]["maxAttempts"]:
        return {Verdict.FAILED}
    if failed and not is_active and status.next_attempt_time is None:
        return {Verdict.FAILED}
    if failed and not is_active:
        return {Verdict.IN_PROGRESS}
    runs = [run for run in (status.current_run, *status.recent_runs) if run is not None]
    in_effect = any(run.generation == generation and run.run_id in began for run in runs)
    if not in_effect or any(table["name"] not in target for table in spec["tables"]):
        return {Verdict.IN_PROGRESS}
    if not failed and last is not None and last.generation == generation:
        return {Verdict.CURRENT}
    return {Verdict.IN_PROGRESS, Verdict.CURRENT}
