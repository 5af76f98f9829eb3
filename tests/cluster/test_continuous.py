"""Continuous mode: one application follows a table, and the time from commit to search is told."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from icdc_operator.cluster.runs.renewals import FROZEN_SECONDS
from icdc_testing.real_cluster import latency
from icdc_testing.real_cluster.host import cgroups, programs
from icdc_testing.real_cluster.host.layout import FIRST
from icdc_testing.real_cluster.shop import RUN_SECONDS, Resource, Shop, make_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


def plan(site: Shop) -> tuple[float, dict[str, Any]]:
    """Ask as a person does what the next batch would do; return the seconds, and the answer."""
    began = time.monotonic()
    icdc = Path(sys.executable).with_name("icdc")
    done = subprocess.run(
        [icdc, "plan", site.name, "-n", site.namespace, "-o", "json"],
        env={**os.environ, "KUBECONFIG": str(site.cluster.kubectl.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return time.monotonic() - began, answer


def list_processes(pod: str) -> list[int]:
    """Return the processes of a pod on the first node, by the name that they know of it."""
    found = []
    for pid in cgroups.list_processes(FIRST):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"POD_NAME={pod}".encode() in variables:
                found.append(pid)
    return found


def test_many_commits_are_followed_by_one_application(
    shop: Callable[..., Shop], record_property: Callable[[str, object], None]
) -> None:
    site = shop("continuous")
    table = latency.create_table(site)
    changelog = {"trigger": "Continuous", "pollIntervalSeconds": 1}
    # Far more than this executor has memory for: 512 MiB of heap, and as much as it needs beside.
    bulk = {"maxBytes": 104_857_600, "maxInFlight": 32}
    target = {"hosts": [site.cluster.facts["search"]], "bulk": bulk}
    site.apply(
        site.make_resource(
            [site.make_entry("ticks", "id")], changelog=changelog, sink={"opensearch": target}
        )
    )
    site.wait_until_applied(table)
    run = site.wait_until(
        lambda status: status.get("phase") == "Streaming" and "currentRun" in status,
        "the application goes on after the export",
    )["currentRun"]["name"]
    with ThreadPoolExecutor(1) as pool, latency.LatencyWatch(site, table) as watch:
        planned = pool.submit(plan, site)
        watch.commit(latency.COMMITS, apart=1.0)
        delays = watch.measure_delays()
        seconds, answer = planned.result(RUN_SECONDS)
    site.wait_until_applied(table)
    site.assert_equal(table, "id")
    assert site.read_status()["currentRun"]["name"] == run, "one application followed them all"
    (entry,) = answer["tables"]
    # It is about the moment: a batch may be under way.
    assert entry["mode"] in ("Changelog", "Replay", "Idle"), answer
    record_property("measured", f"icdc plan, asked to answered: {seconds:.1f} s")
    executor = site.wait_until_pod_runs("executor", run)
    assert "at a time: 1, not 32 (maxInFlight)" in site.run_kubectl("logs", executor)
    record_property("measured", latency.format_delays("Continuous, commit to search", delays))
    site.run_kubectl("delete", "icdc", site.name)


@pytest.mark.skipif(not os.environ.get("ICDC_SOAK"), reason="ICDC_SOAK waits eleven minutes")
def test_a_driver_that_is_frozen_is_followed_by_another_one(shop: Callable[..., Shop]) -> None:
    site = shop("frozen")
    table = site.create_table("orders", make_rows(1, 200))
    changelog = {"trigger": "Continuous", "pollIntervalSeconds": 1}
    site.apply(site.make_resource([site.make_entry("orders", "id")], changelog=changelog))
    site.wait_until_applied(table)
    driver = site.wait_until_pod_runs("driver", site.read_status()["currentRun"]["name"])
    frozen = list_processes(driver)
    assert frozen, "the driver is found on its node"

    programs.pause(frozen)
    table.append(make_rows(201, 400))

    def is_lost(status: Resource) -> bool:
        runs = status.get("recentRuns", [])
        return any(run.get("failure", {}).get("reason") == "DriverNotResponding" for run in runs)

    site.wait_until(is_lost, "the run is ended", seconds=FROZEN_SECONDS + RUN_SECONDS)
    site.wait_until_applied(table)
    site.assert_equal(table, "id")
    assert not list_processes(driver), "the kubelet has ended what was frozen"
    site.run_kubectl("delete", "icdc", site.name)
