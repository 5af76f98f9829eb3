"""Whether a user's pod template can be read at all: the kinds of its values.

The template is schemaless in both resources, but spark-operator decodes it into typed structs:
one `value: 1` in place of `value: "1"` would keep it from reading any SparkApplication of the
cluster. Unknown fields are let through, since it drops them. Values are never shown: those of an
environment may be secrets.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from icdc_api.explain import dotted, kind_of
from icdc_api.problems import first_duplicate, shown
from icdc_operator.manifests.merge import LIST_KEYS

Path = tuple[str | int, ...]


class Kind(StrEnum):
    """What a value must be, in the words of the messages."""

    TEXT = "text"
    FLAG = "true or false"
    NUMBER = "a whole number"
    MAPPING = "a mapping"
    TEXTS = "a mapping whose values are text"
    LIST = "a list"
    TEXT_LIST = "a list of text"
    MAPPINGS = "a list of mappings"


def _fields(**names: str) -> dict[str, Kind]:
    return {name: Kind[kind] for kind, text in names.items() for name in text.split()}


TEMPLATE = _fields(MAPPING="metadata spec")
METADATA = _fields(TEXTS="labels annotations")
POD = _fields(
    TEXT="""dnsPolicy hostname nodeName preemptionPolicy priorityClassName restartPolicy
        runtimeClassName schedulerName serviceAccount serviceAccountName subdomain""",
    FLAG="""automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers
        setHostnameAsFQDN shareProcessNamespace""",
    NUMBER="activeDeadlineSeconds priority terminationGracePeriodSeconds",
    MAPPING="affinity dnsConfig os overhead resources securityContext",
    TEXTS="nodeSelector",
    MAPPINGS="""containers ephemeralContainers hostAliases imagePullSecrets initContainers
        readinessGates resourceClaims schedulingGates tolerations topologySpreadConstraints
        volumes""",
)
CONTAINER = _fields(
    TEXT="""image imagePullPolicy name restartPolicy terminationMessagePath
        terminationMessagePolicy workingDir""",
    FLAG="stdin stdinOnce tty",
    MAPPING="""lifecycle livenessProbe readinessProbe resources securityContext startupProbe""",
    TEXT_LIST="args command",
    MAPPINGS="env envFrom ports resizePolicy volumeDevices volumeMounts",
)
VOLUME = _fields(TEXT="name")
ENV = _fields(TEXT="name value", MAPPING="valueFrom")
MOUNT = _fields(
    TEXT="mountPath mountPropagation name recursiveReadOnly subPath subPathExpr", FLAG="readOnly"
)
_BELOW: Mapping[str, Mapping[str, Kind]] = {
    "capabilities": _fields(TEXT_LIST="add drop"),
    "containers": CONTAINER,
    "env": ENV,
    "initContainers": CONTAINER,
    "ports": _fields(TEXT="hostIP name protocol", NUMBER="containerPort hostPort"),
    "resources": _fields(MAPPING="limits requests", MAPPINGS="claims"),
    # Of a pod and of a container.
    "securityContext": _fields(
        TEXT="fsGroupChangePolicy procMount seLinuxChangePolicy supplementalGroupsPolicy",
        FLAG="allowPrivilegeEscalation privileged readOnlyRootFilesystem runAsNonRoot",
        NUMBER="fsGroup runAsGroup runAsUser",
        MAPPING="appArmorProfile capabilities seLinuxOptions seccompProfile windowsOptions",
        LIST="supplementalGroups",
        MAPPINGS="sysctls",
    ),
    "tolerations": _fields(TEXT="effect key operator value", NUMBER="tolerationSeconds"),
    "volumeMounts": MOUNT,
    "volumes": VOLUME,
}
"""The fields of what stands in a field of that name; deeper ones are not looked at."""

_IS: Mapping[Kind, Callable[[object], bool]] = {
    Kind.TEXT: lambda value: isinstance(value, str),
    Kind.FLAG: lambda value: isinstance(value, bool),
    Kind.NUMBER: lambda value: isinstance(value, int) and not isinstance(value, bool),
    Kind.MAPPING: lambda value: isinstance(value, dict),
    Kind.TEXTS: lambda value: isinstance(value, dict),
    Kind.LIST: lambda value: isinstance(value, list),
    Kind.TEXT_LIST: lambda value: isinstance(value, list),
    Kind.MAPPINGS: lambda value: isinstance(value, list),
}


def problems(template: Mapping[str, Any], path: Path) -> Iterator[str]:
    """One line for each value of a wrong kind below `path`, where the template stands."""
    wrong = list(_of_fields(template, TEMPLATE, path))
    yield from wrong
    if not wrong:
        yield from _of_fields(template.get("metadata") or {}, METADATA, (*path, "metadata"))
        yield from _of_fields(template.get("spec") or {}, POD, (*path, "spec"))


def _of_fields(values: Mapping[str, Any], fields: Mapping[str, Kind], path: Path) -> Iterator[str]:
    for name, value in values.items():
        kind = fields.get(name)
        if kind is None or value is None:
            continue
        if not _IS[kind](value):
            yield _line((*path, name), value, kind)
        elif kind is Kind.TEXTS:
            texts = dict.fromkeys(value, Kind.TEXT)
            yield from _of_fields(value, texts, (*path, name))
        elif kind is Kind.MAPPING:
            yield from _of_fields(value, _BELOW.get(name, {}), (*path, name))
        elif kind is Kind.TEXT_LIST:
            for position, item in enumerate(value):
                if not isinstance(item, str):
                    yield _line((*path, name, position), item, Kind.TEXT)
        elif kind is Kind.MAPPINGS:
            yield from _of_items(name, value, (*path, name))


def _of_items(name: str, items: list[Any], path: Path) -> Iterator[str]:
    fields, key = _BELOW.get(name, {}), LIST_KEYS.get(name)
    keys: list[str] = []
    for position, item in enumerate(items):
        here = (*path, position)
        if not isinstance(item, dict):
            yield _line(here, item, Kind.MAPPING)
            continue
        yield from _of_fields(item, fields, here)
        if key is None:
            continue
        if item.get(key) is None:
            yield f"{dotted((*here, key))}: missing; the field is required"
        elif isinstance(item[key], str):
            keys.append(item[key])
    twice = first_duplicate(tuple(keys))
    if twice:
        yield f"{dotted(path)}: {shown(twice[1])} is not allowed twice: each {key} is unique"


def _line(path: Path, value: object, kind: Kind) -> str:
    hint = ""
    if kind is Kind.TEXT and isinstance(value, bool | int | float):
        hint = "; put it in quotes"
    return f"{dotted(path)}: {kind_of(value)} is not allowed: it must be {kind}{hint}"
