"""Continuous mode: one application follows a table, and the time from commit to search is told."""

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

from icdc_testing.real_cluster import latency
from icdc_testing.real_cluster.shop import RUN_SECONDS, Shop

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
