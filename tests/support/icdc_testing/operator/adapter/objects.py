"""SparkApplications and driver pods as spark-operator and a kubelet leave them, for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from icdc_api import naming
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_operator.cluster.runs import seen
from icdc_operator.core.observed import RunSeen
from icdc_operator.manifests import application
from icdc_operator.manifests.metadata import ANNOTATION_EPOCH, ANNOTATION_RUN_ID

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN = "shop-e1-1"
EPOCH = 1000
RUN_ID = f"{RUN}.{EPOCH}"
OWNER = {
    "apiVersion": naming.API_VERSION,
    "kind": naming.KIND,
    "name": "shop",
    "uid": "pipeline-uid",
    "controller": True,
}

Resource = dict[str, Any]


def go_back(seconds: float) -> str:
    """Return the time so long before NOW, as the API writes it."""
    return (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def make_metadata(name: str, *, epoch: int = EPOCH, **more: Any) -> Resource:
    """Return metadata of an object of the run."""
    return {
        "name": name,
        "namespace": "default",
        "uid": f"{name}-uid",
        "creationTimestamp": go_back(10),
        "labels": {
            naming.LABEL_MANAGED_BY: naming.MANAGED_BY,
            naming.LABEL_PIPELINE: "shop",
            naming.LABEL_RUN: RUN,
        },
        "annotations": {ANNOTATION_EPOCH: str(epoch), ANNOTATION_RUN_ID: f"{RUN}.{epoch}"},
        **more,
    }


def make_application(state: str = "", message: str = "", **more: Any) -> Resource:
    """Return the SparkApplication in that state; `more` goes over its metadata."""
    status: Resource = {}
    if state:
        status = {
            "applicationState": {"state": state, "errorMessage": message},
            "lastSubmissionAttemptTime": go_back(5),
        }
    return {
        "apiVersion": application.API_VERSION,
        "kind": application.KIND,
        "metadata": make_metadata(RUN, **{"ownerReferences": [OWNER], **more}),
        "spec": {},
        "status": status,
    }


def make_pod(
    phase: str,
    *,
    state: Resource | None = None,
    report: RunReport | None = None,
    status: Resource | None = None,
    **more: Any,
) -> Resource:
    """Return the driver pod; `state` is that of its container, `more` goes over its metadata."""
    pod: Resource = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": make_metadata(f"{RUN}-driver", **more),
        "spec": {"restartPolicy": "Never"},
        "status": {"phase": phase, **(status or {})},
    }
    pod["metadata"]["labels"]["spark-role"] = "driver"
    if report is not None:
        text = report_text.to_annotation(report)
        pod["metadata"]["annotations"][report_text.ANNOTATION_REPORT] = text
    if state is not None:
        pod["status"]["containerStatuses"] = [{"name": "spark-kubernetes-driver", "state": state}]
    return pod


def make_condition(kind: str, status: str, reason: str, message: str = "") -> Resource:
    """Return a part of a pod's status."""
    return {"conditions": [{"type": kind, "status": status, "reason": reason, "message": message}]}


NODE_SILENT: Resource = {
    "conditions": [
        {"type": "Ready", "status": "False"},
        {"type": "ContainersReady", "status": "True"},
    ]
}
"""What controllers leave of a pod's status when they hear nothing of its node any more."""


def build_only_run(*objects: Resource, remembered: Resource | None = None) -> RunSeen:
    """Return the only run that these objects show, which is RUN."""
    apps = [item for item in objects if item["kind"] == application.KIND]
    pods = [item for item in objects if item["kind"] == "Pod"]
    ended = {} if remembered is None else {RUN_ID: remembered}
    (run,) = seen.build_runs(seen.group_by_attempt("shop", apps, pods), now=NOW, ended_pods=ended)
    assert (run.name, run.epoch) == (RUN, EPOCH)
    return run


def make_running() -> Resource:
    return {"running": {"startedAt": go_back(8)}}


def make_waiting(reason: str, message: str = "") -> Resource:
    return {"waiting": {"reason": reason, "message": message}}


def make_termination(code: int, reason: str = "Error", message: str = "") -> Resource:
    ended = {"exitCode": code, "reason": reason, "message": message}
    return {"terminated": {**ended, "startedAt": go_back(8), "finishedAt": go_back(1)}}
