"""A user's template over ours: what they say holds, and what a run needs stays."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_operator.manifests.launch import InstallSettings, Launch, PipelineRef
from icdc_operator.manifests.pods import refused_values
from icdc_operator.manifests.pods.merge import LIST_KEYS, merge_values
from icdc_operator.manifests.pods.templates import build_driver_template, build_executor_template
from icdc_testing.operator.deciding.pipelines import make_spec, run_record

pytestmark = pytest.mark.unit


def launch(role: str = "driver", template: dict[str, Any] | None = None) -> Launch:
    secret = {"secretRef": {"name": "search"}}
    spec = make_spec(
        sink={"opensearch": {"hosts": ["http://search:9200"], "credentialsFrom": secret}},
        spark={"localVolumes": [{"hostPath": {"path": "/mnt"}}], role: {"template": template}},
    )
    return Launch(
        PipelineRef("retail", "shop", "uid"), run_record(), spec, InstallSettings("spark:1")
    )


OURS = {"driver": build_driver_template(launch()), "executor": build_executor_template(launch())}


def build_items(
    fields: dict[str, st.SearchStrategy[Any]], key: str, least: int = 0
) -> st.SearchStrategy[Any]:
    """List as a user writes them: each item named, no name twice."""
    named = {key: fields.pop(key)}
    item = st.fixed_dictionaries({**named, **fields}) | st.fixed_dictionaries(named)
    return st.lists(item, min_size=least, max_size=2, unique_by=lambda item: item[key])


FLAGS = st.none() | st.booleans()
POD_SECURITY = {
    "runAsNonRoot": FLAGS,
    "runAsUser": st.none() | st.integers(0, 9999),
    "seccompProfile": st.none() | st.just({"type": "Unconfined"}),
}
SECURITY = {**POD_SECURITY, "capabilities": st.none() | st.just({"add": ["NET_ADMIN"]})}
RESERVED_VOLUMES = ["spark-local-dir-1", "icdc-run"]
RESERVED_PATHS = ["/etc/icdc/run", "/var/run/icdc/x"]


def build_containers(reserved: bool) -> st.SearchStrategy[Any]:
    """Main containers and sidecars; `reserved`: also with names that belong to us.

    Without these they are never empty, since most of what is drawn at random says little.
    """
    least = 0 if reserved else 1
    volumes = ["data", "spark-local-dir-9", *(RESERVED_VOLUMES if reserved else [])]
    paths = ["/data", "/data/x", *(RESERVED_PATHS if reserved else [])]
    mount = {
        "mountPath": st.sampled_from(paths),
        "name": st.sampled_from(volumes),
        "readOnly": FLAGS,
    }
    variable = {
        "name": st.sampled_from(["A", "B", *(["POD_NAME"] if reserved else [])]),
        "value": st.none() | st.just("x"),
    }
    return build_items(
        {
            "name": st.sampled_from(["main", "other"]),
            "env": build_items(variable, "name", least) | st.none(),
            "volumeMounts": build_items(mount, "mountPath", least) | st.none(),
            "securityContext": st.none() | st.fixed_dictionaries({}, optional=SECURITY),
        },
        "name",
        least,
    )


def build_templates(role: str, *, reserved: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Templates as users write them; without `reserved` all of them are accepted."""
    keys = ["team", "prometheus.io/port", *(["icebergcdc.dev/run"] if reserved else [])]
    texts = st.none() | st.dictionaries(st.sampled_from(keys), st.just("x"), max_size=2)
    names = ["data", "spark-local-dir-9", *(RESERVED_VOLUMES if reserved else [])]
    volume = {"name": st.sampled_from(names), "emptyDir": st.just({})}
    spec = {
        "containers": build_containers(reserved) | st.none()
        if reserved
        else build_containers(reserved),
        "initContainers": st.none() | build_containers(reserved),
        "volumes": st.none() | build_items(volume, "name"),
        "securityContext": st.none() | st.fixed_dictionaries({}, optional=POD_SECURITY),
        "automountServiceAccountToken": FLAGS if reserved else st.just(True),
        "tolerations": st.just([{"operator": "Exists"}]),
        "hostNetwork": FLAGS if reserved else st.just(False),
    }
    metadata = {"labels": texts, "annotations": texts}
    whole = st.fixed_dictionaries(
        {"metadata": st.fixed_dictionaries(metadata), "spec": st.fixed_dictionaries(spec)}
    )
    parts = st.fixed_dictionaries(
        {},
        optional={
            "metadata": st.none() | st.fixed_dictionaries({}, optional=metadata),
            "spec": st.none() | st.fixed_dictionaries({}, optional=spec),
        },
    )
    return (whole | parts if reserved else whole).map(lambda made: _fit_to_role(made, role))


