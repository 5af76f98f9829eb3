"""A comparison on a real API server: what its run is asked, and the verdict in the status."""

import json
from typing import Any

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.comparing import make_verdict
from icdc_testing.operator.deciding.pipelines import make_caught_up

pytestmark = pytest.mark.api

TABLE = "shop.orders"


def play_run(cluster: SteppedCluster, name: str, *tables: Any, **report: Any) -> PipelineStatus:
    """Let the run be made, work and end well, each poll by another operator; return the status."""
    cluster.step()
    assert name in cluster.list_names("sparkapplication")
    cluster.start_driver(name)
    run = cluster.step().status.current_run
    assert run is not None
    cluster.report(name, make_report(run, *tables, finished=True, **report))
    cluster.write_pod_state(
        name, "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}
    )
    return cluster.step().status


def test_a_repair_is_asked_of_its_driver_and_its_verdict_is_kept(cluster: SteppedCluster) -> None:
    cluster.pipelines.apply(make_minimal(resync={"nonce": 3, "mode": "Repair", "tables": [TABLE]}))
    cluster.step()
    status = play_run(cluster, "shop-e1-1", make_caught_up(TABLE))
    assert status.current_run is not None
    assert status.current_run.name == "shop-r2-1"
    answer = make_verdict(TABLE, *(f"{n:0512}" for n in range(20)), repaired=20)
    play_run(cluster, "shop-r2-1", result={"tables": [answer]})
    (request,) = [
        json.loads(config_map["data"]["request.json"])
        for config_map in cluster.list_objects("configmap")
        if config_map["metadata"]["name"] == "shop-r2-1"
    ]
    assert (request["mode"], request["tables"], request["continuous"]) == ("repair", [TABLE], False)
    # As the API server has taken it, by the schema of the CRD.
    retained = cluster.observe().observed.status
    assert retained.tables[0].verification is not None
    assert len(retained.tables[0].verification.samples) == 20
    assert retained.observed_triggers is not None
    assert retained.observed_triggers.verified_nonce == 3
    assert [retained.holds(kind) for kind in (ConditionType.VERIFIED, ConditionType.READY)] == [
        True
    ] * 2
    assert not cluster.step().actions
