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
from icdc_testing.kube.stored_pipelines import Resource, make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up
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


def make_quiet(name: str = "shop", **spec: Any) -> Resource:
    """Return a pipeline that has no run unless somebody asks for one."""
    return make_minimal(name, changelog={"pollIntervalSeconds": 86400}, **spec)


def read_status(cluster: SteppedCluster, name: str = "shop") -> PipelineStatus:
    return parse_status(cluster.pipelines.get(name).get("status") or {})


def read_uids(cluster: SteppedCluster) -> dict[str, str]:
    metadata = [application["metadata"] for application in cluster.list_objects("sparkapplication")]
    return {entry["name"]: entry["uid"] for entry in metadata}


def wait_until(
    operator: OperatorProcess, reached: Callable[[], bool], what: str, *, seconds: float = SECONDS
) -> None:
    """Wait; each look is a kubectl, so not one after the other."""
    wait.wait_until(reached, what, seconds=seconds, pause=0.5)
    assert operator.ended is None, operator.messages[-20:]


def begin(cluster: SteppedCluster, operator: OperatorProcess, run: str) -> None:
    """Wait until the run of that name is created, and let its driver report."""
    name = run.rsplit("-", 2)[0]
    wait_until(operator, lambda: run in cluster.list_names("sparkapplication"), f"{run} is created")
    cluster.start_driver(run)
    current = read_status(cluster, name).current_run
    assert current is not None
    cluster.report(run, make_report(current, make_caught_up()))
    wait_until(operator, lambda: _is_running(cluster, name), f"{run} is seen to run")


def _is_running(cluster: SteppedCluster, name: str) -> bool:
    current = read_status(cluster, name).current_run
    return current is not None and current.state == RunState.RUNNING


def end(cluster: SteppedCluster, run: str) -> None:
    """Let the driver say its last word and end."""
    current = read_status(cluster, run.rsplit("-", 2)[0]).current_run
    assert current is not None
    cluster.report(run, make_report(current, make_caught_up(), finished=True))
    cluster.write_pod_state(run, "Succeeded", {"terminated": {"exitCode": 0}})


def finish(cluster: SteppedCluster, operator: OperatorProcess, run: str) -> int:
    """Let the run come to a good end; return its epoch."""
    begin(cluster, operator, run)
    end(cluster, run)
    name = run.rsplit("-", 2)[0]
    wait_until(operator, lambda: _find_ended_run(cluster, name) == run, f"{run} has ended")
    last = read_status(cluster, name).last_run
    assert last is not None
    return last.epoch


def _find_ended_run(cluster: SteppedCluster, name: str) -> str | None:
    last = read_status(cluster, name).last_run
    return None if last is None or last.state != RunState.SUCCEEDED else last.name


def restart(cluster: SteppedCluster, name: str = "shop", nonce: int = 1) -> None:
    cluster.pipelines.apply(make_quiet(name, restartNonce=nonce))


def count_failures(operator: OperatorProcess) -> int:
    """Count in the log how often the operator could not reach the server."""
    return sum("connect" in message.lower() for message in operator.messages)


def test_an_api_server_that_is_away_ends_no_run_and_loses_no_report(
    kube: FailingKubeApi, cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    for name in ("idle", "exporting", "ending"):
        cluster.pipelines.apply(make_quiet(name))
    finish(cluster, operator, "idle-e1-1")
    begin(cluster, operator, "exporting-e1-1")
    begin(cluster, operator, "ending-e1-1")
    before = read_uids(cluster)
    # The last report is written, and nobody has read it when the server goes.
    operator.send(signal.SIGSTOP)
    end(cluster, "ending-e1-1")
    assert _find_ended_run(cluster, "ending") is None
    with kube.interrupt():
        failed, begun = count_failures(operator), time.monotonic()
        operator.send(signal.SIGCONT)
        operator.wait_until(
            lambda: (
                count_failures(operator) >= failed + FAILED_POLLS
                and time.monotonic() - begun >= AWAY_SECONDS
            ),
            "it has failed to reach the server",
            seconds=AWAY_SECONDS + SECONDS,
        )
    wait_until(
        operator,
        lambda: _find_ended_run(cluster, "ending") == "ending-e1-1",
        "the report is read",
    )
    assert read_uids(cluster) == before, "no run was lost, and none was made"
    assert _is_running(cluster, "exporting")
    restart(cluster, "idle")
    wait_until(
        operator,
        lambda: "idle-c2-1" in cluster.list_names("sparkapplication"),
        "it hears of edits again",
    )
    end(cluster, "exporting-e1-1")
    wait_until(
        operator, lambda: _find_ended_run(cluster, "exporting") == "exporting-e1-1", "it ends well"
    )


def test_a_store_that_was_restored_is_followed_by_a_run_that_fences_what_it_forgot(
    kube: FailingKubeApi, cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(make_quiet())
    finish(cluster, operator, "shop-e1-1")
    copy = kube.copy_store()
    restart(cluster)
    forgotten = finish(cluster, operator, "shop-c2-1")
    restart(cluster, nonce=2)
    begin(cluster, operator, "shop-c3-1")
    current = read_status(cluster).current_run
    assert current is not None
    kube.restore_store(copy)
    assert cluster.list_names("sparkapplication") == ["shop-e1-1"]
    restart(cluster)
    wait_until(
        operator,
        lambda: "shop-c2-1" in cluster.list_names("sparkapplication"),
        "the next run",
        # A watch at a version that the restored server has not reached yet is silent. Then it ends
        # after 90 s, and where that comes late everything is listed anew after 300.
        seconds=relist.PERIOD_SECONDS + SECONDS,
    )
    request = _read_request(cluster, "shop-c2-1")
    # What is applied is in the state document alone: no run is told where to begin.
    assert not [name for name in request if "snapshot" in name.lower()]
    assert request["epoch"] > max(forgotten, current.epoch)
    if SOAK:
        # Watches ask for what is newer than the lost versions, so lists find the rest: minutes.
        finish(cluster, operator, "shop-c2-1")


def _read_request(cluster: SteppedCluster, run: str) -> dict[str, Any]:
    (config_map,) = [m for m in cluster.list_objects("configmap") if m["metadata"]["name"] == run]
    request: dict[str, Any] = json.loads(config_map["data"][pod_paths.REQUEST_KEY])
    return request


def test_a_definition_that_was_deleted_and_restored_is_watched_again(
    kube: FailingKubeApi, cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(make_quiet())
    epoch = finish(cluster, operator, "shop-e1-1")
    kube.kubectl.run_ok("delete", "crd", naming.CRD_NAME)
    for kind in ("sparkapplication", "pod"):
        # The next driver has the name of this one.
        wait.wait_until(lambda kind=kind: not cluster.list_names(kind), f"no {kind} is left")  # type: ignore[misc]
    kube.define(generator.COMMITTED)
    cluster.pipelines.apply(make_quiet())
    assert finish(cluster, operator, "shop-e1-1") > epoch
