"""Continuous mode: one application follows a table, and the time from commit to search is told."""

from collections.abc import Callable

import pytest

from real_cluster import latency
from real_cluster.shop import Shop

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


def test_a_hundred_commits_are_followed_by_one_application(
    shop: Callable[..., Shop], record_property: Callable[[str, object], None]
) -> None:
    site = shop("continuous")
    table = latency.table_of(site)
    changelog = {"trigger": "Continuous", "pollIntervalSeconds": 1}
    site.apply(site.resource([site.entry("ticks", "id")], changelog=changelog))
    site.until_applied(table)
    run = site.until(
        lambda status: status.get("phase") == "Streaming" and "currentRun" in status,
        "the application goes on after the export",
    )["currentRun"]["name"]
    with latency.Watch(site, table) as watch:
        watch.commit(latency.COMMITS, apart=1.0)
        delays = watch.delays()
    site.until_applied(table)
    site.assert_equal(table, "id")
    assert site.status()["currentRun"]["name"] == run, "one application followed them all"
    record_property("measured", latency.format_delays("Continuous, commit to search", delays))
    site.kubectl("delete", "icdc", site.name)
