"""Parse the pipeline as the API server holds it: spec, status, annotations, finalizers. Pure.

The schema of the CRD has checked much of it, but not all that the models check. A status may have
been written by another version or by a person, so what cannot be read of it is dropped:

    status.tables[0].future: 1     unknown field      dropped alone
    status.tables[0].state: Odd    wrong value        the whole field `tables` is dropped
"""

import hashlib
import json
from datetime import datetime
from typing import Any, TypedDict

from pydantic import ValidationError

from icdc_api import naming
from icdc_api.crd import loading
from icdc_api.errors import BadSpec
from icdc_api.json_size import measure_stored
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_api.status.triggers import Ask
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import evidence
from icdc_operator.core.limits import status_size
from icdc_operator.manifests.config_map import UNREAD
from icdc_operator.manifests.launch import InstallSettings
from icdc_operator.manifests.pods import refused_values

_SOURCE = naming.SINGULAR

MAX_OBJECT_BYTES = 1_500_000
"""Most bytes of a pipeline. etcd refuses a request of more than 1.5 MiB, or 1,572,864 bytes; the
rest is for what the API server adds to each write."""


def read_spec(
    pipeline: Resource, settings: InstallSettings
) -> tuple[PipelineSpec | None, str | None]:
    """Return the spec, or None and why it is wrong: each field, its value, what is allowed."""
    try:
        spec = loading.parse_stored(pipeline, source=_SOURCE).spec
        trusted = settings.trusts(pipeline["metadata"]["namespace"])
        refused_values.check(spec.spark, trusted=trusted)
        _check_room(spec, measure_status_room(pipeline))
    except BadSpec as error:
        lines = (line.removeprefix(f"{_SOURCE}: ") for line in error.message.splitlines())
        return None, "; ".join(lines)
    return spec, None


def hash_spec(pipeline: Resource) -> str:
    """Return a hash of all of the spec that a run reads, whatever its order."""
    read = {key: value for key, value in pipeline["spec"].items() if key not in UNREAD}
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()[:16]


def measure_status_room(pipeline: Resource) -> int:
    """Return the bytes that are left for the status beside what else the pipeline holds."""
    # Managed fields and annotations too, which others write: etcd stores all of it as one value.
    rest = {key: value for key, value in pipeline.items() if key != "status"}
    return MAX_OBJECT_BYTES - measure_stored(rest)


def _check_room(spec: PipelineSpec, room: int) -> None:
    needed = status_size.compute_least_bytes(spec)
    if needed > room:
        raise BadSpec(
            f"spec.tables: the status of {len(spec.tables)} tables may need {needed} bytes, and "
            f"spec and metadata leave {max(0, room)} of {MAX_OBJECT_BYTES}: use fewer "
            "tables in one pipeline, or shorter lists of columns and mappings"
        )


def read_status(pipeline: Resource) -> PipelineStatus:
    """Return the status without what this version cannot read: it is a copy that may be lost."""
    document = dict(pipeline.get("status") or {})
    # Never an error: a status that cannot be read would stop its pipeline until somebody repaired
    # it by hand, while progress is in OpenSearch anyway.
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
    """The fields of `Observed` about a deletion."""

    finalizer: bool
    """Whether our finalizer is set."""
    deleting_since: datetime | None
    """When the deletion was requested."""
    retain_asked: bool
    """Whether the annotation asks to retain the indices."""


def read_deletion(pipeline: Resource) -> Deletion:
    """Return the fields of `Observed` that the metadata holds about a deletion."""
    metadata = pipeline["metadata"]
    annotations = metadata.get("annotations") or {}
    return {
        "finalizer": naming.FINALIZER in (metadata.get("finalizers") or ()),
        "deleting_since": evidence.parse_moment(metadata.get("deletionTimestamp")),
        "retain_asked": annotations.get(naming.ANNOTATION_RETAIN) == naming.RETAIN_ASKED,
    }


def read_ask(pipeline: Resource) -> Ask | None:
    """Return the question in the annotations; None for none, or for one that cannot be read."""
    annotations = pipeline["metadata"].get("annotations") or {}
    return Ask.of_annotation(annotations.get(naming.ANNOTATION_ASK))


def list_other_finalizers(pipeline: Resource) -> list[str]:
    """Return the finalizers of the pipeline that are not ours."""
    present = pipeline["metadata"].get("finalizers") or ()
    return [finalizer for finalizer in present if finalizer != naming.FINALIZER]


def _drop(document: dict[str, Any], kind: str, path: tuple[int | str, ...]) -> None:
    """Drop an unknown field, or else the whole top-level field that has the problem."""
    if kind == "extra_forbidden":
        node: Any = document
        for part in path[:-1]:
            node = node[part]
        node.pop(path[-1], None)
    elif path:
        document.pop(str(path[0]), None)
