"""How the operator does with many pipelines on a real API server. `make bench-operator`.

Prints one JSON object: time until all were looked at, memory, requests per second at rest (without
the watches themselves), and reconciles while somebody keeps changing pipelines. Pipelines are
suspended: what is measured is the operator, no run. Bounded in count and time; loopback only.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import support_operator
import support_rules
import support_wait
from icdc_api import crd
from support_kube import KubeApi
from support_kube_pipelines import Pipelines, minimal
from support_operator import OperatorProcess

ROOT = Path(__file__).parents[1]
APPLICATIONS = ROOT / "api" / "adapter" / "sparkapplications.yaml"
DONE = 'icdc_reconciles_total{result="done"}'
CHURN_THREADS = 2


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--idle-seconds", type=float, default=60.0)
    parser.add_argument("--churn-seconds", type=float, default=180.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        kube = stack.enter_context(KubeApi(crds=[crd.COMMITTED, APPLICATIONS]))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="icdc-bench-")))
        namespace = stack.enter_context(kube.namespace())
        pipelines = Pipelines(kube.kubectl, namespace)
        _create(pipelines, options.pipelines)
        account = _account(kube, pipelines)
        measured = _measured(account, folder, pipelines, options)
    sys.stdout.write(json.dumps({**_machine(), **measured}, indent=1) + "\n")


def _create(pipelines: Pipelines, count: int) -> None:
    items = [minimal(f"shop-{number}", suspend=True) for number in range(count)]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    pipelines.ok("create", "-f", "-", stdin=json.dumps(listed))


def _account(kube: KubeApi, pipelines: Pipelines) -> Path:
    """An operator has the rights that the chart gives, here too."""
    support_rules.account(pipelines, "operator", support_rules.OPERATOR)
    return kube.kubeconfig_for(pipelines.namespace, "operator")


def _measured(
    account: Path, folder: Path, pipelines: Pipelines, options: argparse.Namespace
) -> dict[str, Any]:
    count: int = options.pipelines
    started = time.monotonic()
    arguments = ["--namespace", pipelines.namespace]
    with support_operator.running(account, folder, "operator", arguments) as operator:
        operator.until(lambda: operator.metric(DONE) >= count, "all are seen", seconds=600.0)
        first = time.monotonic() - started
        _wait_for_rest(operator)
        resting = {"rss_mb": _rss_mb(operator), **_idle(operator, options.idle_seconds)}
        churned = _churned(operator, pipelines, count, options.churn_seconds)
        _wait_for_rest(operator)
        after = _rss_mb(operator)
    return {
        "pipelines": count,
        "first_look_at_all_seconds": round(first, 1),
        "at_rest": resting,
        "churn": {**churned, "rss_mb_afterwards": after},
    }


def _wait_for_rest(operator: OperatorProcess) -> None:
    """Until two counts of requests a few seconds apart are equal."""
    seen = [-1.0]

    def rests() -> bool:
        before, seen[0] = seen[0], _requests(operator)
        return seen[0] == before

    support_wait.until(rests, "the operator rests", seconds=120.0, pause=3.0)


def _idle(operator: OperatorProcess, seconds: float) -> dict[str, float]:
    before, started = _requests(operator), time.monotonic()
    time.sleep(seconds)  # what happens while nothing is asked for is what is measured
    took = time.monotonic() - started
    return {
        "seconds": round(took, 1),
        "requests_per_second": round((_requests(operator) - before) / took, 3),
    }


def _churned(
    operator: OperatorProcess, pipelines: Pipelines, count: int, seconds: float
) -> dict[str, Any]:
    """Raises nonces of one pipeline after the other for so long."""
    before = _buckets(operator)
    changed = [0] * CHURN_THREADS
    end = time.monotonic() + seconds

    def work(thread: int) -> None:
        number = thread
        while time.monotonic() < end:
            patch = json.dumps({"spec": {"restartNonce": 1 + changed[thread]}})
            name = f"shop-{number % count}"
            pipelines.ok("patch", "icdc", name, "--type=merge", "-p", patch)
            changed[thread] += 1
            number += CHURN_THREADS

    threads = [threading.Thread(target=work, args=(each,)) for each in range(CHURN_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = _buckets(operator)
    looks = {bound: after[bound] - before.get(bound, 0.0) for bound in after}
    return {
        "seconds": seconds,
        "changes": sum(changed),
        "looks": looks[float("inf")],
        "reconcile_p99_seconds_at_most": _quantile(looks, 0.99),
    }


def _buckets(operator: OperatorProcess) -> dict[float, float]:
    """Looks that took at most so many seconds."""
    _, text = operator.ask("metrics", "/metrics")
    found = {}
    for line in text.splitlines():
        if line.startswith('icdc_reconcile_seconds_bucket{le="'):
            bound, _, value = line.removeprefix('icdc_reconcile_seconds_bucket{le="').partition('"')
            found[float(bound)] = float(value.removeprefix("}"))
    return found


def _quantile(looks: dict[float, float], share: float) -> float | None:
    wanted = share * looks[float("inf")]
    found = min((bound for bound, count in looks.items() if count >= wanted), default=None)
    return None if found is None or found == float("inf") else found


def _requests(operator: OperatorProcess) -> float:
    _, text = operator.ask("metrics", "/metrics")
    samples = [line for line in text.splitlines() if line.startswith("icdc_api_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in samples)


def _rss_mb(operator: OperatorProcess) -> float:
    status = Path(f"/proc/{operator.pid}/status").read_text(encoding="utf-8")
    (line,) = [each for each in status.splitlines() if each.startswith("VmRSS:")]
    return round(int(line.split()[1]) / 1024, 1)


def _machine() -> dict[str, Any]:
    return {
        "machine": f"{os.cpu_count()} cores, {platform.platform()}",
        "python": platform.python_version(),
        "kopf": importlib.metadata.version("kopf"),
        "kubernetes": importlib.metadata.version("kubernetes"),
    }


if __name__ == "__main__":
    main()
