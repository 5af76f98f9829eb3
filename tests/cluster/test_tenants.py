"""Two namespaces on one spark-operator: what one writes never keeps the other from running.

One of them is as strict as platforms are: restricted pods, a quota, users that no image knows.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.tls import Authority
from icdc_testing.operator.deciding.pod_templates import UNREADABLE
from icdc_testing.real_cluster.host.layout import ADDRESS
from icdc_testing.real_cluster.shop import Resource, Shop, make_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

LOGIN = ("icdc", "of-this-test")
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


@contextmanager
def trust_privately(resource: Resource, site: Shop, folder: Path) -> Iterator[None]:
    """Lead the pipeline to its catalog, store and target by https, with an authority of their own.

    No image and no node knows that authority: the pipeline names a Secret that has it.
    """
    authority = Authority.make(folder)
    served = authority.issue("server", names=[f"IP:{ADDRESS}"]).make_server_context()
    spec = resource["spec"]
    properties, target = spec["catalog"]["properties"], spec["sink"]["opensearch"]
    with ExitStack() as stack:

        def serve(upstream: str, **more: Any) -> str:
            return stack.enter_context(FaultProxy(upstream, tls=served, host=ADDRESS, **more)).url

        properties["uri"] = serve(properties["uri"])
        properties["s3.endpoint"] = serve(properties["s3.endpoint"])
        target["hosts"] = [serve(target["hosts"][0], credentials=LOGIN)]
        trusted = {"tls": {"caFrom": {"secretRef": {"name": "authority"}}}}
        spec["catalog"] |= trusted
        target |= trusted | {"credentialsFrom": {"secretRef": {"name": "login"}}}
        site.give_secret("authority", {"ca.crt": authority.ca.read_text(encoding="utf-8")})
        site.give_secret("login", dict(zip(("username", "password"), LOGIN, strict=True)))
        yield


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
    shop: Callable[..., Shop], tmp_path: Path
) -> None:
    """Spark says so in its log alone, and tries again and again.

    All that driver and executors speak to has certificates of a private authority.
    """
    site = shop("narrow", "south")
    table = site.create_table("small", make_rows(1, 20))
    resource = site.make_resource([site.make_entry("small", "id")])
    lock(resource)
    with trust_privately(resource, site, tmp_path):
        limit_pods(site, "1")
        try:
            site.apply(resource)
            site.wait_until(waits_for_quota, "RunActive says that it waits for executors")
        finally:
            limit_pods(site, "8")
        site.wait_until_applied(table)
    site.assert_equal(table, "id")
    status = site.read_status()
    assert (status.get("currentRun") or status["lastRun"])["attempt"] == 1
