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
from icdc_operator.cluster.kube import errors, kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.runs.adapter import ClusterAdapter
from icdc_testing.kube import rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.rights import Right
from icdc_testing.kube.stored_pipelines import minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, carry_out, report_of
from icdc_testing.operator.deciding.pipelines import caught_up
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

EXPORT, CHANGELOG = "shop-e1-1", "shop-c2-1"

ELSEWHERE = {
    ("icebergcdc.dev", "icebergcdcpipelines", "patch"): "finalizers: deletionPolicy DeleteIndices",
}
"""Rights that this story does not come to, with the story that does."""

SECONDS = 120.0

Start = Callable[..., OperatorProcess]


def status(cluster: SteppedCluster) -> PipelineStatus:
    return parse_status(cluster.pipelines.get("shop").get("status") or {})


def one_run_ends_and_the_next_is_stopped(
    cluster: SteppedCluster, operator: OperatorProcess
) -> None:
    """Play the whole life of two runs, until nothing of the first is left."""
    cluster.pipelines.apply(minimal(history={"successful": 0, "failed": 0}))
    operator.until(lambda: cluster.names("sparkapplication") == [EXPORT], "the run is created")
    cluster.start_driver(EXPORT)
    run = status(cluster).current_run
    assert run is not None
    cluster.report(EXPORT, report_of(run, caught_up("shop.orders"), finished=True))
    cluster.pod_state(EXPORT, "Succeeded", {"terminated": {"exitCode": 0}})
    operator.until(lambda: status(cluster).last_run is not None, "the run has ended")
    changed = ("patch", "icdc", "shop", "--type=merge", "-p")
    cluster.pipelines.ok(*changed, '{"spec": {"restartNonce": 1}}')
    operator.until(lambda: CHANGELOG in cluster.names("sparkapplication"), "the next is created")
    cluster.start_driver(CHANGELOG)
    cluster.pipelines.ok(*changed, '{"spec": {"suspend": true}}')
    pod = cluster.pipelines
    deletion = ("get", "pod", f"{CHANGELOG}-driver", "-o", "jsonpath={.metadata.deletionTimestamp}")
    operator.until(lambda: bool(pod.ok(*deletion)), "it is asked to end")
    cluster.pod_state(CHANGELOG, "Succeeded", {"terminated": {"exitCode": 0}})
    operator.until(lambda: status(cluster).holds(ConditionType.SUSPENDED), "it has ended")
    operator.until(lambda: cluster.names("configmap") == [CHANGELOG], "the first is forgotten")


async def a_name_has_passed_to_another(api: ClusterApi, namespace: str) -> None:
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
    one_run_ends_and_the_next_is_stopped(cluster, operator)
    assert operator.end() == 0
    SteppedCluster(account, cluster.pipelines).ask(
        lambda api: a_name_has_passed_to_another(api, namespace)
    )
    granted = rights.rights(rights.OPERATOR, rights.LEASE)
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


def without(right: Right) -> list[rights.Rule]:
    rules = rights.rules(rights.OPERATOR)
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
            with contextlib.suppress(errors.Denied):
                await carry_out(adapter, seen)


@pytest.mark.parametrize("right", LACKING, ids=" ".join)
def test_a_right_that_lacks_is_named_in_the_status_as_a_rule(
    right: Right, cluster: SteppedCluster, account: Path
) -> None:
    operator = SteppedCluster(account, cluster.pipelines)
    cluster.pipelines.apply(minimal())
    if right[2] == "delete":
        operator.step()
        operator.step()
        cluster.pipelines.ok("patch", "icdc", "shop", "--type=merge", "-p", SUSPEND)
    rights.grant(cluster.pipelines, "operator", without(right))
    asks = ("auth", "can-i", right[2], ".".join(filter(None, (right[1], right[0]))))
    whom = f"--as=system:serviceaccount:{cluster.pipelines.namespace}:operator"
    wait.until(lambda: cluster.pipelines.run(*asks, whom).code != 0, "the right is taken away")
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
    rights.grant(cluster.pipelines, "operator", rights.rules(rights.OPERATOR))
    wait.until(lambda: _goes_on(operator), "it goes on once the right is there")


def _goes_on(operator: SteppedCluster) -> bool:
    seen = operator.observe().observed
    return seen.denied is None and not seen.blind
