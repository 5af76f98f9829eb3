"""Pod templates: those that Go cannot decode, one with every field there is, and random ones.

Made from the types that the operator checks against, so a field that they gain is in the tests too.
"""

from typing import Any

from hypothesis import strategies as st

from icdc_operator.manifests.pods.shapes import ROOT, TYPES

Template = dict[str, Any]


def make_pod(**spec: Any) -> Template:
    """Return a template with this pod."""
    return {"spec": spec}


def make_container(**fields: Any) -> Template:
    """Return a template with one container beside the main one."""
    return make_pod(containers=[{"name": "side", "image": "a", **fields}])


def make_volume(**source: Any) -> Template:
    """Return a template with one volume."""
    return make_pod(volumes=[{"name": "v", **source}])


_TEXT = "it must be text; put it in quotes"
_WHOLE = "a whole number is not allowed: it must be"
_MAPPING = "text is not allowed: it must be a mapping"
_QUANTITY = "text is not allowed: it must be a quantity, such as 500m, 2 or 1.5Gi"
_C, _V = "spec.containers[0]", "spec.volumes[0]"

UNREADABLE: list[tuple[Template, str]] = [
    (make_pod(affinity={"nodeAffinity": "x"}), f"spec.affinity.nodeAffinity: {_MAPPING}"),
    (make_pod(priority=5000000000), f"spec.priority: {_WHOLE} a number of 32 bits"),
    (
        make_pod(securityContext={"runAsUser": 10**25}),
        f"spec.securityContext.runAsUser: {_WHOLE} a number of 64 bits",
    ),
    (make_volume(hostPath="/x"), f"{_V}.hostPath: {_MAPPING}"),
    (make_volume(emptyDir={"sizeLimit": "lots"}), f"{_V}.emptyDir.sizeLimit: {_QUANTITY}"),
    (
        make_container(resources={"limits": {"nvidia.com/gpu": "abc"}}),
        f"{_C}.resources.limits['nvidia.com/gpu']: {_QUANTITY}",
    ),
    (
        make_container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": 5}}}]),
        f"{_C}.env[0].valueFrom.secretKeyRef.key: a whole number is not allowed: {_TEXT}",
    ),
    (
        make_container(lifecycle={"preStop": {"exec": {"command": "x"}}}),
        f"{_C}.lifecycle.preStop.exec.command: text is not allowed: it must be a list of text",
    ),
    (
        make_pod(imagePullSecrets=[{"name": 5}]),
        f"spec.imagePullSecrets[0].name: a whole number is not allowed: {_TEXT}",
    ),
    (
        make_container(ports=[{"containerPort": 99999999999}]),
        f"{_C}.ports[0].containerPort: {_WHOLE} a number of 32 bits",
    ),
    (
        make_pod(topologySpreadConstraints=[{"maxSkew": "1"}]),
        "spec.topologySpreadConstraints[0].maxSkew: text is not allowed: it must be a whole number",
    ),
    (
        make_container(livenessProbe={"httpGet": {"port": 2**31}}),
        f"{_C}.livenessProbe.httpGet.port: {_WHOLE} text or a number of 32 bits",
    ),
    (
        make_container(livenessProbe={"tcpSocket": {"port": 80.5}}),
        f"{_C}.livenessProbe.tcpSocket.port: a number is not allowed: it must be a whole number or "
        "text",
    ),
    (
        make_pod(securityContext={"supplementalGroups": [2**63]}),
        f"spec.securityContext.supplementalGroups[0]: {_WHOLE} a number of 64 bits",
    ),
    (
        make_pod(securityContext={"supplementalGroups": 5}),
        "spec.securityContext.supplementalGroups: a whole number is not allowed: it must be a list "
        "of whole numbers",
    ),
    (
        make_pod(tolerations=[{"tolerationSeconds": -(2**63) - 1}]),
        f"spec.tolerations[0].tolerationSeconds: {_WHOLE} a number of 64 bits",
    ),
    (
        make_volume(secret={"defaultMode": "0400"}),
        f"{_V}.secret.defaultMode: text is not allowed: it must be a whole number",
    ),
    (
        make_volume(
            ephemeral={"volumeClaimTemplate": {"metadata": {"creationTimestamp": "today"}}}
        ),
        f"{_V}.ephemeral.volumeClaimTemplate.metadata.creationTimestamp: text is not allowed: it "
        "must be a time, such as 2024-03-15T14:30:00Z",
    ),
    (
        make_volume(csi={"volumeAttributes": {"a": True}}),
        f"{_V}.csi.volumeAttributes.a: true or false is not allowed: {_TEXT}",
    ),
    (
        make_pod(overhead={"cpu": True}),
        "spec.overhead.cpu: true or false is not allowed: it must be a quantity",
    ),
    (
        make_pod(overhead={"cpu": []}),
        "spec.overhead.cpu: a list is not allowed: it must be a quantity",
    ),
    (
        make_pod(containers={"a": {}}),
        "spec.containers: a mapping is not allowed: it must be a list of mappings",
    ),
    (make_pod(tolerations=["x"]), f"spec.tolerations[0]: {_MAPPING}"),
    (
        make_pod(hostNetwork="yes"),
        "spec.hostNetwork: text is not allowed: it must be true or false",
    ),
    (
        make_pod(priority=True),
        "spec.priority: true or false is not allowed: it must be a whole number",
    ),
    (make_pod(affinity=[]), "spec.affinity: a list is not allowed: it must be a mapping"),
    ({"spec": []}, "spec: a list is not allowed: it must be a mapping"),
    (
        {"metadata": {"labels": {"version": 1.5}}},
        f"metadata.labels.version: a number is not allowed: {_TEXT}",
    ),
    (
        {"metadata": {"annotations": "x"}},
        "metadata.annotations: text is not allowed: it must be a mapping whose values are text",
    ),
    (
        make_container(args=["--port", 80]),
        f"{_C}.args[1]: a whole number is not allowed: {_TEXT}",
    ),
    (
        make_container(env=[{"name": "PASSWORD", "value": 12345}]),
        f"{_C}.env[0].value: a whole number is not allowed: {_TEXT}",
    ),
]
"""What Go refuses to decode, and the line that says so here."""

