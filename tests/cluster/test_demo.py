"""`make cluster-demo` on the cluster of the tests: what the README promises of it."""

import os
import subprocess
import sys

import pytest

from icdc_testing import SOURCES
from icdc_testing.real_cluster.demo import NAMESPACE
from icdc_testing.real_cluster.used import CLUSTER, UsedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

SECONDS = 900.0


def test_the_demo_shows_the_operator_at_work_and_leaves_nothing(
    cluster: UsedCluster, installed: list[str]
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "icdc_testing.real_cluster.demo"],
        env={
            **os.environ,
            "PYTHONPATH": SOURCES,
            CLUSTER: str(cluster.kubectl.kubeconfig),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert "Exporting" in ran.stdout
    assert "changes applied:" in ran.stdout
    assert "equal:           yes" in ran.stdout
    there = cluster.kubectl.run_ok(
        "get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name"
    )
    assert not there.strip()
