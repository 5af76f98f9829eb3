"""The driver's report on its own pod, as the API server takes it from the driver's account."""

import base64
import json
import random

import pytest
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from icdc_api.job import report_text
from icdc_spark.reporting.pod_api import OwnPod
from icdc_testing.kube import rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.stored_pipelines import Pipelines

pytestmark = pytest.mark.api

SECONDS = 20.0


@pytest.fixture
def driver(kube: KubeApi, pipelines: Pipelines) -> OwnPod:
    """A driver with its rights; its pod waits for a node, as there is none."""
    rights.create_account(pipelines, "spark", rights.DRIVER)
    pipelines.run_ok("create", "serviceaccount", "weak")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver", "annotations": {"theirs": "x" * 60_000}},
        "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
    }
    pipelines.run_ok("create", "-f", "-", stdin=json.dumps(pod))
    return make_own_pod(kube, pipelines, "spark")


def make_own_pod(kube: KubeApi, pipelines: Pipelines, account: str) -> OwnPod:
    """Return the pod as that account reaches it."""
    path = str(kube.write_kubeconfig_for(pipelines.namespace, account))

    def configure() -> Configuration:
        configuration = Configuration()
        load_kube_config(config_file=path, client_configuration=configuration)  # type: ignore[no-untyped-call]
        return configuration

    return OwnPod(pipelines.namespace, "driver", configure)


def read_annotations(pipelines: Pipelines) -> dict[str, str]:
    pod = json.loads(pipelines.run_ok("get", "pod", "driver", "-o", "json"))
    annotations_of_pod: dict[str, str] = pod["metadata"]["annotations"]
    return annotations_of_pod


def test_the_largest_report_fits_beside_the_annotations_of_others(
    driver: OwnPod, pipelines: Pipelines
) -> None:
    data = random.Random(1).randbytes(report_text.MAX_ANNOTATION_BYTES * 3 // 4)
    largest = base64.b64encode(data).decode()
    assert len(largest) == report_text.MAX_ANNOTATION_BYTES
    for text in ("first", largest):
        assert driver.annotate(text, SECONDS) is None
        stored = read_annotations(pipelines)
        assert stored[report_text.ANNOTATION_REPORT] == text
        assert len(stored["theirs"]) == 60_000


def test_an_account_without_the_right_is_told_so(
    kube: KubeApi, driver: OwnPod, pipelines: Pipelines
) -> None:
    reason = make_own_pod(kube, pipelines, "weak").annotate("text", SECONDS)
    assert reason is not None
    assert reason.startswith('403 Forbidden pods "driver" is forbidden')
    assert report_text.ANNOTATION_REPORT not in read_annotations(pipelines)


def test_a_pod_that_is_gone_is_said_to_be(driver: OwnPod, pipelines: Pipelines) -> None:
    pipelines.run_ok("delete", "pod", "driver", "--grace-period=0", "--force")
    reason = driver.annotate("text", SECONDS)
    assert reason == '404 Not Found pods "driver" not found'
