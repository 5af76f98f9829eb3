"""Templates that spark-operator could not decode are refused before it sees them."""

from typing import Any

import pytest

from icdc_api.spark import Spark
from icdc_operator.manifests import refusals

pytestmark = pytest.mark.unit


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def driver(**container: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "spark-kubernetes-driver", **container}])


CASES = [
    (
        pod(securityContext={"runAsUser": "1000"}),
        "spec.securityContext.runAsUser: text is not allowed: it must be a whole number",
    ),
    (
        driver(securityContext={"capabilities": {"add": "SYS_NICE"}}),
        "spec.containers[0].securityContext.capabilities.add: text is not allowed: it must be a "
        "list of text",
    ),
    (
        driver(resources={"limits": "2"}),
        "spec.containers[0].resources.limits: text is not allowed: it must be a mapping",
    ),
    (
        pod(tolerations=[{"tolerationSeconds": "60"}]),
        "spec.tolerations[0].tolerationSeconds: text is not allowed: it must be a whole number",
    ),
    ({"spec": []}, "spec: a list is not allowed: it must be a mapping"),
    (
        {"metadata": {"labels": {"version": 1.5}}},
        "metadata.labels.version: a number is not allowed: it must be text; put it in quotes",
    ),
    (
        {"metadata": {"annotations": "x"}},
        "metadata.annotations: text is not allowed: it must be a mapping whose values are text",
    ),
    (
        pod(nodeSelector={"gpu": True}),
        "spec.nodeSelector.gpu: true or false is not allowed: it must be text; put it in quotes",
    ),
    (
        pod(terminationGracePeriodSeconds="60"),
        "spec.terminationGracePeriodSeconds: text is not allowed: it must be a whole number",
    ),
    (
        pod(priority=True),
        "spec.priority: true or false is not allowed: it must be a whole number",
    ),
    (pod(hostNetwork="yes"), "spec.hostNetwork: text is not allowed: it must be true or false"),
    (pod(affinity=[]), "spec.affinity: a list is not allowed: it must be a mapping"),
    (
        pod(containers={"a": {}}),
        "spec.containers: a mapping is not allowed: it must be a list of mappings",
    ),
    (pod(tolerations=["x"]), "spec.tolerations[0]: text is not allowed: it must be a mapping"),
    (
        pod(containers=[None]),
        "spec.containers[0]: nothing is not allowed: it must be a mapping",
    ),
    (
        pod(containers=[{"env": []}]),
        "spec.containers[0].name: missing; the field is required",
    ),
    (
        driver(env=[{"name": "PASSWORD", "value": 12345}]),
        "spec.containers[0].env[0].value: a whole number is not allowed: it must be text; "
        "put it in quotes",
    ),
    (driver(args="x"), "spec.containers[0].args: text is not allowed: it must be a list of text"),
    (
        pod(containers=[{"name": "sidecar", "image": "a", "args": ["--port", 80]}]),
        "spec.containers[0].args[1]: a whole number is not allowed: it must be text; "
        "put it in quotes",
    ),
    (
        driver(volumeMounts=[{"name": "a"}]),
        "spec.containers[0].volumeMounts[0].mountPath: missing; the field is required",
    ),
    (
        driver(env=[{"name": "A"}, {"name": "B"}, {"name": "A"}]),
        "spec.containers[0].env: 'A' is not allowed twice: each name is unique",
    ),
    (
        pod(volumes=[{"name": "a"}, {"name": "a"}]),
        "spec.volumes: 'a' is not allowed twice: each name is unique",
    ),
]


@pytest.mark.parametrize(("template", "message"), CASES)
def test_a_value_of_a_wrong_kind_is_refused(template: dict[str, Any], message: str) -> None:
    spark = Spark.model_validate({"driver": {"template": template}})
    assert list(refusals.problems(spark)) == [f"spec.spark.driver.template.{message}"]
