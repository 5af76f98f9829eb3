"""Whole manifests, compared with files that were read by a person.

`ICDC_WRITE_GOLDENS=1 pytest tests/unit/icdc_operator/manifests` writes them anew; read the diff.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api.spec.spark import Spark
from icdc_operator.manifests.application import build_spark_application
from icdc_operator.manifests.config_map import build_config_map, build_request
from icdc_operator.manifests.launch import Launch

pytestmark = pytest.mark.unit

HERE = Path(__file__).parent
CASES = sorted(path.stem for path in (HERE / "pipelines").glob("*.yaml"))
# The volumes of the restricted profile, and hostPath, which a user asks for by name.
VOLUME_KINDS = {"configMap", "emptyDir", "ephemeral", "hostPath", "secret"}


class _GoldenDumper(yaml.SafeDumper):
    """Writes a text of several lines as it is read, and no alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _GoldenDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_GoldenDumper.add_representer(str, _represent_text)


@pytest.fixture
def manifests(
    launch_of: Callable[[Path], tuple[Launch, dict[str, Any]]],
) -> Callable[[str], list[dict[str, Any]]]:
    """ConfigMap and SparkApplication of a case."""

    def make(case: str) -> list[dict[str, Any]]:
        launch, resource = launch_of(HERE / "pipelines" / f"{case}.yaml")
        launch = replace(launch, continuous=case == "full")
        request = build_request(launch, resource)
        return [build_config_map(launch, request), build_spark_application(launch)]

    return make


def locate_golden(case: str) -> Path:
    return HERE / "golden" / f"{case}.yaml"


def read_application(case: str) -> dict[str, Any]:
    result: dict[str, Any] = list(yaml.safe_load_all(locate_golden(case).read_text()))[1]
    return result


def walk_leaves(value: Any) -> Iterator[str]:
    """Yield every text in a manifest that is not the name of a field."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from walk_leaves(item)
    else:
        yield str(value)


def read_template(case: str, role: str) -> dict[str, Any]:
    result: dict[str, Any] = read_application(case)["spec"][role]["template"]
    return result


each_template = pytest.mark.parametrize(
    ("case", "role"), [(case, role) for case in CASES for role in ("driver", "executor")]
)


@pytest.mark.parametrize("case", CASES)
def test_the_manifests_are_those_of_the_file(
    case: str, manifests: Callable[[str], list[dict[str, Any]]]
) -> None:
    text = yaml.dump_all(manifests(case), Dumper=_GoldenDumper, sort_keys=False, width=100)
    if os.environ.get("ICDC_WRITE_GOLDENS"):
        locate_golden(case).write_text(text)
    assert text == locate_golden(case).read_text()


def test_every_golden_belongs_to_a_pipeline() -> None:
    assert sorted(path.stem for path in (HERE / "golden").iterdir()) == CASES


def test_the_full_pipeline_sets_every_field(
    launch_of: Callable[[Path], tuple[Launch, dict[str, Any]]],
) -> None:
    spark = launch_of(HERE / "pipelines" / "full.yaml")[0].spec.spark
    for model in (spark, spark.driver, spark.executor):
        assert model.model_fields_set == set(type(model).model_fields), type(model)
        assert all(
            getattr(model, name) != getattr(type(model)(), name) for name in model.model_fields_set
        )
    assert Spark.model_fields.keys() == spark.model_fields_set


@pytest.mark.parametrize("case", CASES)
def test_an_application_holds_nothing_that_a_catalog_or_index_is_opened_with(case: str) -> None:
    said = list(walk_leaves(read_application(case)))
    spec = yaml.safe_load((HERE / "pipelines" / f"{case}.yaml").read_text())["spec"]
    catalogs = [spec["catalog"], *(table.get("catalog", {}) for table in spec["tables"])]
    values = [value for catalog in catalogs for value in catalog.get("properties", {}).values()]
    for value in [*values, *spec["sink"]["opensearch"]["hosts"]]:
        assert [text for text in said if value in text] == []


@each_template
def test_pods_fit_the_restricted_profile(case: str, role: str) -> None:
    pod = read_template(case, role)["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    main = next(
        container
        for container in pod["containers"]
        if container["name"] == f"spark-kubernetes-{role}"
    )
    assert main["securityContext"]["allowPrivilegeEscalation"] is False
    assert main["securityContext"]["capabilities"]["drop"] == ["ALL"]
    kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
    assert kinds <= VOLUME_KINDS
    assert ("hostPath" in kinds) == (case in ("full", "local-volumes", "user-templates"))


@each_template
def test_every_mount_has_its_volume_and_its_own_place(case: str, role: str) -> None:
    pod = read_template(case, role)["spec"]
    volumes = [volume["name"] for volume in pod["volumes"]]
    assert len(volumes) == len(set(volumes))
    for container in pod["containers"]:
        mounts = container.get("volumeMounts", [])
        assert {mount["name"] for mount in mounts} <= set(volumes)
        paths = [mount["mountPath"] for mount in mounts]
        assert len(paths) == len(set(paths))


@each_template
def test_only_the_driver_has_a_token_unless_the_user_says_so(case: str, role: str) -> None:
    expected = role == "driver" or case == "user-templates"
    assert read_template(case, role)["spec"]["automountServiceAccountToken"] is expected
