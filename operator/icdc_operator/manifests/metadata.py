"""Names, labels, annotations and the owner of a run's objects.

Labels are an explicit set. The owner's labels are never copied: Argo CD and its like would take
our objects for their own and prune them.
"""

from typing import Any

from icdc_api import naming
from icdc_api.runs import RunKind
from icdc_operator.manifests.launch import Launch, PipelineRef

ANNOTATION_EPOCH = f"{naming.LABEL_PREFIX}epoch"
ANNOTATION_RUN_ID = f"{naming.LABEL_PREFIX}run-id"


def labels(launch: Launch) -> dict[str, str]:
    """What every object and pod of the run is found by."""
    return {
        naming.LABEL_MANAGED_BY: naming.MANAGED_BY,
        naming.LABEL_PIPELINE: launch.owner.name,
        naming.LABEL_RUN: launch.run.name,
    }


def annotations(launch: Launch) -> dict[str, str]:
    """Which attempt an object belongs to, whatever has become of the status."""
    return {
        ANNOTATION_EPOCH: str(launch.run.epoch),
        ANNOTATION_RUN_ID: launch.run_id,
    }


def object_metadata(launch: Launch) -> dict[str, Any]:
    """Metadata of an object that is named as the run.

    What deletes is owned by nobody: a foreground deletion of the pipeline deletes all that it
    owns before the pipeline itself, and so would never let the run delete anything. The operator
    deletes its objects before it lets the pipeline go.
    """
    owned = launch.run.kind != RunKind.DELETION
    return {
        "name": launch.run.name,
        "namespace": launch.owner.namespace,
        "labels": labels(launch),
        "annotations": annotations(launch),
        **({"ownerReferences": [owner_reference(launch.owner)]} if owned else {}),
    }


def owner_reference(owner: PipelineRef) -> dict[str, Any]:
    """Lets the garbage collector remove the object with its pipeline.

    `controller` says that nobody else may adopt the object. `blockOwnerDeletion` stays false: true
    needs the right to update finalizers of pipelines where that is enforced, as on OpenShift, and
    a foreground deletion would wait for runs.
    """
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
