"""Deleting a pipeline with its indices on a real API server: whichever way, it goes in the end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_api import naming
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunRequest
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableStatus, parse_status
from icdc_operator.manifests.pods import pod_paths
from icdc_testing.kube import operator_process
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

RUN, DELETION = "shop-e1-1", "shop-d2-1"

Start = Callable[..., OperatorProcess]


def read_status(cluster: SteppedCluster) -> PipelineStatus:
    return parse_status(cluster.pipelines.get().get("status") or {})


def read_finalizers(cluster: SteppedCluster) -> list[str]:
    names: list[str] = cluster.pipelines.get()["metadata"].get("finalizers", [])
    return names


def is_deleted(cluster: SteppedCluster) -> bool:
    return cluster.pipelines.run("get", "icdc", "shop").code != 0


def read_events(cluster: SteppedCluster) -> dict[str, str]:
    listed = json.loads(cluster.pipelines.run_ok("get", "events.events.k8s.io", "-o", "json"))
    return {event["reason"]: event["note"] for event in listed["items"]}


def create_first_run(cluster: SteppedCluster, operator: OperatorProcess) -> None:
    """Apply a pipeline and wait until its first run is created."""
    cluster.pipelines.apply(make_minimal(deletionPolicy="DeleteIndices"))
    operator.wait_until(
        lambda: cluster.list_names("sparkapplication") == [RUN], "the run is created"
    )
    assert read_finalizers(cluster) == [naming.FINALIZER]


def delete(cluster: SteppedCluster, how: str) -> None:
    cluster.pipelines.run_ok("delete", "icdc", "shop", "--wait=false", f"--cascade={how}")


def end_driver(cluster: SteppedCluster, operator: OperatorProcess, run: str) -> None:
    """Delete a driver that was asked to end, as the kubelet does."""

    def has_driver() -> bool:
        pods = cluster.list_objects("pod")
        names = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]]
        return f"{run}-driver" in names

    operator.wait_until(has_driver, f"the driver of {run} is asked to end")
    how = ("--grace-period=0", "--force", "--ignore-not-found")
    cluster.pipelines.run_ok("delete", "pod", f"{run}-driver", *how)


def is_nothing_left(cluster: SteppedCluster) -> bool:
    kinds = ("sparkapplication", "configmap", "pod")
    return not any(cluster.list_objects(kind) for kind in kinds)


@pytest.mark.parametrize("how", ["background", "foreground"])
def test_the_indices_go_before_the_pipeline_however_it_is_deleted(
    how: str, cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    create_first_run(cluster, operator)
    cluster.start_driver(RUN)
    delete(cluster, how)
    end_driver(cluster, operator, RUN)
    operator.wait_until(
        lambda: DELETION in cluster.list_names("sparkapplication"), "it is to be deleted"
    )
    (made,) = [
        config_map
        for config_map in cluster.list_objects("configmap")
        if config_map["metadata"]["name"] == DELETION
    ]
    request = RunRequest.model_validate_json(made["data"][pod_paths.REQUEST_KEY])
    assert request.mode == RunMode.DELETE
    assert "ownerReferences" not in made["metadata"]
    cluster.start_driver(DELETION)
    run = read_status(cluster).current_run
    assert run is not None
    table_status = TableStatus(
        name="shop.orders", index="shop.orders", message="orders: all deleted"
    )
    cluster.report(DELETION, make_report(run, table_status, finished=True))
    cluster.write_pod_state(DELETION, "Succeeded", {"terminated": {"exitCode": 0}})
    operator.wait_until(lambda: is_deleted(cluster), "the pipeline is gone")
    assert read_events(cluster)["IndicesDeleted"] == "orders: all deleted"
    operator.wait_until(lambda: is_nothing_left(cluster), "nothing of it is left")


def test_an_annotation_lets_it_go_while_it_cannot_be_deleted(
    cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(make_minimal(deletionPolicy="DeleteIndices", suspend=True))
    operator.wait_until(lambda: naming.FINALIZER in read_finalizers(cluster), "it is kept")
    delete(cluster, "foreground")
    operator.wait_until(
        lambda: cluster.list_names("sparkapplication") == ["shop-d1-1"], "it begins"
    )
    ready = read_status(cluster).find_condition(ConditionType.READY)
    assert ready is not None
    assert ready.reason == "Deleting"
    cluster.pipelines.run_ok("annotate", "icdc", "shop", f"{naming.ANNOTATION_RETAIN}=true")
    operator.wait_until(lambda: is_deleted(cluster), "the pipeline is gone")
    operator.wait_until(lambda: is_nothing_left(cluster), "nothing of the run is left")
    assert "shop.orders" in read_events(cluster)["IndicesRetained"]


def test_a_namespace_is_not_held_up(cluster: SteppedCluster, kube: KubeApi, tmp_path: Path) -> None:
    # An operator whose rights do not go with the namespace.
    flags = ["--namespace", cluster.pipelines.namespace]
    with operator_process.run_operator(kube.kubeconfig, tmp_path, "operator", flags) as operator:
        create_first_run(cluster, operator)
        kube.kubectl.run_ok("delete", "namespace", cluster.pipelines.namespace, "--wait=false")
        operator.wait_until(lambda: is_deleted(cluster), "the pipeline is gone")
        operator.wait_for_log("IndicesRetained")
        name = cluster.pipelines.namespace
        wait.wait_until(
            lambda: kube.kubectl.run("get", "namespace", name).code != 0, "the namespace is gone"
        )
