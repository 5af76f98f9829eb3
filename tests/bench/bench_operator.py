"""How the operator does with many pipelines on a real API server. `make bench-operator`.

Prints one JSON object: time until all were looked at, memory and requests per second while all are
idle (without the watches themselves), then looks and memory while runs of one pipeline after the
other are asked for and go well. Idle means as in daily use: exported, caught up, and followed by
looks at the table in its catalog. Code 1 where the idle operator needs more than it may. Bounded in
count and time; loopback only.
"""

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from icdc_api.crd import generator
from icdc_testing.bench.machine import describe_machine
from icdc_testing.kube import operator_process, rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.waiting import wait
from many_pipelines import Churn, Many

ROOT = Path(__file__).parents[1]
APPLICATIONS = ROOT / "api" / "sparkapplications.yaml"
CHURN_THREADS = 2
SAMPLES = 30
"""Of memory while runs come and go."""

MAX_IDLE_MB = 250.0
MAX_IDLE_REQUESTS = 2.0
"""A second."""


def main() -> int:
    """Measure and prints; 1 where the idle operator needs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipelines", type=int, default=1000)
    parser.add_argument("--poll-seconds", type=int, default=60, help="pollIntervalSeconds of each")
    # Long enough for one list of all, which comes every five minutes.
    parser.add_argument("--idle-seconds", type=float, default=400.0)
    parser.add_argument("--churn-seconds", type=float, default=1800.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        kube = stack.enter_context(KubeApi(crds=[generator.COMMITTED, APPLICATIONS]))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="icdc-bench-")))
        pipelines = Pipelines(kube.kubectl, stack.enter_context(kube.create_namespace()))
        wait.wait_until(
            lambda: pipelines.run("get", "serviceaccount", "default").code == 0, "pods can be made"
        )
        lake = stack.enter_context(closing(HeadLake(folder)))
        many = Many(pipelines, lake, count=options.pipelines, poll_seconds=options.poll_seconds)
        account = _create_account(kube, pipelines)
        flags = ["--namespace", pipelines.namespace]
        started = time.monotonic()
        operator = stack.enter_context(
            operator_process.run_operator(account, folder, "operator", flags)
        )
        measured = _measure(operator, many, options, started)
    sys.stdout.write(
        json.dumps({**describe_machine("kopf", "kubernetes"), **measured}, indent=1) + "\n"
    )
    return 0 if all(measured["idle"]["within"].values()) else 1


def _create_account(kube: KubeApi, pipelines: Pipelines) -> Path:
    """Return the kubeconfig of an account with the rights that the chart gives."""
    rights.create_account(pipelines, "operator", rights.OPERATOR)
    return kube.write_kubeconfig_for(pipelines.namespace, "operator")


def _measure(
    operator: OperatorProcess, many: Many, options: argparse.Namespace, started: float
) -> dict[str, Any]:
    count: int = options.pipelines
    operator.wait_until(
        lambda: _sum_metric(operator, "icdc_pipelines") >= count, "all are seen", seconds=600.0
    )
    first = time.monotonic() - started
    # Each is looked at once more when its table was: then nothing is left to find out.
    read = 'icdc_head_reads_total{result="read"}'
    operator.wait_until(
        lambda: operator.read_metric(read) >= count, "tables are read", seconds=600.0
    )
    _wait_for_rest(operator)
    idle = _measure_idle(operator, options.idle_seconds)
    churn = _churn(operator, many, options.churn_seconds)
    _wait_for_rest(operator)
    return {
        "pipelines": count,
        "poll_seconds": options.poll_seconds,
        "first_look_at_all_seconds": round(first, 1),
        "idle": idle,
        "churn": {**churn, "rss_mb_afterwards": _read_memory_mb(operator)},
    }


def _wait_for_rest(operator: OperatorProcess) -> None:
    """Until two counts of requests a few seconds apart are equal."""
    seen = [-1.0]

    def is_at_rest() -> bool:
        before, seen[0] = seen[0], _sum_metric(operator, "icdc_api_requests_total")
        return seen[0] == before

    wait.wait_until(is_at_rest, "the operator rests", seconds=120.0, pause=3.0)


def _measure_idle(operator: OperatorProcess, seconds: float) -> dict[str, Any]:
    names = ("icdc_api_requests_total", "icdc_reconciles_total", "icdc_head_reads_total")
    before, started = {name: _sum_metric(operator, name) for name in names}, time.monotonic()
    processor = _read_processor_seconds(operator)
    time.sleep(seconds)  # what happens while nothing is asked for is what is measured
    took = time.monotonic() - started
    requests, polls, reads = ((_sum_metric(operator, name) - before[name]) / took for name in names)
    memory = _read_memory_mb(operator)
    return {
        "seconds": round(took, 1),
        "rss_mb": memory,
        "rss_anon_mb": _read_memory_mb(operator, "RssAnon"),
        "requests_per_second": round(requests, 3),
        "looks_per_second": round(polls, 3),
        "table_reads_per_second": round(reads, 3),
        "processor_share": round((_read_processor_seconds(operator) - processor) / took, 3),
        "within": {
            f"rss_mb <= {MAX_IDLE_MB}": memory <= MAX_IDLE_MB,
            f"requests_per_second <= {MAX_IDLE_REQUESTS}": requests <= MAX_IDLE_REQUESTS,
        },
    }


def _churn(operator: OperatorProcess, many: Many, seconds: float) -> dict[str, Any]:
    """Run that are asked for, start, go well and are forgotten, for so long."""
    before = _read_buckets(operator)
    requests = _sum_metric(operator, "icdc_api_requests_total")
    memory = [_read_memory_mb(operator)]
    churn = Churn(many, threads=CHURN_THREADS, seconds=seconds)
    while churn.lasts:
        time.sleep(seconds / SAMPLES)
        memory.append(_read_memory_mb(operator))
    churn.join()
    after = _read_buckets(operator)
    polls = {bound: after[bound] - before.get(bound, 0.0) for bound in after}
    asked = _sum_metric(operator, "icdc_api_requests_total") - requests
    return {
        "seconds": seconds,
        "runs": churn.runs,
        "looks": polls[float("inf")],
        "requests_per_run": round(asked / max(1, churn.runs), 1),
        "reconcile_p99_seconds_at_most": _find_quantile(polls, 0.99),
        "rss_mb": memory,
        # The first half fills caches and pools; what still grows in the second is a leak.
        "rss_mb_growth_in_second_half": round(memory[-1] - memory[len(memory) // 2], 1),
        "failed_looks": _sum_metric(operator, "icdc_reconciles_total", result="failed"),
        "unexpected_errors": _sum_metric(operator, "icdc_unexpected_errors_total"),
    }


def _read_buckets(operator: OperatorProcess) -> dict[float, float]:
    """Look that took at most so many seconds."""
    _, text = operator.ask("metrics", "/metrics")
    buckets = {}
    for line in text.splitlines():
        if line.startswith('icdc_reconcile_seconds_bucket{le="'):
            bound, _, value = line.removeprefix('icdc_reconcile_seconds_bucket{le="').partition('"')
            buckets[float(bound)] = float(value.removeprefix("}"))
    return buckets


def _find_quantile(polls: dict[float, float], share: float) -> float | None:
    wanted = share * polls[float("inf")]
    bound_reached = min((bound for bound, count in polls.items() if count >= wanted), default=None)
    return None if bound_reached is None or bound_reached == float("inf") else bound_reached


def _sum_metric(operator: OperatorProcess, name: str, **labels: str) -> float:
    """Return the sum of a metric over its labels but those that are given."""
    _, text = operator.ask("metrics", "/metrics")
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    samples = [line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(
        float(line.rpartition(" ")[2]) for line in samples if all(word in line for word in wanted)
    )


def _read_memory_mb(operator: OperatorProcess, of: str = "VmRSS") -> float:
    """`RssAnon` is without the pages of libraries, which the kernel can drop."""
    status = Path(f"/proc/{operator.pid}/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith(f"{of}:")]
    return round(int(line.split()[1]) / 1024, 1)


def _read_processor_seconds(operator: OperatorProcess) -> float:
    """Return the processor time of its threads since they began.

    From schedstat, in nanoseconds: the ticks of `stat` miss short work.
    """
    threads = Path(f"/proc/{operator.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="utf-8").split()[0]) for thread in threads) / 1e9


if __name__ == "__main__":
    raise SystemExit(main())
