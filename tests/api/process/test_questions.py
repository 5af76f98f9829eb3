"""`icdc plan NAME` and `icdc verify NAME` by a person of few rights; the operator is a process.

The driver is played by hand; what a real one answers is tested with Spark.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from icdc_api import naming
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunRequest
from icdc_api.status.pipeline_status import parse_status
from icdc_api.status.runs import RunStatus
from icdc_cli import main
from icdc_operator.manifests.pods import pod_paths
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up
from icdc_testing.waiting.patience import WAIT, ImpatientClock
from icdc_testing.waiting.wait import WAIT_SECONDS

pytestmark = pytest.mark.api

Start = Callable[..., OperatorProcess]
TABLE = {"name": "shop.orders", "index": "shop.orders"}
SOME = ["--table", "shop.orders", "--id", "7"]
LIST, REPLAY = ["dead-letters", "list", *SOME], ["dead-letters", "replay", *SOME]


@dataclass
class AskingCommand:
    """A command that runs beside the test."""

    arguments: list[str]
    code: int | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.code = main.main(self.arguments)

    def wait_for_end(self) -> int | None:
        self.thread.join(WAIT_SECONDS)
        return self.code


def read_current_run(cluster: SteppedCluster) -> RunStatus | None:
    return parse_status(cluster.pipelines.get("shop").get("status") or {}).current_run


def end_well(cluster: SteppedCluster, run: str, **report: Any) -> None:
    """Let the driver of that run say its last words, and end."""
    cluster.start_driver(run)
    record = read_current_run(cluster)
    assert record is not None
    cluster.report(run, make_report(record, make_caught_up("shop.orders"), finished=True, **report))
    cluster.write_pod_state(run, "Succeeded", {"terminated": {"exitCode": 0}})


def read_request(cluster: SteppedCluster, run: str) -> RunRequest:
    (config_map,) = [
        item for item in cluster.list_objects("configmap") if item["metadata"]["name"] == run
    ]
    return RunRequest.model_validate_json(config_map["data"][pod_paths.REQUEST_KEY])


@pytest.mark.parametrize(
    ("arguments", "run", "mode", "entry", "shown"),
    [
        (["plan"], "shop-p2-1", RunMode.PLAN, {"mode": "Changelog", "rows": 7}, "Changelog"),
        (["verify"], "shop-v2-1", RunMode.VERIFY, {"equal": True, "rows": 7}, "yes"),
        (["verify", "--repair"], "shop-r2-1", RunMode.REPAIR, {"equal": True}, "yes"),
        (LIST, "shop-l2-1", RunMode.DEAD_LETTERS, {"letters": [{"id": "7"}]}, "shop.orders   7"),
        (REPLAY, "shop-l2-1", RunMode.REPLAY, {"resent": 1, "left": 0}, "1        0"),
    ],
)
@pytest.mark.usefixtures("person")
def test_a_run_in_the_cluster_answers_under_the_account_of_the_driver(
    arguments: list[str],
    run: str,
    mode: RunMode,
    entry: dict[str, Any],
    shown: str,
    cluster: SteppedCluster,
    start: Start,
    capsys: pytest.CaptureFixture[str],
) -> None:
    operator = start()
    # A paused pipeline answers too, and a Secret that nobody can read is no matter here.
    source = {"propertiesFrom": [{"secretRef": {"name": "lake"}}]}
    catalog = {"properties": {"type": "jdbc"}, **source}
    cluster.pipelines.apply(make_minimal(catalog=catalog))
    operator.wait_until(
        lambda: cluster.list_names("sparkapplication") == ["shop-e1-1"], "it exports"
    )
    end_well(cluster, "shop-e1-1")
    operator.wait_until(lambda: read_current_run(cluster) is None, "it is exported")
    cluster.pipelines.apply(make_minimal(catalog=catalog, suspend=True))
    before = cluster.pipelines.get("shop")["spec"]

    asked = AskingCommand([*arguments, "shop"])
    operator.wait_until(
        lambda: run in cluster.list_names("sparkapplication"), "the question is taken up"
    )
    request = read_request(cluster, run)
    assert (request.mode, request.tables, request.continuous) == (mode, None, False)
    some = mode in (RunMode.DEAD_LETTERS, RunMode.REPLAY)
    assert (request.only, request.ids) == ((("shop.orders",), ("7",)) if some else (None, None))
    (application,) = [
        item for item in cluster.list_objects("sparkapplication") if item["metadata"]["name"] == run
    ]
    assert application["spec"]["driver"]["serviceAccount"] == "icdc-spark"
    if mode in (RunMode.PLAN, RunMode.DEAD_LETTERS):
        allocation = application["spec"]["dynamicAllocation"]
        assert (allocation["minExecutors"], allocation["initialExecutors"]) == (0, 0)
    end_well(cluster, run, result={"tables": [TABLE | entry]})
    assert asked.wait_for_end() == 0, capsys.readouterr().err
    assert shown in capsys.readouterr().out

    after = cluster.pipelines.get("shop")
    assert after["spec"] == before
    assert naming.ANNOTATION_ASK not in (after["metadata"].get("annotations") or {})
    status = parse_status(after["status"])
    assert status.observed_ask is not None
    assert (status.observed_ask.run, status.observed_ask.finished) == (run, True)
    assert status.last_run is not None
    assert status.last_run.name == "shop-e1-1", "a question is no run of the pipeline's own"


@pytest.mark.usefixtures("person")
def test_who_does_not_wait_any_more_ends_the_run(
    cluster: SteppedCluster, start: Start, clock: ImpatientClock
) -> None:
    operator = start()
    cluster.pipelines.apply(make_minimal(suspend=True))
    asked = AskingCommand(["plan", "shop", *WAIT])
    operator.wait_until(
        lambda: "shop-p1-1" in cluster.list_names("sparkapplication"), "it is taken up"
    )
    clock.end_waits()
    assert asked.wait_for_end() == 3
    operator.wait_until(lambda: read_current_run(cluster) is None, "the run is ended")
