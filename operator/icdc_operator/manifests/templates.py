"""The pods of a run: our template for each role, with the user's laid over it.

Fit for the restricted profile of Pod Security. What Spark sets itself in every pod, such as
image, memory and restartPolicy, does not stand here.
"""

from collections.abc import Mapping
from typing import Any

from icdc_operator.manifests import merge, metadata, pod_paths, volumes
from icdc_operator.manifests.launch import Launch
from icdc_operator.manifests.roles import Role

SPARK_UID = 185
"""User and group of the image, as in Apache Spark's own images."""

DRIVER_GRACE_SECONDS = 120
"""From SIGTERM to SIGKILL: long enough to finish and record the batch under way, and short enough
for a node that is being drained. As long as a local run has."""

NODE_LOSS_SECONDS = 30
"""How long a pod stays bound to a node that no longer answers, where Kubernetes would wait five
minutes: a run that is tried again repeats little and does no harm, as what may still live on that
node is fenced off, while one that waits is lag. A node that restarts its kubelet gets over it."""

_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

DRIVER_ENV: Mapping[str, str] = {
    "POD_NAME": "metadata.name",
    "POD_NAMESPACE": "metadata.namespace",
}
"""Which pod the driver is, for the annotation by which it reports."""

METRICS_PATH = "/metrics/executors/prometheus/"
UI_PORT_DEFAULT = "4040"


def driver_template(launch: Launch) -> dict[str, Any]:
    """The PodTemplateSpec of the driver."""
    container = {
        "env": [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in DRIVER_ENV.items()
        ],
        # Where the outcome is written. A driver that ends before it could write one, such as for a
        # Python that is not there, has the end of its log there instead.
        "terminationMessagePath": pod_paths.TERMINATION_MESSAGE_FILE,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pod = {
        # The driver creates the executors and annotates its own pod.
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": DRIVER_GRACE_SECONDS,
    }
    ours = _build_template(launch, Role.DRIVER, pod, container, volumes.of_driver(launch))
    ours["metadata"]["annotations"] |= _metrics_annotations(launch.spec.spark.conf)
    return _merge_user_template(ours, launch.spec.spark.driver.template)


def executor_template(launch: Launch) -> dict[str, Any]:
    """The PodTemplateSpec of the executors."""
    # Code that only works on rows gets no token of the cluster.
    pod = {"automountServiceAccountToken": False}
    ours = _build_template(launch, Role.EXECUTOR, pod, {}, volumes.of_executor(launch))
    return _merge_user_template(ours, launch.spec.spark.executor.template)


def _build_template(
    launch: Launch,
    role: Role,
    pod: dict[str, Any],
    container: dict[str, Any],
    pairs: volumes.Volumes,
) -> dict[str, Any]:
    main = {
        "name": role.container,
        **container,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [mount for _, mount in pairs],
    }
    return {
        "metadata": {
            "labels": metadata.labels(launch),
            "annotations": metadata.annotations(launch),
        },
        "spec": {
            **pod,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": SPARK_UID,
                "fsGroup": SPARK_UID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [main],
            "volumes": [volume for volume, _ in pairs],
        },
    }


def _metrics_annotations(conf: Mapping[str, str]) -> dict[str, str]:
    """Tells Prometheus where the Spark UI of the driver answers for all executors."""
    if conf.get("spark.ui.enabled", "true").lower() == "false":
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/path": METRICS_PATH,
        "prometheus.io/port": conf.get("spark.ui.port", UI_PORT_DEFAULT),
    }


def _merge_user_template(ours: dict[str, Any], theirs: dict[str, Any] | None) -> dict[str, Any]:
    result: dict[str, Any] = merge.merge_values(ours, theirs)
    spec = result["spec"]
    spec["tolerations"] = _add_node_loss_tolerations(spec.get("tolerations") or [])
    return result


def _add_node_loss_tolerations(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The user's tolerations, and ours for nodes that are lost where they say nothing of that."""
    ours = [
        {
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": NODE_LOSS_SECONDS,
        }
        for taint in _LOST_NODE_TAINTS
        if not any(_tolerates(each, taint) for each in tolerations)
    ]
    return [*tolerations, *ours]


def _tolerates(toleration: Mapping[str, Any], taint: str) -> bool:
    """Whether it is about the eviction from such a node; without a key it is about every taint."""
    return toleration.get("key") in (taint, "", None) and toleration.get("effect") in (
        "NoExecute",
        "",
        None,
    )
