"""The objects of a cluster that pods of a pipeline refer to: Secrets, classes, accounts. Pure.

Templates have no schema here, so they are searched for the places that Kubernetes has.

    imagePullSecrets: [{name: registry}]                           Secret registry
    env: [{valueFrom: {secretKeyRef: {name: tokens, key: a}}}]     Secret tokens, key a
    volumes: [{ephemeral: … {storageClassName: fast}}]             StorageClass fast
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icdc_api.spec.pipeline import PipelineSpec
from icdc_operator.manifests.secret_names import list_secret_fields

_REFERENCES = (("secretKeyRef", "name"), ("secretRef", "name"), ("secret", "secretName"))
"""Fields of pods and of pipelines that refer to a Secret, and where its name stands in them."""


@dataclass(frozen=True)
class SecretNeed:
    """A Secret that a field refers to."""

    where: str
    """The field."""
    name: str
    """Name of the Secret."""
    key: str = ""
    """The key that a pod needs of it; empty: see `describe_missing_keys`."""


def list_secrets(spec: PipelineSpec) -> Iterator[SecretNeed]:
    """Yield the Secrets without which the pods of a pipeline do not start."""
    for where, name in list_secret_fields(spec):
        yield SecretNeed(where, name)
    for where, template in _list_templates(spec):
        for node in _walk(template):
            for one in node.get("imagePullSecrets") or ():
                yield SecretNeed(f"{where}.imagePullSecrets", str(one.get("name")))
            for field, key in _REFERENCES:
                ref = node.get(field)
                # A pod starts without a Secret that is marked as optional.
                if isinstance(ref, dict) and ref.get(key) and not ref.get("optional"):
                    wanted = str(ref.get("key", "")) if field == "secretKeyRef" else ""
                    yield SecretNeed(where, str(ref[key]), wanted)


def list_all_secrets(value: Any) -> Iterator[str]:
    """Yield the names of all Secrets that an object of the API refers to, used or not."""
    for node in _walk(value):
        for field, key in _REFERENCES:
            ref = node.get(field)
            if isinstance(ref, dict) and isinstance(ref.get(key), str):
                yield ref[key]


def list_storage_classes(spec: PipelineSpec) -> Iterator[tuple[str, str | None]]:
    """Yield the storage classes that fields name; None for the cluster's default."""
    for position, volume in enumerate(spec.spark.local_volumes):
        if volume.ephemeral is not None:
            where = f"spec.spark.localVolumes[{position}].ephemeral.storageClassName"
            yield where, volume.ephemeral.storage_class_name
    for where, template in _list_templates(spec):
        for node in _walk(template):
            # Empty stands for volumes without a class.
            if node.get("storageClassName"):
                yield where, str(node["storageClassName"])


def list_priority_classes(spec: PipelineSpec) -> Iterator[tuple[str, str]]:
    """Yield the priority classes that templates name."""
    for where, template in _list_templates(spec):
        for node in _walk(template):
            if node.get("priorityClassName"):
                yield where, str(node["priorityClassName"])


def _list_templates(spec: PipelineSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for role, part in (("driver", spec.spark.driver), ("executor", spec.spark.executor)):
        if part.template:
            yield f"spec.spark.{role}.template", part.template


def _walk(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object in `value`, itself included."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _walk(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _walk(inner)
