"""The volumes of a run's pods and where they are mounted.

They are in the pod templates rather than in SparkApplication's own fields: those need the webhook
of spark-operator, or pass through spark-submit, which supports few kinds of volumes.
"""

from typing import Any

from icdc_api.spec.spark import LocalVolume
from icdc_operator.manifests import metadata
from icdc_operator.manifests.launch import Launch
from icdc_operator.manifests.pods import pod_paths
from icdc_operator.manifests.secret_names import list_secret_names

Volumes = list[tuple[dict[str, Any], dict[str, Any]]]
"""Pairs of a volume and its mount."""


def build_driver_volumes(launch: Launch) -> Volumes:
    """Return the volumes of the driver: request, question, report, and those of executors."""
    request = (
        {"name": pod_paths.REQUEST_VOLUME, "configMap": {"name": launch.run.name}},
        {"name": pod_paths.REQUEST_VOLUME, "mountPath": pod_paths.REQUEST_DIR, "readOnly": True},
    )
    report = (
        {"name": pod_paths.REPORT_VOLUME, "emptyDir": {}},
        {"name": pod_paths.REPORT_VOLUME, "mountPath": pod_paths.REPORT_DIR},
    )
    return [request, *_build_question_volumes(launch), report, *build_executor_volumes(launch)]


def _build_question_volumes(launch: Launch) -> Volumes:
    """Return the volume of what a continuous run is asked while it goes on: mostly nothing."""
    if not launch.takes_questions:
        return []
    name = pod_paths.QUESTION_VOLUME
    # Optional: the pod starts without it, and the kubelet brings it, and takes it away, later.
    source = {"name": metadata.name_question_map(launch.run.name), "optional": True}
    mount = {"name": name, "mountPath": pod_paths.QUESTION_DIR, "readOnly": True}
    return [({"name": name, "configMap": source}, mount)]


def build_executor_volumes(launch: Launch) -> Volumes:
    """Return the volumes of executors: local disks, and Secrets that properties may refer to."""
    secrets = [
        _build_secret_volume(position, name)
        for position, name in enumerate(list_secret_names(launch.spec))
    ]
    local = [
        (
            {"name": pod_paths.name_local_volume(number), **_build_local_source(launch, volume)},
            {
                "name": pod_paths.name_local_volume(number),
                "mountPath": pod_paths.name_local_dir(number),
            },
        )
        for number, volume in enumerate(launch.spec.spark.local_volumes, start=1)
    ]
    return [*secrets, *local]


def _build_secret_volume(position: int, secret: str) -> tuple[dict[str, Any], dict[str, Any]]:
    name = pod_paths.name_secret_volume(position)
    # The whole directory and no subPath: the kubelet renews only the former when a Secret is
    # rotated, and a run takes up new credentials while it goes on.
    mount = {"name": name, "mountPath": pod_paths.name_secret_dir(secret), "readOnly": True}
    return {"name": name, "secret": {"secretName": secret}}, mount


def _build_local_source(launch: Launch, volume: LocalVolume) -> dict[str, Any]:
    if not launch.run.kind.needs_executors:
        # Nothing is spilled, and a pod should not wait for a disk. A container of the user's own
        # may mount the volume all the same, by its name.
        return {"emptyDir": {}}
    if volume.host_path is not None:
        # Directory, not DirectoryOrCreate: a directory created where a disk is not mounted would
        # fill the root disk of the node, and belong to root.
        return {"hostPath": {"path": volume.host_path.path, "type": "Directory"}}
    # Enough: an ephemeral volume belongs to one pod.
    claim: dict[str, Any] = {"accessModes": ["ReadWriteOnce"]}
    if volume.ephemeral is not None:
        if volume.ephemeral.storage_class_name is not None:
            claim["storageClassName"] = volume.ephemeral.storage_class_name
        claim["resources"] = {"requests": {"storage": volume.ephemeral.size}}
    template = {"metadata": {"labels": metadata.build_labels(launch)}, "spec": claim}
    return {"ephemeral": {"volumeClaimTemplate": template}}
