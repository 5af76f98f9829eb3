"""Values in `spec.spark` that are refused in a cluster: they would break a run, or be ignored.

Most checks are part of the spec. Here are those that need more: properties that need a trusted
namespace, and the pod templates, which may not change what a run relies on. Knows the names in our
own template, not how it is built.

    spec.spark.driver.template                          refused because
    spec.restartPolicy: Always                          Spark sets it in every pod
    spec.volumes: [{name: icdc-report}]                 the prefix icdc- belongs to the run
    spec.containers[0].volumeMounts: [/etc/icdc/run]    the run has its files there
    metadata.labels: {icebergcdc.dev/run: x}            runs and their pods are found by it
"""

from collections.abc import Iterator, Mapping
from typing import Any

from icdc_api import naming
from icdc_api.crd.explain import MAX_LINES, describe_kind, format_path
from icdc_api.errors import BadSpec
from icdc_api.problems import format_value
from icdc_api.spec.spark import Spark
from icdc_api.spec.spark_conf import find_risk
from icdc_operator.manifests.pods import pod_paths, shapes
from icdc_operator.manifests.pods.roles import Role
from icdc_operator.manifests.pods.templates import DRIVER_ENV

_NAMES = "the operator finds runs and their pods by it; use another key"
_SPARK_SETS = "Spark sets it in every pod; leave it out"
_ACCOUNT = "use spec.spark.driver.serviceAccount"
_OWN = "a run has its own network, processes and memory; leave it out"
_IMAGE_STARTS = "the image starts the run; leave it out"
_OUTCOME = "the driver writes its outcome there; leave it out"

# What is refused by name, and what to do instead. Fields that Spark overwrites are refused too:
# to ignore what somebody wrote would be worse.
_POD_FIELDS = {
    "restartPolicy": _SPARK_SETS,
    "serviceAccount": _ACCOUNT,
    "serviceAccountName": _ACCOUNT,
    "hostNetwork": _OWN,
    "hostPID": _OWN,
    "hostIPC": _OWN,
    "activeDeadlineSeconds": "use spec.timeouts.runSeconds",
}
_EXECUTOR_FIELDS = {
    "terminationGracePeriodSeconds": (
        "use the property spark.kubernetes.executor.terminationGracePeriodSeconds "
        "in spec.spark.conf"
    ),
}
_CONTAINER_FIELDS = {
    "image": "use spec.spark.image",
    "imagePullPolicy": _SPARK_SETS,
    "command": _IMAGE_STARTS,
    "args": _IMAGE_STARTS,
}
_DRIVER_CONTAINER_FIELDS = {
    "terminationMessagePath": _OUTCOME,
    "terminationMessagePolicy": _OUTCOME,
}


def check(spark: Spark, *, trusted: bool) -> None:
    """Raise BadSpec, with a line for each problem, if `spark` has values that are refused.

    `trusted`: whether the namespace may use all that spark-submit has permission for.
    """
    problems = [*([] if trusted else _find_risks(spark)), *find_problems(spark)]
    if not problems:
        return
    lines = problems[:MAX_LINES]
    if len(problems) > MAX_LINES:
        lines.append(f"and {len(problems) - MAX_LINES} more problems")
    raise BadSpec("\n".join(lines))


def _find_risks(spark: Spark) -> Iterator[str]:
    """Yield a line for each property that needs a trusted namespace; values may be secret."""
    for key, value in spark.conf.items():
        risk = find_risk(key, value)
        if risk is not None:
            where = format_path(("spec", "spark", "conf", key))
            yield (
                f"{where}: allowed only in trusted namespaces, because {risk}; whoever installed "
                "the operator can add this namespace to the chart value trustedNamespaces"
            )


def find_problems(spark: Spark) -> Iterator[str]:
    """Yield a line for each problem of the templates: the field, its value, what is allowed."""
    local = frozenset(
        pod_paths.name_local_volume(number) for number in range(1, len(spark.local_volumes) + 1)
    )
    for role, template in (
        (Role.DRIVER, spark.driver.template),
        (Role.EXECUTOR, spark.executor.template),
    ):
        if template is None:
            continue
        path: shapes.Path = ("spec", "spark", role.value, "template")
        # The form first: the checks below rely on lists being lists and names being texts.
        misshapen = list(shapes.find_problems(template, path))
        yield from misshapen
        if not misshapen:
            yield from _check_template(template, role, local, path)


