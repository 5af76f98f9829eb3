"""What a person changes while an application follows a table: tables, a pause, a wish to go on."""

from collections.abc import Callable

import pytest
from pyiceberg.table import Table

from icdc_testing.kube.charts import gitops
from icdc_testing.kube.kstatus import Verdict
from icdc_testing.real_cluster.shop import Resource, Shop, make_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


def wait_for_following(shop: Shop) -> str:
    """Return the name of the application that follows the tables, once it does."""
    status = shop.wait_until(
        lambda status: (
            status.get("phase") == "Streaming"
            and status.get("currentRun", {}).get("state") == "Running"
        ),
        "an application follows the tables",
    )
    return str(status["currentRun"]["name"])


def wait_for_end(shop: Shop, run: str) -> Resource:
    """Return the record of a run that has ended, from the status."""
    by_name = {run_record["name"]: run_record for run_record in shop.read_status()["recentRuns"]}
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
    first, before, index = (
        wait_for_following(site),
        site.read_documents(orders),
        site.find_physical_index(orders),
    )
    customers = site.create_table("customers", make_rows(1, 50, name=lambda n: f"customer {n}"))
    resource["spec"]["tables"].append(site.make_entry("customers", "id"))
    site.apply(resource)
    # It comes while one application ends and the next one starts.
    orders.append(make_rows(301, 310, state=lambda n: "late"))
    site.wait_until_applied(orders, customers)
    site.assert_equal(orders, "id")
    site.assert_equal(customers, "id")
    assert wait_for_end(site, first)["state"] == "Succeeded", "the application ends in order"
    assert site.find_physical_index(orders) == index
    after = site.read_documents(orders)
    assert {name: after[name] for name in before} == before, "no document is written again"
    return customers


def test_a_table_is_added_and_a_pause_made_while_an_application_runs(
    shop: Callable[..., Shop],
) -> None:
    site = shop("changes")
    orders = site.create_table("orders", make_rows(1, 300, state=lambda n: "new"))
    changelog = {"trigger": "Continuous", "pollIntervalSeconds": 1}
    resource = site.make_resource([site.make_entry("orders", "id")], changelog=changelog)
    site.apply(resource)
    site.wait_until_applied(orders)
    add_a_table(site, orders, resource)

    run = wait_for_following(site)
    site.patch(suspend=True)
    status = site.wait_until(is_suspended, "the pipeline is suspended")
    assert status["lastRun"]["name"] == run
    assert status["lastRun"]["state"] == "Succeeded", "the application ends in order"
    assert gitops.check_agreement(site.read_pipeline()) == Verdict.CURRENT
    assert " Suspended " in site.run_kubectl("get", "icdc", site.name)
    orders.delete("id <= 20")
    orders.append(make_rows(1001, 1020, state=lambda n: "after"))

    site.patch(suspend=False)
    site.wait_until_applied(orders)
    site.assert_equal(orders, "id")
    now = site.read_status()["currentRun"]
    assert now["sequence"] == status["lastRun"]["sequence"] + 1, "nothing ran in the pause"
    site.run_kubectl("delete", "icdc", site.name)
