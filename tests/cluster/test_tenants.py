"""Two namespaces on one spark-operator: what one writes never keeps the other from running."""

from collections.abc import Callable

import pytest

from icdc_testing.operator.deciding.pod_templates import UNREADABLE
from icdc_testing.real_cluster.shop import Resource, Shop, make_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

FOREIGN_USER = {"runAsUser": 1_000_680_000, "runAsGroup": 0, "fsGroup": 1_000_680_000}
"""As a platform chooses it, such as OpenShift: no image knows the name of that user."""


def is_refused(status: Resource) -> bool:
    """True once the operator has refused the spec."""
    conditions = {
        condition["type"]: condition["status"] for condition in status.get("conditions", [])
    }
    return conditions.get("SpecValid") == "False"


def test_templates_that_spark_operator_cannot_decode_stop_nobody_else(
    shop: Callable[..., Shop],
) -> None:
    """One such SparkApplication would keep spark-operator from listing those of all namespaces.

    The healthy one runs as a user whose id its platform chose.
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
    for role in ("driver", "executor"):
        resource["spec"]["spark"][role]["template"] = {"spec": {"securityContext": FOREIGN_USER}}
    healthy.apply(resource)
    healthy.wait_until_applied(table)
    healthy.assert_equal(table, "id")
    for site in bad:
        site.run_kubectl("delete", "icdc", site.name, "--wait=false")
