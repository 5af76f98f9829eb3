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
    # Far more than this executor has memory for: 512 MiB of heap, and as much as it needs beside.
    bulk = {"maxBytes": 104_857_600, "maxInFlight": 32}
    target = {"hosts": [site.cluster.facts["search"]], "bulk": bulk}
    site.apply(
        site.resource([site.entry("ticks", "id")], changelog=changelog, sink={"opensearch": target})
    )
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
    executor = site.until_pod_runs("executor", run)
    assert "at a time: 1, not 32 (maxInFlight)" in site.kubectl("logs", executor)
    record_property("measured", latency.format_delays("Continuous, commit to search", delays))
    site.kubectl("delete", "icdc", site.name)
