"""The rights that the chart gives the operator: enough, none too many, and named where they lack.

What was asked for is read from the audit log of the API server.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.runs.adapter import ClusterAdapter
from icdc_testing.kube import rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.rights import Right
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, carry_out, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

EXPORT, CHANGELOG = "shop-e1-1", "shop-c2-1"

ELSEWHERE = {
    ("icebergcdc.dev", "icebergcdcpipelines", "patch"): "finalizers: deletionPolicy DeleteIndices",
}
"""Rights that this story does not come to, with the story that does."""

SECONDS = 120.0

Start = Callable[..., OperatorProcess]


def read_status(cluster: SteppedCluster) -> PipelineStatus:
    return parse_status(cluster.pipelines.get("shop").get("status") or {})


def play_two_runs(cluster: SteppedCluster, operator: OperatorProcess) -> None:
    """Play the whole life of two runs, until nothing of the first is left."""
    cluster.pipelines.apply(make_minimal(history={"successful": 0, "failed": 0}))
    operator.wait_until(
        lambda: cluster.list_names("sparkapplication") == [EXPORT], "the run is created"
    )
    cluster.start_driver(EXPORT)
    run = read_status(cluster).current_run
    assert run is not None
    cluster.report(EXPORT, make_report(run, make_caught_up("shop.orders"), finished=True))
    cluster.write_pod_state(EXPORT, "Succeeded", {"terminated": {"exitCode": 0}})
    operator.wait_until(lambda: read_status(cluster).last_run is not None, "the run has ended")
    changed = ("patch", "icdc", "shop", "--type=merge", "-p")
    cluster.pipelines.run_ok(*changed, '{"spec": {"restartNonce": 1}}')
    operator.wait_until(
        lambda: CHANGELOG in cluster.list_names("sparkapplication"), "the next is created"
    )
    cluster.start_driver(CHANGELOG)
    cluster.pipelines.run_ok(*changed, '{"spec": {"suspend": true}}')
    pod = cluster.pipelines
    deletion = ("get", "pod", f"{CHANGELOG}-driver", "-o", "jsonpath={.metadata.deletionTimestamp}")
    operator.wait_until(lambda: bool(pod.run_ok(*deletion)), "it is asked to end")
    cluster.write_pod_state(CHANGELOG, "Succeeded", {"terminated": {"exitCode": 0}})
    operator.wait_until(lambda: read_status(cluster).holds(ConditionType.SUSPENDED), "it has ended")
    operator.wait_until(
        lambda: cluster.list_names("configmap") == [CHANGELOG], "the first is forgotten"
    )


async def delete_by_old_uid(api: ClusterApi, namespace: str) -> None:
    """Delete by the uid of an object whose name another one has by now."""
    for kind, name in ((kinds.APPLICATION, CHANGELOG), (kinds.POD, f"{CHANGELOG}-driver")):
        await api.delete(kind, namespace, name, uid="of-the-one-before")


def test_the_operator_needs_each_right_and_no_other(
    cluster: SteppedCluster, start: Start, kube: KubeApi, account: Path
) -> None:
    if not kube.is_audited:
        pytest.skip("a given cluster keeps its audit log to itself")
    namespace = cluster.pipelines.namespace
    operator = start("operator", "--leader-elect")
    play_two_runs(cluster, operator)
    assert operator.end() == 0
    SteppedCluster(account, cluster.pipelines).ask(lambda api: delete_by_old_uid(api, namespace))
    granted = rights.list_rights(rights.OPERATOR, rights.LEASE)
    asked = kube.list_requests(namespace, "operator")
    assert set(asked) <= granted
    assert not [right for right, codes in asked.items() if 403 in codes]
    assert granted - set(asked) <= set(ELSEWHERE)


LACKING = [
    ("sparkoperator.k8s.io", "sparkapplications", "list"),
    ("", "pods", "list"),
    ("", "configmaps", "create"),
    ("sparkoperator.k8s.io", "sparkapplications", "create"),
    ("sparkoperator.k8s.io", "sparkapplications", "delete"),
]
SUSPEND = '{"spec": {"suspend": true}}'


def list_rules_without(right: Right) -> list[rights.Rule]:
    rules = rights.read_rules(rights.OPERATOR)
    for rule in rules:
        if (*rule["apiGroups"], *rule["resources"]) == right[:2]:
            rule["verbs"].remove(right[2])
    return rules


async def stall_in_the_end(adapter: ClusterAdapter, namespace: str) -> PipelineStatus:
    """Return the status in which looks leave the pipeline, once a person must act."""
    async with asyncio.timeout(SECONDS):
        while True:
            seen = await adapter.observe(namespace, "shop")
            assert seen is not None
            if seen.observed.status.holds(ConditionType.STALLED):
                return seen.observed.status
            with contextlib.suppress(api_errors.Denied):
                await carry_out(adapter, seen)


@pytest.mark.parametrize("right", LACKING, ids=" ".join)
def test_a_right_that_lacks_is_named_in_the_status_as_a_rule(
    right: Right, cluster: SteppedCluster, account: Path
) -> None:
    operator = SteppedCluster(account, cluster.pipelines)
    cluster.pipelines.apply(make_minimal())
    if right[2] == "delete":
        operator.step()
        operator.step()
        cluster.pipelines.run_ok("patch", "icdc", "shop", "--type=merge", "-p", SUSPEND)
    rights.grant(cluster.pipelines, "operator", list_rules_without(right))
    asks = ("auth", "can-i", right[2], ".".join(filter(None, (right[1], right[0]))))
    whom = f"--as=system:serviceaccount:{cluster.pipelines.namespace}:operator"
    wait.wait_until(lambda: cluster.pipelines.run(*asks, whom).code != 0, "the right is taken away")
    left = operator.adapt(lambda shop: stall_in_the_end(shop, cluster.pipelines.namespace))
    stalled, ready = (
        left.find_condition(kind) for kind in (ConditionType.STALLED, ConditionType.READY)
    )
    assert stalled is not None
    assert ready is not None
    group, resource, verb = right
    rule = f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'
    assert (stalled.reason, rule in stalled.message) == ("Denied", True), stalled.message
    assert "action required: the platform engineer" in stalled.message
    assert (ready.status, ready.reason) == ("False", "Denied")
    rights.grant(cluster.pipelines, "operator", rights.read_rules(rights.OPERATOR))
    wait.wait_until(lambda: _goes_on(operator), "it goes on once the right is there")


def _goes_on(operator: SteppedCluster) -> bool:
    seen = operator.observe().observed
    return seen.denied is None and not seen.blind
