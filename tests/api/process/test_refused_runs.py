"""Runs that a quota or an admission rule refuses: it is said, and over once nobody refuses them."""

import json
from collections.abc import Callable

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Resource, make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

Start = Callable[..., OperatorProcess]
KIND = "count/sparkapplications.sparkoperator.k8s.io"
RETRY = {"initialSeconds": 1, "maxSeconds": 1}
APPLICATIONS = {
    "apiGroups": ["sparkoperator.k8s.io"],
    "apiVersions": ["*"],
    "resources": ["sparkapplications"],
    "operations": ["CREATE"],
}


def read_status(cluster: SteppedCluster) -> PipelineStatus:
    return parse_status(cluster.pipelines.get("shop").get("status") or {})


def create_quota(cluster: SteppedCluster) -> list[Resource]:
    """No SparkApplication may be created; the controller that counts is played."""
    full = {"hard": {KIND: "0"}, "used": {KIND: "0"}}
    named = {"name": "runs"}
    made = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": named}
    created = [{**made, "spec": {"hard": full["hard"]}}]
    cluster.pipelines.run_ok("create", "-f", "-", stdin=json.dumps(created[0]))
    how = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": full}))
    cluster.pipelines.run_ok("patch", "resourcequota", "runs", *how)
    return created


def create_policy(cluster: SteppedCluster) -> list[Resource]:
    """Return a rule of the API server's own that refuses every run of the namespace."""
    name = f"runs-{cluster.pipelines.namespace}"
    version = "admissionregistration.k8s.io/v1"
    rule = {
        "apiVersion": version,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [APPLICATIONS]},
            "validations": [{"expression": "false", "message": "no runs today"}],
        },
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": cluster.pipelines.namespace}}
    binding = {
        "apiVersion": version,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        },
    }
    return _create(cluster, rule, binding)


def create_webhook(cluster: SteppedCluster) -> list[Resource]:
    """Return a webhook that fails closed, and whose server is away."""
    name = f"runs-{cluster.pipelines.namespace}"
    here = {"matchLabels": {"kubernetes.io/metadata.name": cluster.pipelines.namespace}}
    hook = {
        "name": "runs.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [APPLICATIONS],
        "namespaceSelector": here,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return _create(
        cluster,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        },
    )


def _create(cluster: SteppedCluster, *resources: Resource) -> list[Resource]:
    for resource in resources:
        cluster.pipelines.run_ok("create", "-f", "-", stdin=json.dumps(resource))
    return list(resources)


@pytest.mark.parametrize(
    ("refuse", "said"),
    [
        (create_quota, "exceeded quota"),
        (create_policy, "no runs today"),
        (create_webhook, "failed calling webhook"),
    ],
    ids=["a full quota", "an admission rule", "a webhook that is away"],
)
def test_a_run_that_was_refused_is_created_once_it_may_be(
    cluster: SteppedCluster,
    start: Start,
    refuse: Callable[[SteppedCluster], list[Resource]],
    said: str,
) -> None:
    made = refuse(cluster)
    try:
        _wait_until_in_force(cluster, said)
        operator = start()
        cluster.pipelines.apply(make_minimal(retry=RETRY))
        operator.wait_until(lambda: said in _read_messages(cluster, operator), f"it tells {said!r}")
        assert not cluster.list_names("sparkapplication")
        assert not read_status(cluster).holds(ConditionType.READY)
    finally:
        for resource in made:
            cluster.pipelines.run_ok("delete", "-f", "-", stdin=json.dumps(resource))
    operator.wait_until(
        lambda: bool(cluster.list_names("sparkapplication")), "nobody had to edit anything"
    )


def _read_messages(cluster: SteppedCluster, operator: OperatorProcess) -> str:
    """Return all messages of the conditions and of the log.

    The log too: while a run is tried with the same record, only the log has the reason.
    """
    said = [condition.message or "" for condition in read_status(cluster).conditions]
    return "\n".join([*said, *operator.messages])


def _wait_until_in_force(cluster: SteppedCluster, said: str) -> None:
    """Rules are read by the API server a moment after they are stored."""
    tried = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "tried"},
    }

    def is_refused() -> bool:
        ran = cluster.pipelines.run(
            "create", "--dry-run=server", "-f", "-", stdin=json.dumps(tried)
        )
        return said in ran.err

    wait.wait_until(is_refused, "the rule is in force")
