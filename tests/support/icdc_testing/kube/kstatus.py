"""The verdict on a resource by the rules of kstatus, which Flux, Argo CD, Helm and kpt go by.

The rules as published (sigs.k8s.io/cli-utils, pkg/kstatus), for a kind that kstatus does not know:
generation before conditions, Reconciling and Stalled before Ready, and nothing known is Current.
"""

from enum import StrEnum
from typing import Any

Resource = dict[str, Any]


class Verdict(StrEnum):
    """What a tool that waits for a resource makes of it."""

    IN_PROGRESS = "InProgress"
    CURRENT = "Current"
    FAILED = "Failed"
    TERMINATING = "Terminating"


_OF_CONDITION = {"Reconciling": Verdict.IN_PROGRESS, "Stalled": Verdict.FAILED}


def judge(resource: Resource) -> Verdict:
    """Return the verdict on the resource as the API server has it."""
    metadata, status = resource["metadata"], resource.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return Verdict.TERMINATING
    observed = status.get("observedGeneration")
    if observed is not None and observed != metadata.get("generation", observed):
        return Verdict.IN_PROGRESS
    conditions = status.get("conditions") or []
    for condition in conditions:
        if condition["type"] in _OF_CONDITION and condition["status"] == "True":
            return _OF_CONDITION[condition["type"]]
    ready = [condition["status"] for condition in conditions if condition["type"] == "Ready"]
    return Verdict.CURRENT if ready in ([], ["True"]) else Verdict.IN_PROGRESS