QUANTITIES = [
    *("0", "1", "500m", "1.5Gi", "2Ki", "1k", "1E", "1e3", "1E3", "-1", "+.5", "5.", "100n", "3u"),
    *(0, 5, 0.5, "9223372036854775807", "7.9Ei", "12e-6", 1e3),
]
NO_QUANTITIES = [
    *("", " ", "1 Gi", "1gi", "1K", "1ki", "1i", "1e", "1e3.5", "abc", "0x10", "1_000"),
    *("1,5", "NaN", "Infinity", "--1", "\u0661"),
]
"""What Go refuses to decode."""

TIMES = ["2024-03-15T14:30:00Z", "2024-03-15T14:30:00.123456789+05:30", "2024-02-29T00:00:00-01:00"]
NO_TIMES = [
    *("", "2024-03-15", "2024-03-15 14:30:00Z", "2024-03-15T14:30:00", "2023-02-29T00:00:00Z"),
    *("2024-03-15T24:30:00Z", "2024-13-15T14:30:00Z", "20240315T143000Z"),
]
"""What Go refuses to decode."""


def make_every_field(kind: str = ROOT) -> Any:
    """Return a value of that type in which every field is given."""
    if kind.startswith("["):
        return [make_every_field(kind[1:-1])]
    if kind.startswith("{"):
        return {"a": make_every_field(kind[1:-1])}
    if kind in TYPES:
        return {name: make_every_field(field_type) for name, field_type in TYPES[kind].items()}
    return _EXAMPLES[kind]


_EXAMPLES = {
    "any": {"f:a": {}},
    "boolean": True,
    "int-or-string": 2**31 - 1,
    "int32": -(2**31),
    "int64": 2**63 - 1,
    "quantity": "1.5Gi",
    "string": "a",
    "time": TIMES[0],
}

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "any": st.just({}),
    "boolean": st.booleans(),
    "int-or-string": st.integers(-(2**31), 2**31 - 1) | st.text(max_size=3),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "quantity": st.sampled_from(QUANTITIES),
    "string": st.text(max_size=3),
    "time": st.sampled_from(TIMES),
}
ANYTHING = (
    st.sampled_from([True, 0, -1, 1.5, 2**31, -(2**31) - 1, 2**63, 10**25, 1e300, [], {}, [[]]])
    | st.sampled_from([None, [None], {"a": None}, {"a": 1}, ["x"], [1], "x", ""])
    | st.sampled_from([*QUANTITIES, *NO_QUANTITIES, *TIMES, *NO_TIMES])
    | st.from_regex(r"[+-]?[0-9.]{0,25}([KMGTPEkmun]i?|[eE]-?[0-9]{1,3})?", fullmatch=True)
)


def build_values(kind: str, depth: int = 7) -> st.SearchStrategy[Any]:
    """Return values of that type, each field given or not."""
    if kind.startswith("["):
        return st.lists(build_values(kind[1:-1], depth), max_size=1)
    if kind.startswith("{"):
        return st.dictionaries(
            st.sampled_from(["a", "b"]), build_values(kind[1:-1], depth), max_size=1
        )
    if kind not in TYPES:
        return _VALUES[kind]
    if depth == 0:
        return st.just({})
    fields = sorted(TYPES[kind].items())

    def build_some(chosen: list[tuple[str, str]]) -> st.SearchStrategy[Any]:
        return st.fixed_dictionaries(
            {name: build_values(field_type, depth - 1) for name, field_type in chosen}
        )

    return st.lists(st.sampled_from(fields), max_size=3, unique=True).flatmap(build_some)


@st.composite
def draw_damaged(draw: st.DrawFn) -> Template:
    """Return a template with every field, and anything in place of one value somewhere in it."""
    template: Template = make_every_field()
    node: Any = template
    while True:
        name = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else [0]))
        deeper = isinstance(node[name], dict | list) and node[name]
        if not deeper or draw(st.integers(0, 5)) == 0:
            node[name] = draw(ANYTHING)
            return template
        node = node[name]
