"""The pods of a run: our template for each role, with the user's template merged into it.

They satisfy the restricted profile of Pod Security. What Spark sets itself in every pod, such as
image, memory and restartPolicy, is not here.
"""

from collections.abc import Mapping
from typing import Any

from icdc_api import __version__, authorities
from icdc_api.job.log_lines import FORMAT_VARIABLE
from icdc_api.job.run_files import QUESTION_VARIABLE, STARTER_VARIABLE
from icdc_operator.manifests import metadata
from icdc_operator.manifests.launch import Launch
from icdc_operator.manifests.pods import merge, pod_paths, volumes
from icdc_operator.manifests.pods.roles import Role
from icdc_operator.manifests.secret_names import list_authority_secrets

SPARK_UID = 185
"""User and group id in the image, as in the images of Apache Spark."""

DRIVER_GRACE_SECONDS = 120
"""Seconds from SIGTERM to SIGKILL: long enough to finish and record the current batch, and short
enough for a node that is being drained. Local runs have the same."""

NODE_LOSS_SECONDS = 30
"""Seconds that a pod stays bound to a node that does not answer; Kubernetes would wait 300. A
retried run repeats little and does no harm, because what may still run on that node is fenced,
while waiting is lag. Long enough for a node that restarts its kubelet."""

# Of the node controller. Kubernetes itself tolerates them for 300 s (DefaultTolerationSeconds).
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

DRIVER_ENV: Mapping[str, str] = {
    "POD_NAME": "metadata.name",
    "POD_NAMESPACE": "metadata.namespace",
}
"""Variables with the driver's own pod, whose annotation holds its report; downward API paths."""

METRICS_PATH = "/metrics/executors/prometheus/"
UI_PORT_DEFAULT = "4040"


def _build_run_env(launch: Launch) -> list[dict[str, Any]]:
    """Return the variables by which the driver knows where to look, how to log, and who asks."""
    values = {
        QUESTION_VARIABLE: pod_paths.QUESTION_FILE if launch.takes_questions else None,
        FORMAT_VARIABLE: launch.settings.log_format,
        STARTER_VARIABLE: __version__,
    }
    return [{"name": name, "value": value} for name, value in values.items() if value is not None]


def _build_authorities_env(launch: Launch) -> list[dict[str, Any]]:
    """Return the variable for the certificates of catalogs: the JVM takes them when it starts.

    The driver finds them by the spec, while it runs.
    """
    files = [
        f"{pod_paths.name_secret_dir(name)}/{authorities.KEY}"
        for name in list_authority_secrets(launch.spec)
    ]
    return [{"name": authorities.FILES_VARIABLE, "value": ":".join(files)}] if files else []


def _build_proxies_env(
    launch: Launch, role: Role, template: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the variables with the forward proxies, but those that the user's template names.

    In capital or small letters: one of ours in small letters would win over the user's.
    """
    theirs = {
        variable["name"].upper()
        for container in ((template or {}).get("spec") or {}).get("containers") or ()
        if container["name"] == role.container
        for variable in container.get("env") or ()
    }
    return [
        {"name": name, "value": value}
        for name, value in launch.settings.proxies
        if name.upper() not in theirs
    ]


def build_driver_template(launch: Launch) -> dict[str, Any]:
    """Return the PodTemplateSpec of the driver."""
    container = {
        "env": [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in DRIVER_ENV.items()
        ]
        + _build_run_env(launch)
        + _build_proxies_env(launch, Role.DRIVER, launch.spec.spark.driver.template),
        # The outcome of the run. If the driver ends before it could write one, such as where
        # Python is missing, the kubelet puts the end of its log there instead.
        "terminationMessagePath": pod_paths.TERMINATION_MESSAGE_FILE,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pod = {
        # The driver creates the executors and annotates its own pod.
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": DRIVER_GRACE_SECONDS,
    }
    ours = _build_template(
        launch,
        Role.DRIVER,
        pod=pod,
        container=container,
        pairs=volumes.build_driver_volumes(launch),
    )
    ours["metadata"]["annotations"] |= _build_metrics_annotations(launch.spec.spark.conf)
    return _merge_user_template(ours, launch.spec.spark.driver.template)


def build_executor_template(launch: Launch) -> dict[str, Any]:
    """Return the PodTemplateSpec of the executors."""
    # Executors only process rows and need no access to the API server.
    pod = {"automountServiceAccountToken": False}
    template = launch.spec.spark.executor.template
    env = _build_authorities_env(launch) + _build_proxies_env(launch, Role.EXECUTOR, template)
    container = {"env": env} if env else {}
    ours = _build_template(
        launch,
        Role.EXECUTOR,
        pod=pod,
        container=container,
        pairs=volumes.build_executor_volumes(launch),
    )
    return _merge_user_template(ours, template)


def _build_template(
    launch: Launch,
    role: Role,
    *,
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
            "labels": metadata.build_labels(launch),
            "annotations": metadata.build_annotations(launch),
        },
        "spec": {
            **pod,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": SPARK_UID,
                # A volume made for the pod belongs to root; by this group Spark may write to it.
                "fsGroup": SPARK_UID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [main],
            "volumes": [volume for volume, _ in pairs],
        },
    }


def _build_metrics_annotations(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations by which Prometheus scrapes all executors from the driver's UI."""
    if conf.get("spark.ui.enabled", "true").lower() == "false":
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/path": METRICS_PATH,
        "prometheus.io/port": conf.get("spark.ui.port", UI_PORT_DEFAULT),
    }


def _merge_user_template(ours: dict[str, Any], theirs: dict[str, Any] | None) -> dict[str, Any]:
    result: dict[str, Any] = merge.merge_values(ours, theirs)
    # After the merge: whether a taint is tolerated depends on the user's list as a whole.
    spec = result["spec"]
    spec["tolerations"] = _add_node_loss_tolerations(spec.get("tolerations") or [])
    return result


def _add_node_loss_tolerations(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the user's tolerations, and ours for each lost-node taint that they do not cover."""
    ours = [
        {
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": NODE_LOSS_SECONDS,
        }
        for taint in _LOST_NODE_TAINTS
        if not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]
    return [*tolerations, *ours]


def _tolerates(toleration: Mapping[str, Any], taint: str) -> bool:
    """Return whether `toleration` covers an eviction by `taint`; one without a key covers all."""
    return toleration.get("key") in (taint, "", None) and toleration.get("effect") in (
        "NoExecute",
        "",
        None,
    )
