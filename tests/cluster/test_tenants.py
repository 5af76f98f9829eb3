"""Two namespaces on one spark-operator: what one writes never keeps the other from running."""

import json
from collections.abc import Callable

import pytest

from icdc_testing.operator.deciding.pod_templates import UNREADABLE
from icdc_testing.real_cluster.shop import Resource, Shop, make_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

FOREIGN_USER = {"runAsUser": 1_000_680_000, "runAsGroup": 0, "fsGroup": 1_000_680_000}
"""As a platform chooses it, such as OpenShift: no image knows the name of that user."""


def lock(resource: Resource) -> None:
    """Run the pipeline as a strict platform has it: no path of the node, nothing to write but /tmp,
    a user of its own choice."""
    spark = resource["spec"]["spark"]
    del spark["localVolumes"]
    for role in ("driver", "executor"):
        container = {
            "name": f"spark-kubernetes-{role}",
            "securityContext": {"readOnlyRootFilesystem": True},
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        }
        pod = {
            "securityContext": FOREIGN_USER,
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        }
        spark[role]["template"] = {"spec": pod}


def limit_pods(site: Shop, count: str) -> None:
    """Change how many pods the quota of the pipeline's namespace allows."""
    change = json.dumps({"spec": {"hard": {"pods": count}}})
    site.run_kubectl("patch", "resourcequota", "platform", "--type=merge", "-p", change)


def is_refused(status: Resource) -> bool:
    """True once the operator has refused the spec."""
    conditions = {
        condition["type"]: condition["status"] for condition in status.get("conditions", [])
    }
    return conditions.get("SpecValid") == "False"


def waits_for_quota(status: Resource) -> bool:
    """True once the run says that it has no executor, and what may refuse them."""
    messages = [
        condition.get("message", "")
        for condition in status.get("conditions", [])
        if condition["type"] == "RunActive"
    ]
    return any("waits for executors" in text and "ResourceQuota" in text for text in messages)


def test_templates_that_spark_operator_cannot_decode_stop_nobody_else(
    shop: Callable[..., Shop],
) -> None:
    """One such SparkApplication would keep spark-operator from listing those of all namespaces.

    The namespace of the healthy one is as strict as Kubernetes makes it.
    """
    bad = [shop(f"bad-{number}", "north") for number in range(len(UNREADABLE))]
    for site, (template, _) in zip(bad, UNREADABLE, strict=True):
        resource = site.make_resource([site.make_entry("small", "id")])
        resource["spec"]["spark"]["driver"]["template"] = template
        site.apply(resource)
    for site in bad:
        site.wait_until(is_refused, "SpecValid=False")
    assert bad[0].read_object("get", "sparkapplications")["items"] == []
    healthy = shop("healthy", "south")
    table = healthy.create_table("small", make_rows(1, 20))
    resource = healthy.make_resource([healthy.make_entry("small", "id")])
    lock(resource)
    healthy.apply(resource)
    healthy.wait_until_applied(table)
    healthy.assert_equal(table, "id")
    for site in bad:
        site.run_kubectl("delete", "icdc", site.name, "--wait=false")


def test_a_quota_that_leaves_no_room_for_executors_is_told_and_waited_for(
    shop: Callable[..., Shop],
) -> None:
    """Spark says so in its log alone, and tries again and again."""
    site = shop("narrow", "south")
    table = site.create_table("small", make_rows(1, 20))
    resource = site.make_resource([site.make_entry("small", "id")])
    lock(resource)
    limit_pods(site, "1")
    try:
        site.apply(resource)
        site.wait_until(waits_for_quota, "RunActive says that it waits for executors")
    finally:
        limit_pods(site, "8")
    site.wait_until_applied(table)
    site.assert_equal(table, "id")
    assert site.read_pipeline()["status"]["lastRun"]["attempt"] == 1
