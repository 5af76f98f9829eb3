"""OnCommit: a run for what is new. The time from commit to search is told, and that of the pods."""

from collections.abc import Callable
from datetime import datetime

import pytest

from icdc_testing.kube.charts.files import PIPELINES
from icdc_testing.kube.charts.helm import Helm
from icdc_testing.real_cluster import latency
from icdc_testing.real_cluster.shop import RUN_SECONDS, Resource, Shop

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

RELEASE = "ticks"
BURSTS = max(2, latency.COMMITS // 20)


def parse_instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def list_start_seconds(runs: list[Resource]) -> list[float]:
    """Return the seconds of each run from its plan until its driver's pod runs."""
    return [parse_instant(run["startedAt"]) - parse_instant(run["plannedAt"]) for run in runs]


def list_delays_after_start(watch: latency.LatencyWatch, runs: list[Resource]) -> list[float]:
    """From each commit, or the start of the driver that applied it, to its search."""
    began = sorted(parse_instant(run["startedAt"]) for run in runs)
    delivered = watch.wait_for_searches()
    return [
        delivered[number]
        - max(at, *(instant_ for instant_ in began if instant_ <= delivered[number]))
        for number, at in watch.committed.items()
    ]


def test_many_commits_are_followed_by_runs_one_after_the_other(
    shop: Callable[..., Shop], helm: Helm, record_property: Callable[[str, object], None]
) -> None:
    site = shop("on-commit")
    table = latency.create_table(site)
    site.give_credentials()
    resource = site.make_resource(
        [site.make_entry("ticks", "id")], changelog={"pollIntervalSeconds": 1}
    )
    values = {"pipelines": {site.name: resource["spec"]}}
    here = ("-n", site.namespace)
    how = ("--wait", "--timeout", f"{RUN_SECONDS:.0f}s")
    # Helm waits by kstatus: what it calls installed is exported.
    helm.run_ok("install", RELEASE, str(PIPELINES), *here, *how, values=values)
    site.assert_equal(table, "id")
    with latency.LatencyWatch(site, table) as watch:
        for _ in range(BURSTS):
            # A run that meets new commits goes on with them; between bursts each comes to its end.
            watch.commit(latency.COMMITS // BURSTS, apart=0.1)
            site.wait_until_applied(table)
            status = site.wait_until(lambda status: not status.get("currentRun"), "all is quiet")
        delays = watch.measure_delays()
    site.assert_equal(table, "id")
    runs = [record for record in status["recentRuns"] if record["kind"] == "Changelog"]
    assert len(runs) >= BURSTS
    assert {record["state"] for record in runs} == {"Succeeded"}
    record_property("measured", latency.format_delays("OnCommit, commit to search", delays))
    rest = latency.format_delays(
        "OnCommit, commit or start of the driver to search", list_delays_after_start(watch, runs)
    )
    record_property("measured", rest)
    record_property(
        "measured",
        latency.format_delays("OnCommit, plan to running driver", list_start_seconds(runs)),
    )
    helm.run_ok("uninstall", RELEASE, *here)
    site.assert_equal(table, "id")