def _check_template(
    template: Mapping[str, Any], role: Role, local: frozenset[str], path: shapes.Path
) -> Iterator[str]:
    yield from _refuse_unknown(template, ("metadata", "spec"), path)
    metadata = template.get("metadata") or {}
    where = (*path, "metadata")
    yield from _refuse_unknown(metadata, ("labels", "annotations"), where)
    for field in ("labels", "annotations"):
        for key in metadata.get(field) or {}:
            if key.startswith(naming.RESERVED_KEYS):
                at = format_path((*where, field))
                yield f"{at}: the key {format_value(key)} is not allowed: {_NAMES}"
    spec, where = template.get("spec") or {}, (*path, "spec")
    yield from _check_pod(spec, role, where)
    for position, volume in enumerate(spec.get("volumes") or ()):
        if _is_ours(volume["name"], local):
            here = (*where, "volumes", position, "name")
            yield _format_line(here, volume["name"], _choose_volume_rule(volume["name"]))
    for field in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(field) or ()):
            here = (*where, field, position)
            main = field == "containers" and container["name"] == role.container
            # A sidecar may mount a local volume, for its own files; where the main container
            # mounts it is the run's to say.
            yield from _check_mounts(container, local if main else frozenset(), here)
            if main:
                yield from _check_main_container(container, role, here)
            elif field == "containers" and not container.get("image"):
                yield f"{format_path((*here, 'image'))}: missing; {_describe_main_container(role)}"


def _check_pod(spec: Mapping[str, Any], role: Role, path: shapes.Path) -> Iterator[str]:
    refused = _POD_FIELDS | (_EXECUTOR_FIELDS if role is Role.EXECUTOR else {})
    for field, rule in refused.items():
        value = spec.get(field)
        # False is the default of these flags.
        if value is not None and value is not False:
            yield _format_line((*path, field), value, rule)
    token = "automountServiceAccountToken"
    if role is Role.DRIVER and spec.get(token, True) is not True:
        yield _format_line(
            (*path, token), spec[token], "the driver needs the token to create the executors"
        )


def _check_main_container(
    container: Mapping[str, Any], role: Role, path: shapes.Path
) -> Iterator[str]:
    driver = role is Role.DRIVER
    refused = _CONTAINER_FIELDS | (_DRIVER_CONTAINER_FIELDS if driver else {})
    for field, rule in refused.items():
        if container.get(field) is not None:
            yield _format_line((*path, field), container[field], rule)
    for position, variable in enumerate(container.get("env") or ()):
        if driver and variable["name"] in DRIVER_ENV:
            here = (*path, "env", position, "name")
            yield _format_line(here, variable["name"], "it is set for every run; use another name")
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        if pod_paths.is_reserved(mount["mountPath"]):
            here = (*path, "volumeMounts", position, "mountPath")
            yield _format_line(
                here, mount["mountPath"], "runs keep their files there; use another path"
            )
    yield from _check_resources(container.get("resources") or {}, role, (*path, "resources"))


def _check_resources(resources: Mapping[str, Any], role: Role, path: shapes.Path) -> Iterator[str]:
    """Refuse resources that Spark overwrites in the template; it retains a limit of cores."""
    for field, name, better in (
        ("requests", "cpu", "cores"),
        ("requests", "memory", "memory"),
        ("limits", "memory", "memory"),
    ):
        amount = (resources.get(field) or {}).get(name)
        if amount is not None:
            yield _format_line((*path, field, name), amount, f"use spec.spark.{role}.{better}")


def _check_mounts(
    container: Mapping[str, Any], local: frozenset[str], path: shapes.Path
) -> Iterator[str]:
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        name = mount.get("name")
        if isinstance(name, str) and _is_ours(name, local):
            here = (*path, "volumeMounts", position, "name")
            yield _format_line(here, name, _choose_volume_rule(name))


def _is_ours(volume: str, local: frozenset[str]) -> bool:
    return volume.startswith(pod_paths.VOLUME_PREFIX) or volume in local


def _choose_volume_rule(volume: str) -> str:
    if volume.startswith(pod_paths.VOLUME_PREFIX):
        return (
            f"names that begin with {pod_paths.VOLUME_PREFIX} belong to the run; use another name"
        )
    return "the volume is made from spec.spark.localVolumes; use another name"


def _describe_main_container(role: Role) -> str:
    return f"only {role.container}, the main container, has the run's image by default"


def _refuse_unknown(
    values: Mapping[str, Any], allowed: tuple[str, ...], path: shapes.Path
) -> Iterator[str]:
    for field in values:
        if field not in allowed:
            yield f"{format_path((*path, field))}: not allowed; allowed: {', '.join(allowed)}"


def _format_line(path: shapes.Path, value: object, rule: str) -> str:
    # The arguments of a command are omitted: they may be long, or secret.
    text = describe_kind(value) if isinstance(value, list | dict) else format_value(value)
    return f"{format_path(path)}: {text} is not allowed: {rule}"
