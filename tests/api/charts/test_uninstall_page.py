"""docs/uninstalling.md, walked as it stands there: afterwards the cluster is as it was before.

The API server is this test's own: what the page removes last is the definition of pipelines. No
node runs a pod, so the run that deletes indices is played, as `tests/api/process` does; what such a
run deletes is shown in `tests/spark/pipeline/runs/test_deletion.py`.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from icdc_api.status.pipeline_status import TableStatus, parse_status
from icdc_testing import ROOT
from icdc_testing.kube import binaries, operator_process
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Pipelines, make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.user_programs import pages
from icdc_testing.waiting import wait

pytestmark = [pytest.mark.api, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "uninstalling.md"
SPARK_APPLICATIONS = ROOT / "tests" / "api" / "sparkapplications.yaml"
NAMESPACE, OPERATOR_NAME = "lake", "icdc-iceberg-cdc-operator"
DELETION = "shop-d1-1"
COMMAND_SECONDS = 240.0


@dataclass(frozen=True)
class Administrator:
    """Where somebody types who administers the cluster."""

    environment: dict[str, str]

    def type(self, commands: str) -> str:
        """Run the lines and return what they print."""
        return pages.type_commands(commands, self.environment, seconds=COMMAND_SECONDS)

    def list_everything(self) -> list[str]:
        """Return the name of every object, as the page's check finds them, but for Events."""
        (check,) = pages.list_blocks(PAGE, "sh check")
        lines = self.type(check.partition("| grep")[0]).splitlines()
        return sorted(line for line in lines if not line.startswith("event"))


@pytest.fixture(scope="module")
def kube() -> Iterator[KubeApi]:
    with KubeApi([SPARK_APPLICATIONS], own=True) as kube:
        kube.kubectl.run_ok("create", "namespace", NAMESPACE)
        account = ("get", "serviceaccount/default", "-n", NAMESPACE)
        wait.wait_until(lambda: kube.kubectl.run(*account).code == 0, "the namespace is filled")
        yield kube


@pytest.fixture
def administrator(kube: KubeApi, helm: Helm) -> Administrator:
    programs = (helm.program, binaries.ensure_program("kubectl"))
    paths = [*(str(path.parent) for path in programs), os.environ["PATH"]]
    homes = {f"HELM_{name}_HOME": str(helm.home / name) for name in ("CACHE", "CONFIG", "DATA")}
    here = {"PATH": os.pathsep.join(paths), "KUBECONFIG": str(kube.kubeconfig)}
    return Administrator({**os.environ, **homes, **here})


@pytest.fixture
def cluster(kube: KubeApi) -> SteppedCluster:
    return SteppedCluster(kube.kubeconfig, Pipelines(kube.kubectl, NAMESPACE))


def play_deletion(cluster: SteppedCluster, operator: OperatorProcess) -> None:
    """Be the run that deletes the indices."""
    operator.wait_until(
        lambda: DELETION in cluster.list_names("sparkapplication"), "indices are to be deleted"
    )
    cluster.start_driver(DELETION)
    run = parse_status(cluster.pipelines.get()["status"]).current_run
    assert run is not None
    table = TableStatus(name="shop.orders", index="shop.orders", message="orders: all deleted")
    cluster.report(DELETION, make_report(run, table, finished=True))
    cluster.write_pod_state(DELETION, "Succeeded", {"terminated": {"exitCode": 0}})


def test_the_page_removes_every_trace_from_the_cluster(
    kube: KubeApi, helm: Helm, administrator: Administrator, cluster: SteppedCluster, tmp_path: Path
) -> None:
    before = administrator.list_everything()
    pipelines, release, definition = pages.list_blocks(PAGE, "sh uninstall")
    install = ("install", "icdc", str(OPERATOR), "--namespace", NAMESPACE)
    helm.connect(kube.kubeconfig).run_ok(*install, values={"replicaCount": 2})
    account = kube.write_kubeconfig_for(NAMESPACE, OPERATOR_NAME)
    flags = ["--namespace", NAMESPACE, "--leader-elect", f"--lease-name={OPERATOR_NAME}"]
    with operator_process.run_operator(account, tmp_path, "operator", flags) as operator:
        cluster.pipelines.apply(make_minimal(suspend=True))
        with ThreadPoolExecutor(1) as person:
            shown = person.submit(administrator.type, pipelines)
            play_deletion(cluster, operator)
            assert "IndicesDeleted" in shown.result()
    installed = administrator.list_everything()
    assert f"lease.coordination.k8s.io/{OPERATOR_NAME}" in installed
    administrator.type(release)
    administrator.type(definition)
    wait.wait_until(lambda: administrator.list_everything() == before, "it is as before", pause=1.0)
    (check,) = pages.list_blocks(PAGE, "sh check")
    left = administrator.type(check).splitlines()
    assert all(line.startswith("event") for line in left), left
