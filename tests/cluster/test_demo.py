"""`make cluster-demo` on the cluster of the tests: what the README promises of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from real_cluster.demo import NAMESPACE
from real_cluster.used import CLUSTER, UsedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]

SUPPORT = Path(__file__).parents[1] / "support"
SECONDS = 900.0


def test_the_demo_shows_the_operator_at_work_and_leaves_nothing(
    cluster: UsedCluster, installed: list[str]
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "real_cluster.demo"],
        env={
            **os.environ,
            "PYTHONPATH": str(SUPPORT),
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
    there = cluster.kubectl.ok("get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name")
    assert not there.strip()
