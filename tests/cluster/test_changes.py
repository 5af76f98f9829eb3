"""What a person changes while an application follows a table: tables, a pause, a wish to go on."""

from collections.abc import Callable

import pytest
from pyiceberg.table import Table

from icdc_testing.kube.charts import gitops
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.real_cluster.shop import Resource, Shop, rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


def following(shop: Shop) -> str:
    """Return the name of the application that follows the tables, once it does."""
    status = shop.until(
        lambda status: (
            status.get("phase") == "Streaming"
            and status.get("currentRun", {}).get("state") == "Running"
        ),
        "an application follows the tables",
    )
    return str(status["currentRun"]["name"])


def wait_for_end(shop: Shop, run: str) -> Resource:
    """Return the record of a run that has ended, from the status."""
    by_name = {run_record["name"]: run_record for run_record in shop.status()["recentRuns"]}
    record: Resource = by_name[run]
    return record


def is_suspended(status: Resource) -> bool:
    """True once the pipeline is paused as its spec asks, and no run is left."""
    conditions = {
        condition["type"]: condition["status"] for condition in status.get("conditions", [])
    }
    return conditions.get("Suspended") == "True" and not status.get("currentRun")


def add_a_table(site: Shop, orders: Table, resource: Resource) -> Table:
    """Add a table while the application runs: only that table is exported."""
    first, before, index = following(site), site.documents(orders), site.physical_index(orders)
    customers = site.table("customers", rows(1, 50, name=lambda n: f"customer {n}"))
    resource["spec"]["tables"].append(site.entry("customers", "id"))
    site.apply(resource)
    # It comes while one application ends and the next one starts.
    orders.append(rows(301, 310, state=lambda n: "late"))
    site.until_applied(orders, customers)
    site.assert_equal(orders, "id")
    site.assert_equal(customers, "id")
    assert wait_for_end(site, first)["state"] == "Succeeded", "the application ends in order"
    assert site.physical_index(orders) == index
    after = site.documents(orders)
    assert {name: after[name] for name in before} == before, "no document is written again"
    return customers


def test_a_table_is_added_and_a_pause_made_while_an_application_runs(
    shop: Callable[..., Shop],
) -> None:
    site = shop("changes")
    orders = site.table("orders", rows(1, 300, state=lambda n: "new"))
    changelog = {"trigger": "Continuous", "pollIntervalSeconds": 1}
    resource = site.resource([site.entry("orders", "id")], changelog=changelog)
    site.apply(resource)
    site.until_applied(orders)
    add_a_table(site, orders, resource)

    run = following(site)
    site.patch(suspend=True)
    status = site.until(is_suspended, "the pipeline is suspended")
    assert status["lastRun"]["name"] == run
    assert status["lastRun"]["state"] == "Succeeded", "the application ends in order"
    assert gitops.check_agreement(site.now()) == Verdict.CURRENT
    assert " Suspended " in site.kubectl("get", "icdc", site.name)
    orders.delete("id <= 20")
    orders.append(rows(1001, 1020, state=lambda n: "after"))

    site.patch(suspend=False)
    site.until_applied(orders)
    site.assert_equal(orders, "id")
    now = site.status()["currentRun"]
    assert now["sequence"] == status["lastRun"]["sequence"] + 1, "nothing ran in the pause"
    site.kubectl("delete", "icdc", site.name)
