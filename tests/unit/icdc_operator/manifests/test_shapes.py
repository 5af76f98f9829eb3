"""Templates that spark-operator could not decode are refused before it sees them."""

from typing import Any

import pytest
from hypothesis import given

from icdc_api.spec.spark import Spark
from icdc_operator.manifests.pods import refused_values, shapes
from icdc_testing.operator.deciding.pod_templates import (
    NO_QUANTITIES,
    NO_TIMES,
    QUANTITIES,
    TIMES,
    UNREADABLE,
    build_values,
    make_container,
    make_every_field,
    make_pod,
    make_volume,
)

pytestmark = pytest.mark.unit

STRICTER = [
    (
        make_pod(containers=[None]),
        "spec.containers[0]: nothing is not allowed: it must be a mapping",
    ),
    (
        make_pod(containers=[{"env": []}]),
        "spec.containers[0].name: missing; the field is required",
    ),
    (
        make_container(volumeMounts=[{"name": "a"}]),
        "spec.containers[0].volumeMounts[0].mountPath: missing; the field is required",
    ),
    (
        make_container(env=[{"name": "A"}, {"name": "B"}, {"name": "A"}]),
        "spec.containers[0].env: 'A' is not allowed twice: each name is unique",
    ),
    (
        make_pod(volumes=[{"name": "a"}, {"name": "a"}]),
        "spec.volumes: 'a' is not allowed twice: each name is unique",
    ),
    (
        make_pod(nodeSelektor={"a": "b"}),
        "spec.nodeSelektor: not allowed; Kubernetes has no such field in PodSpec; meant is "
        "nodeSelector?",
    ),
    (
        make_pod(zzz=1),
        "spec.zzz: not allowed; Kubernetes has no such field in PodSpec",
    ),
    (
        make_volume(emptyDir={"SizeLimit": "1Gi"}),
        "spec.volumes[0].emptyDir.SizeLimit: not allowed; allowed: medium, sizeLimit",
    ),
    (
        make_container(args=[None]),
        "spec.containers[0].args[0]: nothing is not allowed: it must be text",
    ),
    (
        make_container(resources={"limits": {"memory": "8Ei"}}),
        "spec.containers[0].resources.limits.memory: text is not allowed: it must be a quantity, "
        "such as 500m, 2 or 1.5Gi",
    ),
]
"""What Go would read, but the merge, Kubernetes or the user would take for something else."""


@pytest.mark.parametrize(("template", "message"), [*UNREADABLE, *STRICTER])
def test_a_value_that_cannot_be_read_is_refused(template: dict[str, Any], message: str) -> None:
    spark = Spark.model_validate({"driver": {"template": template}})
    assert list(refused_values.find_problems(spark)) == [f"spec.spark.driver.template.{message}"]


def test_a_template_with_every_field_that_kubernetes_has_is_read() -> None:
    assert list(shapes.find_problems(make_every_field(), ("t",))) == []


@given(template=build_values(shapes.ROOT))
def test_whatever_kubernetes_can_read_is_read(template: dict[str, Any]) -> None:
    problems = shapes.find_problems(template, ("t",))
    assert [
        problem for problem in problems if "missing; the field is required" not in problem
    ] == []


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_quantity_is_read(quantity: object) -> None:
    template = make_container(resources={"limits": {"cpu": quantity}})
    assert list(shapes.find_problems(template, ("t",))) == []


@pytest.mark.parametrize(
    "quantity",
    [*NO_QUANTITIES, "Gi", ".", "9223372036854775808", "8Ei", "1e19", "1e999999999", 1e19],
)
def test_what_is_no_quantity_or_would_be_cut_is_refused(quantity: object) -> None:
    template = make_container(resources={"limits": {"cpu": quantity}})
    (line,) = shapes.find_problems(template, ("t",))
    assert line.endswith("it must be a quantity, such as 500m, 2 or 1.5Gi")


@pytest.mark.parametrize("time", [*TIMES, *NO_TIMES])
def test_a_time_is_one_of_rfc_3339(time: str) -> None:
    metadata = {"creationTimestamp": time}
    template = make_volume(ephemeral={"volumeClaimTemplate": {"metadata": metadata}})
    assert bool(list(shapes.find_problems(template, ("t",)))) == (time in NO_TIMES)
