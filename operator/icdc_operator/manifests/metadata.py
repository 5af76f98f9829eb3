"""Names, labels, annotations and the owner of a run's objects.

Labels are an explicit set. The owner's labels are never copied: a GitOps tool such as Argo CD would
adopt our objects by its own label and prune them.
"""

from collections.abc import Mapping
from typing import Any

from icdc_api import naming
from icdc_api.status.runs import RunKind
from icdc_operator.manifests.launch import Launch, PipelineRef

ANNOTATION_EPOCH = f"{naming.LABEL_PREFIX}epoch"
ANNOTATION_RUN_ID = f"{naming.LABEL_PREFIX}run-id"
_EPOCH_DIGITS = 18
"""Most digits of an epoch: a time in milliseconds has 13, and 18 always fit into 64 bits."""


def build_labels(launch: Launch) -> dict[str, str]:
    """Return the labels of every object and pod of the run, for selectors."""
    return {
        naming.LABEL_MANAGED_BY: naming.MANAGED_BY,
        naming.LABEL_PIPELINE: launch.owner.name,
        # Short enough for a label, by the limit of a pipeline's name in `naming`.
        naming.LABEL_RUN: launch.run.name,
    }


def build_annotations(launch: Launch) -> dict[str, str]:
    """Return the annotations that identify the attempt, even where the status was lost."""
    return {
        ANNOTATION_EPOCH: str(launch.run.epoch),
        ANNOTATION_RUN_ID: launch.run_id,
    }


def name_question_map(run: str) -> str:
    """Return the name of the ConfigMap that carries what a run is asked while it goes on."""
    return f"{run}-question"


def build_object_metadata(launch: Launch) -> dict[str, Any]:
    """Return the metadata of an object that has the name of the run.

    A deletion run has no owner: a foreground deletion of the pipeline deletes all that it owns
    before the pipeline itself, and would end that run before it could delete anything. The
    operator removes its objects before the finalizer.
    """
    owned = launch.run.kind != RunKind.DELETION
    return {
        "name": launch.run.name,
        "namespace": launch.owner.namespace,
        "labels": build_labels(launch),
        "annotations": build_annotations(launch),
        **({"ownerReferences": [build_owner_reference(launch.owner)]} if owned else {}),
    }


def build_owner_reference(owner: PipelineRef) -> dict[str, Any]:
    """Return the owner reference by which the garbage collector removes the object.

    `controller` keeps other controllers from adopting the object. `blockOwnerDeletion` is false:
    true needs permission to update finalizers of pipelines where that is enforced, as on OpenShift,
    and a foreground deletion would wait for runs.
    """
    return {
        "apiVersion": naming.API_VERSION,
        "kind": naming.KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def read_epoch(resource: Mapping[str, Any]) -> int | None:
    """Return the epoch of the run that an object says it belongs to; None if it says none."""
    text = (resource["metadata"].get("annotations") or {}).get(ANNOTATION_EPOCH, "")
    # Anybody who may create pods may write it, and int() raises beyond 4300 digits.
    return int(text) if text.isdecimal() and len(text) <= _EPOCH_DIGITS else None
