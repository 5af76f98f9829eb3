"""The pipeline as the API server holds it, read: its spec, or why it is wrong, and its status.

The schema of the CRD has checked much of it already, but not all that the models check, and a
status may have been written by another version or by a person. Pure.
"""

from datetime import datetime
from typing import Any, TypedDict

from pydantic import ValidationError

from icdc_api import loading, naming
from icdc_api.errors import BadSpec
from icdc_api.spec import PipelineSpec
from icdc_api.status import PipelineStatus, parse_status
from icdc_api.triggers import Ask
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence
from icdc_operator.manifests import refusals
from icdc_operator.manifests.launch import InstallSettings

_SOURCE = naming.SINGULAR


def spec_of(
    pipeline: Resource, settings: InstallSettings
) -> tuple[PipelineSpec | None, str | None]:
    """The spec, or None and what is wrong with it: each field, its value, what is allowed."""
    metadata = pipeline["metadata"]
    document = {
        "apiVersion": pipeline.get("apiVersion"),
        "kind": pipeline.get("kind"),
        # Kubernetes may give metadata fields that we have never heard of.
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": pipeline.get("spec"),
    }
    try:
        spec = loading.parse_pipeline(document, source=_SOURCE).spec
        refusals.check(spec.spark, trusted=settings.trusts(metadata["namespace"]))
    except BadSpec as error:
        lines = (line.removeprefix(f"{_SOURCE}: ") for line in error.message.splitlines())
        return None, "; ".join(lines)
    return spec, None


def status_of(pipeline: Resource) -> PipelineStatus:
    """The status, without what this version cannot read: it is a copy that can be lost."""
    document = dict(pipeline.get("status") or {})
    try:
        return parse_status(document)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            _drop(document, problem["type"], problem["loc"])
    try:
        return parse_status(document)
    except ValidationError:
        return PipelineStatus()


class Deletion(TypedDict):
    """The fields of `Observed` that are about deleting the pipeline."""

    finalizer: bool
    deleting_since: datetime | None
    retain_asked: bool


def deletion_of(pipeline: Resource) -> Deletion:
    """What its metadata says about deleting the pipeline."""
    metadata = pipeline["metadata"]
    annotations = metadata.get("annotations") or {}
    return {
        "finalizer": naming.FINALIZER in (metadata.get("finalizers") or ()),
        "deleting_since": evidence.moment(metadata.get("deletionTimestamp")),
        "retain_asked": annotations.get(naming.ANNOTATION_RETAIN) == naming.RETAIN_ASKED,
    }


def ask_of(pipeline: Resource) -> Ask | None:
    """The question that its annotations ask; None for none, or for what cannot be read as one."""
    annotations = pipeline["metadata"].get("annotations") or {}
    return Ask.of_annotation(annotations.get(naming.ANNOTATION_ASK))


def others(pipeline: Resource) -> list[str]:
    """The finalizers of the pipeline that are not ours."""
    present = pipeline["metadata"].get("finalizers") or ()
    return [each for each in present if each != naming.FINALIZER]


def _drop(document: dict[str, Any], kind: str, path: tuple[int | str, ...]) -> None:
    """Takes out an unknown field, or else the whole field of the status that has the problem."""
    if kind == "extra_forbidden":
        node: Any = document
        for part in path[:-1]:
            node = node[part]
        node.pop(path[-1], None)
    elif path:
        document.pop(str(path[0]), None)
