"""Images from BuildKit, which `docker build` is: operator and driver start and do their work."""

from collections.abc import Callable

import pytest

from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.real_cluster.services import product
from icdc_testing.real_cluster.shop import MODEST, RUN_SECONDS, Shop, make_rows
from icdc_testing.real_cluster.used import UsedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

HOME = "icdc-buildkit"
NAMESPACE = "buildkit"
RELEASE = "buildkit"


@pytest.fixture
def installed_from_buildkit(cluster: UsedCluster, helm: Helm, installed: list[str]) -> None:
    """An operator from those images, for one namespace, beside the one that all tests share."""
    assert installed, "the definition of pipelines is the other release's"
    metadata = {"name": NAMESPACE}
    cluster.apply("default", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    values = product.build_operator_values(cluster.facts["buildkitImages"], [NAMESPACE])
    values["crds"] = {"install": False}
    how = ("-n", HOME, "--create-namespace", "--wait", "--timeout", "7m")
    helm.run_ok("upgrade", "--install", RELEASE, str(OPERATOR), *how, values=values)


@pytest.mark.usefixtures("installed_from_buildkit")
def test_images_that_buildkit_built_export_a_table_and_follow_it(
    shop: Callable[..., Shop], cluster: UsedCluster
) -> None:
    site = shop(namespace=NAMESPACE)
    table = site.create_table("orders", make_rows(1, 300, status=lambda n: "new"))
    resource = site.make_resource([site.make_entry("orders", "id")])
    resource["spec"]["spark"]["conf"] = MODEST
    site.apply(resource)
    site.run_kubectl(
        "wait", "--for=condition=Ready", f"icdc/{site.name}", f"--timeout={RUN_SECONDS}s"
    )
    site.assert_equal(table, "id")

    table.delete("id <= 5")
    table.append(make_rows(301, 310, status=lambda n: "new"))
    site.wait_until_applied(table)
    site.assert_equal(table, "id")

    pods = cluster.kubectl.read_object("get", "pods", "-n", HOME)["items"]
    used = {pod["spec"]["containers"][0]["image"] for pod in pods}
    assert used <= set(cluster.facts["buildkitImages"])
