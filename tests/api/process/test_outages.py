"""The API server goes away, forgets, or or loses a kind; the operator goes on.

On a control plane of its own, because what is stopped here is shared elsewhere. ICDC_SOAK: the
server is away for ten minutes; otherwise until the operator has failed several times to reach it.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from icdc_api import naming
from icdc_api.crd import generator
from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_api.status.runs import RunState
from icdc_operator.cluster.loop import relist
from icdc_operator.manifests.pods import pod_paths
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Resource, minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, report_of
from icdc_testing.operator.deciding.pipelines import caught_up
from icdc_testing.waiting import wait

from .failing_server import FailingKubeApi

pytestmark = [pytest.mark.api, pytest.mark.timeout(1800)]

SOAK = bool(os.environ.get("ICDC_SOAK"))
AWAY_SECONDS = 600.0 if SOAK else 0.0
FAILED_POLLS = 5
SECONDS = 120.0
SPARK_APPLICATIONS = Path(__file__).parents[1] / "sparkapplications.yaml"

Start = Callable[..., OperatorProcess]


@pytest.fixture
def kube() -> Iterator[FailingKubeApi]:
    """A control plane that may fail; it knows both kinds."""
    with FailingKubeApi(crds=[generator.COMMITTED, SPARK_APPLICATIONS]) as running:
        yield running


@pytest.fixture
def spark_applications(kube: FailingKubeApi) -> None:
    """The server knows them already."""


def quiet(name: str = "shop", **spec: Any) -> Resource:
    """Return a pipeline that has no run unless somebody asks for one."""
    return minimal(name, changelog={"pollIntervalSeconds": 86400}, **spec)


def status(cluster: SteppedCluster, name: str = "shop") -> PipelineStatus:
    return parse_status(cluster.pipelines.get(name).get("status") or {})


def uids(cluster: SteppedCluster) -> dict[str, str]:
    metadata = [application["metadata"] for application in cluster.objects("sparkapplication")]
    return {entry["name"]: entry["uid"] for entry in metadata}


def until(
    operator: OperatorProcess, reached: Callable[[], bool], what: str, *, seconds: float = SECONDS
) -> None:
    """Wait; each look is a kubectl, so not one after the other."""
    wait.until(reached, what, seconds=seconds, pause=0.5)
    assert operator.ended is None, operator.messages[-20:]


def begin(cluster: SteppedCluster, operator: OperatorProcess, run: str) -> None:
    """Wait until the run of that name is created, and let its driver report."""
    name = run.rsplit("-", 2)[0]
    until(operator, lambda: run in cluster.names("sparkapplication"), f"{run} is created")
    cluster.start_driver(run)
    current = status(cluster, name).current_run
    assert current is not None
    cluster.report(run, report_of(current, caught_up()))
    until(operator, lambda: _is_running(cluster, name), f"{run} is seen to run")


def _is_running(cluster: SteppedCluster, name: str) -> bool:
    current = status(cluster, name).current_run
    return current is not None and current.state == RunState.RUNNING


def end(cluster: SteppedCluster, run: str) -> None:
    """Let the driver say its last word and end."""
    current = status(cluster, run.rsplit("-", 2)[0]).current_run
    assert current is not None
    cluster.report(run, report_of(current, caught_up(), finished=True))
    cluster.pod_state(run, "Succeeded", {"terminated": {"exitCode": 0}})


def finish(cluster: SteppedCluster, operator: OperatorProcess, run: str) -> int:
    """Let the run come to a good end; return its epoch."""
    begin(cluster, operator, run)
    end(cluster, run)
    name = run.rsplit("-", 2)[0]
    until(operator, lambda: _ended(cluster, name) == run, f"{run} has ended")
    last = status(cluster, name).last_run
    assert last is not None
    return last.epoch


def _ended(cluster: SteppedCluster, name: str) -> str | None:
    last = status(cluster, name).last_run
    return None if last is None or last.state != RunState.SUCCEEDED else last.name


def restart(cluster: SteppedCluster, name: str = "shop", nonce: int = 1) -> None:
    cluster.pipelines.apply(quiet(name, restartNonce=nonce))


def failures(operator: OperatorProcess) -> int:
    """Count in the log how often the operator could not reach the server."""
    return sum("connect" in message.lower() for message in operator.messages)


def test_an_api_server_that_is_away_ends_no_run_and_loses_no_report(
    kube: FailingKubeApi, cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    for name in ("idle", "exporting", "ending"):
        cluster.pipelines.apply(quiet(name))
    finish(cluster, operator, "idle-e1-1")
    begin(cluster, operator, "exporting-e1-1")
    begin(cluster, operator, "ending-e1-1")
    before = uids(cluster)
    # The last report is written, and nobody has read it when the server goes.
    operator.send(signal.SIGSTOP)
    end(cluster, "ending-e1-1")
    assert _ended(cluster, "ending") is None
    with kube.away():
        failed, begun = failures(operator), time.monotonic()
        operator.send(signal.SIGCONT)
        operator.until(
            lambda: (
                failures(operator) >= failed + FAILED_POLLS
                and time.monotonic() - begun >= AWAY_SECONDS
            ),
            "it has failed to reach the server",
            seconds=AWAY_SECONDS + SECONDS,
        )
    until(
        operator,
        lambda: _ended(cluster, "ending") == "ending-e1-1",
        "the report is read",
    )
    assert uids(cluster) == before, "no run was lost, and none was made"
    assert _is_running(cluster, "exporting")
    restart(cluster, "idle")
    until(
        operator,
        lambda: "idle-c2-1" in cluster.names("sparkapplication"),
        "it hears of edits again",
    )
    end(cluster, "exporting-e1-1")
    until(operator, lambda: _ended(cluster, "exporting") == "exporting-e1-1", "it ends well")


def test_a_store_that_was_restored_is_followed_by_a_run_that_fences_what_it_forgot(
    kube: FailingKubeApi, cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(quiet())
    finish(cluster, operator, "shop-e1-1")
    copy = kube.copy_store()
    restart(cluster)
    forgotten = finish(cluster, operator, "shop-c2-1")
    restart(cluster, nonce=2)
    begin(cluster, operator, "shop-c3-1")
    current = status(cluster).current_run
    assert current is not None
    kube.restore_store(copy)
    assert cluster.names("sparkapplication") == ["shop-e1-1"]
    restart(cluster)
    until(
        operator,
        lambda: "shop-c2-1" in cluster.names("sparkapplication"),
        "the next run",
        # A watch at a version that the restored server has not reached yet is silent. Then it ends
        # after 90 s, and where that comes late everything is listed anew after 300.
        seconds=relist.PERIOD_SECONDS + SECONDS,
    )
    request = _request(cluster, "shop-c2-1")
    # What is applied is in the state document alone: no run is told where to begin.
    assert not [name for name in request if "snapshot" in name.lower()]
    assert request["epoch"] > max(forgotten, current.epoch)
    if SOAK:
        # Watches ask for what is newer than the lost versions, so lists find the rest: minutes.
        finish(cluster, operator, "shop-c2-1")


def _request(cluster: SteppedCluster, run: str) -> dict[str, Any]:
    (config_map,) = [m for m in cluster.objects("configmap") if m["metadata"]["name"] == run]
    request: dict[str, Any] = json.loads(config_map["data"][pod_paths.REQUEST_KEY])
    return request


def test_a_definition_that_was_deleted_and_restored_is_watched_again(
    kube: FailingKubeApi, cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(quiet())
    epoch = finish(cluster, operator, "shop-e1-1")
    kube.kubectl.ok("delete", "crd", naming.CRD_NAME)
    for kind in ("sparkapplication", "pod"):
        # The next driver has the name of this one.
        wait.until(lambda kind=kind: not cluster.names(kind), f"no {kind} is left")  # type: ignore[misc]
    kube.define(generator.COMMITTED)
    cluster.pipelines.apply(quiet())
    assert finish(cluster, operator, "shop-e1-1") > epoch
