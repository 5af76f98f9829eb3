"""The README's pipeline on a real API server: applied as it stands there, and shown by kubectl."""

from collections.abc import Callable
from pathlib import Path

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import parse_status
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up
from icdc_testing.user_programs import pages

pytestmark = pytest.mark.api

README = Path(__file__).parents[3] / "README.md"
RUN = "shop-e1-1"

Start = Callable[..., OperatorProcess]


def read_block(info: str) -> str:
    (text,) = pages.list_blocks(README, info)
    return text


def drop_ages(shown: str) -> list[list[str]]:
    """Return the cells of each line but the last, which is the age of the pipeline."""
    return [line.split()[:-1] for line in shown.splitlines()]


def test_kubectl_shows_the_readmes_pipeline_as_the_readme_does(
    cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.run_ok("apply", "-f", "-", stdin=read_block("yaml cluster"))
    operator.wait_until(
        lambda: cluster.list_names("sparkapplication") == [RUN], "the run is created"
    )
    cluster.start_driver(RUN)
    run = parse_status(cluster.pipelines.get()["status"]).current_run
    assert run is not None
    table = make_caught_up("shop.orders").model_copy(update={"index": "orders", "lag_seconds": 0})
    cluster.report(RUN, make_report(run, table))
    operator.wait_until(
        lambda: parse_status(cluster.pipelines.get()["status"]).holds(ConditionType.READY),
        "the table is exported",
    )
    command, head, row = read_block("text get").splitlines()
    assert command == "$ kubectl get icdc"
    assert drop_ages(cluster.pipelines.run_ok("get", "icdc")) == drop_ages(f"{head}\n{row}")
