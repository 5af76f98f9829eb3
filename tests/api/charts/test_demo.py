"""What each value of the demo's chart changes in its manifests, and what all its pods have."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from icdc_testing.kube.charts import files
from icdc_testing.kube.charts.files import DEMO
from icdc_testing.kube.charts.helm import Helm, Object, list_changes, nest_values

pytestmark = pytest.mark.api

PARTS = ("lake", "search", "writer")
LOGIN = {f"{part} pod.annotations.checksum/login" for part in ("lake", "writer")}


def list_cases() -> Iterator[tuple[str, Any, set[str]]]:
    """Yield each value with another than its default, and the paths that change with it."""
    for part in PARTS:
        image = {f"{part} container.image"}
        yield f"{part}.image.repository", "mirror.example/image", image
        yield f"{part}.image.tag", "other", image
        yield f"{part}.image.digest", f"sha256:{'1f' * 32}", image
        yield f"{part}.image.pullPolicy", "Always", {f"{part} container.imagePullPolicy"}
        cpu = {"requests": {"cpu": "7m"}}
        yield f"{part}.resources", cpu, {f"{part} container.resources.requests.cpu"}
    yield "lake.accessKey", "me", LOGIN | {"Secret credential", "Secret s3.access-key-id"}
    yield "lake.secretKey", "word", LOGIN | {"Secret credential", "Secret s3.secret-access-key"}
    yield "search.heap", "1g", {"search container.env[OPENSEARCH_JAVA_OPTS].value"}
    user = "pod.securityContext.runAsUser"
    yield "search.podSecurityContext", {"runAsUser": 7}, {f"search {user}"}
    yield "podSecurityContext", {"runAsUser": 7}, {f"lake {user}", f"writer {user}"}
    privileged = {f"{part} container.securityContext.privileged" for part in PARTS}
    yield "securityContext", {"privileged": True}, privileged
    yield "writer.everySeconds", 0.5, {"writer container.args"}
    yield "writer.orders", 200, {"writer container.args"}
    secrets = {f"{part} pod.imagePullSecrets[registry].name" for part in PARTS}
    yield "imagePullSecrets", [{"name": "registry"}], secrets


CASES = list(list_cases())


def render(renderer: Helm, flat: dict[str, Any]) -> list[Object]:
    return renderer.render(DEMO, nest_values(flat), "demo", "lake")


def list_pods(objects: list[Object]) -> dict[str, Any]:
    """Return the pod of each part."""
    deployments = (item for item in objects if item["kind"] == "Deployment")
    return {
        item["metadata"]["name"].removeprefix("demo-"): item["spec"]["template"]["spec"]
        for item in deployments
    }


def shorten(change: str) -> str:
    """Return the path of a change: the part, and the path in its pod or container."""
    path = re.split(r": | [-+]= ", change)[0]
    for pattern, short in (
        (r"^Secret \S+ stringData\.", "Secret "),
        (r"^Deployment lake/demo-(\w+) spec\.template\.(?:spec|metadata)\.", r"\1 pod."),
        (r"pod\.containers\[\w+\]", "container"),
    ):
        path = re.sub(pattern, short, path)
    return path


@pytest.mark.parametrize(("path", "value", "paths"), CASES, ids=[path for path, _, _ in CASES])
def test_a_value_of_the_demo_changes_exactly_this(
    path: str, value: Any, paths: set[str], helm: Helm
) -> None:
    changes = list_changes(render(helm, {}), render(helm, {path: value}))
    assert {shorten(change) for change in changes} == paths


def test_a_label_is_on_every_object_and_pod_of_the_demo(helm: Helm) -> None:
    for item in render(helm, {"commonLabels": {"team": "data"}}):
        assert item["metadata"]["labels"]["team"] == "data"
        if item["kind"] == "Deployment":
            assert item["spec"]["template"]["metadata"]["labels"]["team"] == "data"


def test_every_value_of_the_demo_is_tried() -> None:
    tried = {path for path, _, _ in CASES} | {"commonLabels"}
    assert tried == set(files.list_leaves(files.read_values(DEMO)))


def test_no_pod_of_the_demo_has_a_token_or_a_volume_that_stays(helm: Helm) -> None:
    pods = list_pods(render(helm, {}))
    assert pods.keys() == set(PARTS)
    for pod in pods.values():
        assert pod["automountServiceAccountToken"] is False
        kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
        assert kinds <= {"emptyDir", "configMap", "secret"}


def test_a_million_orders_are_printed_in_digits(helm: Helm) -> None:
    (container,) = list_pods(render(helm, {"writer.orders": 1_000_000}))["writer"]["containers"]
    assert "--orders=1000000" in container["args"]


@pytest.mark.parametrize("path", [*PARTS, *(f"{part}.image" for part in PARTS)])
def test_a_group_of_values_that_is_left_empty_is_named(path: str, helm: Helm) -> None:
    ran = helm.run("template", "x", str(DEMO), values=nest_values({path: None}))
    assert ran.code != 0
    assert f"missing property '{path.rpartition('.')[2]}'" in ran.err