def _fit_to_role(template: dict[str, Any], role: str) -> dict[str, Any]:
    """Return the template, its main container called as the role's, and images for the rest."""
    for container in (template.get("spec") or {}).get("containers") or []:
        if container["name"] == "main":
            container["name"] = f"spark-kubernetes-{role}"
        else:
            container["image"] = "other:1"
    return template


@st.composite
def draw_role(draw: st.DrawFn, *, reserved: bool) -> tuple[str, dict[str, Any]]:
    """Return a role and what a user says of it."""
    role = draw(st.sampled_from(["driver", "executor"]))
    return role, draw(build_templates(role, reserved=reserved))


@given(draw_role(reserved=True))
def test_merging_twice_is_merging_once_and_changes_neither_side(
    case: tuple[str, dict[str, Any]],
) -> None:
    role, theirs = case
    before = copy.deepcopy((OURS[role], theirs))
    once = merge_values(OURS[role], theirs)
    assert merge_values(OURS[role], once) == once
    assert (OURS[role], theirs) == before


@given(draw_role(reserved=True))
def test_whatever_the_user_says_holds(case: tuple[str, dict[str, Any]]) -> None:
    role, theirs = case
    assert list(_find_losses(merge_values(OURS[role], theirs), theirs)) == []


@given(draw_role(reserved=False))
def test_a_template_that_is_accepted_takes_nothing_from_the_run(
    case: tuple[str, dict[str, Any]],
) -> None:
    role, theirs = case
    made = launch(role, theirs)
    assert list(refused_values.find_problems(made.spec.spark)) == []
    result = build_driver_template(made) if role == "driver" else build_executor_template(made)
    ours = OURS[role]
    assert ours["metadata"]["labels"].items() <= result["metadata"]["labels"].items()
    main, actual = _find_main_container(ours, role), _find_main_container(result, role)
    for field in ("env", "volumeMounts"):
        assert [item for item in main.get(field, []) if item not in actual[field]] == []
    assert [
        volume for volume in ours["spec"]["volumes"] if volume not in result["spec"]["volumes"]
    ] == []
    if role == "driver":
        assert result["spec"]["automountServiceAccountToken"] is True


def test_nothing_said_is_our_template() -> None:
    assert merge_values(OURS["driver"], None) == merge_values(OURS["driver"], {}) == OURS["driver"]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": {"b": 1}}, {"a": None}, {"a": {"b": 1}}),
        ({"env": [{"name": "A"}]}, {"env": None}, {"env": [{"name": "A"}]}),
        ({"drop": ["ALL"]}, {"drop": ["X"]}, {"drop": ["X"]}),
        (
            {"env": [{"name": "A", "value": "1"}]},
            {"env": [{"name": "B"}, {"name": "A", "value": "2"}]},
            {"env": [{"name": "A", "value": "2"}, {"name": "B"}]},
        ),
        (
            {"env": [{"name": "A", "value": "1"}]},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/b"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
        ),
    ],
    ids=[
        "a null takes a value away",
        "a null for a mapping says nothing",
        "a null for a list says nothing",
        "a list without keys is the user's",
        "ours come first, changed by theirs",
        "a variable has a value or a source, never both",
        "mounts are told apart by path",
    ],
)
def test_lists_and_nulls_are_merged_so(ours: Any, theirs: Any, expected: Any) -> None:
    assert merge_values(ours, theirs) == expected


def _find_main_container(template: dict[str, Any], role: str) -> dict[str, Any]:
    result: dict[str, Any] = next(
        container
        for container in template["spec"]["containers"]
        if container["name"] == f"spark-kubernetes-{role}"
    )
    return result


def _find_losses(result: Any, theirs: Any, field: str = "") -> Iterator[str]:
    """Paths at which the result does not hold what the user said."""
    if isinstance(theirs, dict) and isinstance(result, dict):
        for name, value in theirs.items():
            if name not in result:
                yield name
            else:
                yield from (f"{name}.{path}" for path in _find_losses(result[name], value, name))
    elif isinstance(theirs, list) and field in LIST_KEYS:
        key = LIST_KEYS[field]
        by_key = {item[key]: item for item in result}
        for item in theirs:
            yield from _find_losses(by_key.get(item[key]), item)
    elif theirs is None and isinstance(result, dict | list):
        return  # says nothing
    elif result != theirs:
        yield f"{theirs!r} became {result!r}"
