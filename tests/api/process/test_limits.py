"""The whole operator with fewer slots than pipelines: turns, the place of each, and a restart."""

import json
import signal
from collections.abc import Callable

import pytest

from icdc_api import naming
from icdc_api.status.pipeline_status import TableState, parse_status
from icdc_api.status.runs import RunStatus
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import Resource, make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up

pytestmark = pytest.mark.api

NAMES = [f"shop-{number}" for number in range(5)]
LIMIT = 2

Start = Callable[..., OperatorProcess]


def is_reconciled(resource: Resource) -> bool:
    return resource["kind"] == naming.KIND and "status" in resource


class LimitedPipelines:
    """The pipelines, and every look at them compared with the limit."""

    def __init__(self, cluster: SteppedCluster) -> None:
        self._cluster = cluster
        self.ended: set[str] = set()

    def list_active(self) -> dict[str, RunStatus]:
        """Return the runs that are planned or at work, of which there are never too many."""
        text = self._cluster.pipelines.run_ok("get", "icdc,sparkapplications", "-o", "json")
        runs = {}
        self.created: set[str] = set()
        for item in json.loads(text)["items"]:
            run = parse_status(item["status"]).current_run if is_reconciled(item) else None
            if run is not None:
                runs[run.name] = run
            if item["kind"] == "SparkApplication":
                self.created.add(item["metadata"]["name"])
        # One that has ended may still be in the status: it does no work, and the next may begin.
        active = {name: run for name, run in runs.items() if name not in self.ended}
        assert len(active) <= LIMIT
        assert len(self.created - self.ended) <= LIMIT
        return active

    def are_active(self, count: int) -> bool:
        return len(self.list_active().keys() & self.created) == count

    def end_one(self) -> None:
        """Let the run of one export its table and end."""
        name, run = min(self.list_active().items())
        self._cluster.start_driver(name)
        table = make_caught_up().model_copy(update={"state": TableState.COMPLETE})
        self._cluster.report(name, make_report(run, table, finished=True))
        self.ended.add(name)
        self._cluster.write_pod_state(name, "Succeeded", {"terminated": {"exitCode": 0}})


def test_pipelines_take_turns_and_a_restart_keeps_to_the_limit(
    cluster: SteppedCluster, start: Start
) -> None:
    watched = LimitedPipelines(cluster)
    items = [make_minimal(name, mode="ExportOnly") for name in NAMES]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    cluster.pipelines.run_ok("create", "-f", "-", stdin=json.dumps(listed))
    flags = ("--max-active-runs", str(LIMIT))
    operator = start("first", *flags)
    operator.wait_until(lambda: watched.are_active(LIMIT), "as many as may be are at work")
    text = f"queue position 3 of 3: the limit --max-active-runs ({LIMIT}) is reached"
    operator.wait_until(
        lambda: text in cluster.pipelines.run_ok("get", "icdc", "-o", "wide"), "the place is shown"
    )
    assert operator.read_metric("icdc_runs_active") == LIMIT
    assert operator.read_metric("icdc_runs_waiting") == len(NAMES) - LIMIT
    watched.end_one()
    operator.wait_until(lambda: watched.are_active(LIMIT), "the next one has its turn")
    operator.end(signal.SIGKILL)
    watched.end_one()
    operator = start("second", *flags)
    for left in (2, 2, 1):
        operator.wait_until(lambda left=left: watched.are_active(left), f"{left} are at work")
        watched.end_one()
    assert not watched.are_active(1)
    phases = ("get", "icdc", "-o", "jsonpath={.items[*].status.phase}")
    operator.wait_until(
        lambda: set(cluster.pipelines.run_ok(*phases).split()) == {"Complete"}, "all are complete"
    )
    assert watched.created == {f"{name}-e1-1" for name in NAMES}
