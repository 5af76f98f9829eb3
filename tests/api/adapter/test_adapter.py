"""The adapter on a real API server: whole lives of runs, and every way to be disturbed.

Each step is that of an operator which was started this moment, so nothing that one remembers can
be needed, and has the operator's rights and no more.
"""

import json
from dataclasses import replace
from functools import partial

import pytest

from icdc_api.errors import FailureClass
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunState
from icdc_operator.cluster.kube import api_errors
from icdc_operator.cluster.runs.adapter import ClusterAdapter
from icdc_operator.core.observed import CreateRun, ForgetRun, RunPhase, StopRun
from icdc_testing.kube.stored_pipelines import Resource, make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, carry_out, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

RUN = "shop-e1-1"
GRACE = 120


def plan_first_run(cluster: SteppedCluster) -> CreateRun:
    """Return a pipeline whose first run is recorded and not made yet."""
    cluster.pipelines.apply(make_minimal())
    assert not cluster.step().actions
    run = cluster.observe().observed.status.current_run
    assert run is not None
    assert (run.name, run.state) == (RUN, RunState.PLANNED)
    return CreateRun(run, continuous=False)


def create(cluster: SteppedCluster, action: CreateRun) -> None:
    seen = cluster.observe()
    cluster.adapt(lambda adapter: adapter.act(seen, action))


def read_pod(cluster: SteppedCluster) -> Resource:
    (pod_object,) = cluster.list_objects("pod")
    return pod_object


def _is_empty(cluster: SteppedCluster, kind: str) -> bool:
    return not cluster.list_objects(kind)


def test_a_run_lives_from_its_record_to_its_history(cluster: SteppedCluster) -> None:
    plan_first_run(cluster)
    cluster.step()
    assert cluster.list_names("configmap") == cluster.list_names("sparkapplication") == [RUN]
    assert not cluster.step().actions
    cluster.start_driver(RUN)
    run = cluster.observe().observed.status.current_run
    assert run is not None
    cluster.report(RUN, make_report(run, make_caught_up("shop.orders", rows_upserted=5)))
    status = cluster.step().status
    assert status.current_run is not None
    assert status.current_run.state == RunState.RUNNING
    assert status.tables[0].rows_upserted == 5
    assert status.holds(ConditionType.CAUGHT_UP)
    # What was written is what is read: a status that differs would be written for ever.
    assert cluster.observe().observed.status == status
    last = make_report(run, make_caught_up("shop.orders", rows_upserted=6), finished=True)
    cluster.report(RUN, last)
    cluster.write_pod_state(
        RUN, "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}
    )
    status = cluster.step().status
    assert status.last_run is not None
    assert status.last_run.state == RunState.SUCCEEDED
    assert status.tables[0].rows_upserted == 6
    assert status.holds(ConditionType.READY)


def test_an_operator_that_asks_twice_makes_one_run(cluster: SteppedCluster) -> None:
    action = plan_first_run(cluster)
    create(cluster, action)
    (first,) = cluster.list_objects("sparkapplication")
    create(cluster, action)
    (second,) = cluster.list_objects("sparkapplication")
    assert first == second
    assert [call for call in cluster.counted if call[0] == "create"] == [
        ("create", "configmaps", 201),
        ("create", "sparkapplications", 201),
        ("create", "configmaps", 409),
        ("create", "sparkapplications", 409),
    ]


@pytest.mark.parametrize("kind", ["ConfigMap", "SparkApplication"])
def test_a_name_that_a_stranger_has_fails_the_run_with_words(
    cluster: SteppedCluster, kind: str
) -> None:
    plan_first_run(cluster)
    version = {"ConfigMap": "v1", "SparkApplication": "sparkoperator.k8s.io/v1beta2"}[kind]
    stranger = {"apiVersion": version, "kind": kind, "metadata": {"name": RUN}}
    cluster.pipelines.run_ok("create", "-f", "-", stdin=json.dumps(stranger))

    async def poll_twice(adapter: ClusterAdapter) -> PipelineStatus:
        for _ in range(2):
            seen = await adapter.observe(cluster.pipelines.namespace, "shop")
            assert seen is not None
            decision = await carry_out(adapter, seen)
        return decision.status

    status = cluster.adapt(poll_twice)
    assert status.last_run is not None
    assert status.last_run.failure is not None
    assert status.last_run.failure.reason == "NameTaken"
    assert f"{kind.lower()}/{RUN} exists" in status.last_run.failure.message
    # The stranger's object is as it was, and nothing of ours is left beside it.
    assert not cluster.list_objects("configmap")
    assert not cluster.list_objects("sparkapplication")
    assert cluster.pipelines.run_ok("get", kind, RUN, "-o", "name")


def test_what_a_dropped_record_left_makes_way(cluster: SteppedCluster) -> None:
    action = plan_first_run(cluster)
    old = replace(action, run=action.run.model_copy(update={"epoch": 5, "run_id": f"{RUN}.5"}))
    create(cluster, old)
    for _ in range(2):
        with pytest.raises(
            api_errors.Conflict, match="of an older run still existed and was deleted"
        ):
            create(cluster, action)
    create(cluster, action)
    (made,) = cluster.list_objects("sparkapplication")
    assert made["metadata"]["annotations"]["icebergcdc.dev/run-id"] == action.run.run_id
    # The other way round it is the operator that is behind.
    with pytest.raises(api_errors.Conflict, match="belongs to a newer run"):
        create(cluster, old)


def test_a_run_is_asked_to_end_by_its_driver_and_keeps_its_record(cluster: SteppedCluster) -> None:
    create(cluster, plan_first_run(cluster))
    cluster.start_driver(RUN)
    seen = cluster.observe()
    for _ in range(2):
        cluster.adapt(lambda adapter: adapter.act(seen, StopRun(RUN, graceful=True)))
    assert read_pod(cluster)["metadata"]["deletionGracePeriodSeconds"] == GRACE
    assert cluster.list_names("sparkapplication") == [RUN]
    again = cluster.observe()
    assert again.observed.runs[0].live
    deleted = len([call for call in cluster.counted if call[0] == "delete"])
    cluster.adapt(lambda adapter: adapter.act(again, StopRun(RUN, graceful=True)))
    assert len([call for call in cluster.counted if call[0] == "delete"]) == deleted


def test_a_run_that_shall_end_now_goes_with_its_application(cluster: SteppedCluster) -> None:
    create(cluster, plan_first_run(cluster))
    cluster.start_driver(RUN)
    seen = cluster.observe()
    cluster.adapt(lambda adapter: adapter.act(seen, StopRun(RUN, graceful=True)))
    seen = cluster.observe()
    cluster.adapt(lambda adapter: adapter.act(seen, StopRun(RUN, graceful=False)))
    assert not cluster.list_objects("sparkapplication")
    # No kubelet says that its processes are gone, so the pod is still a writer.
    assert read_pod(cluster)["metadata"]["deletionGracePeriodSeconds"] == 1
    (run,) = cluster.observe().observed.runs
    assert (run.name, run.writer_alive) == (RUN, True)


def test_a_run_without_a_driver_is_stopped_by_its_application(cluster: SteppedCluster) -> None:
    create(cluster, plan_first_run(cluster))
    seen = cluster.observe()
    cluster.adapt(lambda adapter: adapter.act(seen, StopRun(RUN, graceful=True)))
    assert not cluster.list_objects("sparkapplication")


def test_a_forgotten_run_leaves_nothing(cluster: SteppedCluster) -> None:
    create(cluster, plan_first_run(cluster))
    cluster.start_driver(RUN)
    cluster.write_pod_state(RUN, "Failed", {"terminated": {"exitCode": 1, "reason": "Error"}})
    seen = cluster.observe()
    for _ in range(2):
        cluster.adapt(lambda adapter: adapter.act(seen, ForgetRun(RUN)))
    assert not cluster.list_objects("sparkapplication")
    assert not cluster.list_objects("configmap")
    wait.wait_until(lambda: not cluster.list_objects("pod"), "the driver pod is collected")


def test_a_deleted_pipeline_takes_its_runs_with_it(cluster: SteppedCluster) -> None:
    create(cluster, plan_first_run(cluster))
    cluster.pipelines.run_ok("delete", "icdc", "shop")
    assert (
        cluster.adapt(lambda adapter: adapter.observe(cluster.pipelines.namespace, "shop")) is None
    )
    for kind in ("sparkapplication", "configmap"):
        wait.wait_until(partial(_is_empty, cluster, kind), f"{kind} is collected")


def test_runs_of_a_pipeline_that_was_made_anew_are_seen(cluster: SteppedCluster) -> None:
    create(cluster, plan_first_run(cluster))
    cluster.start_driver(RUN)
    cluster.pipelines.run_ok("delete", "icdc", "shop", "--cascade=orphan")
    cluster.pipelines.apply(make_minimal())
    decision = cluster.step()
    # Nothing is planned while the other driver lives.
    assert decision.status.current_run is None
    assert decision.actions == (StopRun(RUN, graceful=False),)


def test_a_driver_that_spark_operator_lost_is_not_doubled(cluster: SteppedCluster) -> None:
    create(cluster, plan_first_run(cluster))
    cluster.start_driver(RUN)
    cluster.say(RUN, "FAILED", "driver pod already exists")
    decision = cluster.step()
    assert not decision.actions
    assert decision.status.current_run is not None
    assert cluster.list_names("sparkapplication") == [RUN]


def test_a_stale_operator_writes_nothing(cluster: SteppedCluster) -> None:
    plan_first_run(cluster)
    before = cluster.observe()
    cluster.pipelines.run_ok("annotate", "icdc", "shop", "touched=yes")
    status = before.observed.status
    with pytest.raises(api_errors.Conflict):
        cluster.adapt(lambda adapter: adapter.save(before, status))
    cluster.pipelines.run_ok("delete", "icdc", "shop")
    with pytest.raises(api_errors.NotFound):
        cluster.adapt(lambda adapter: adapter.save(before, status))


def test_a_template_that_no_run_could_have_is_said_before_a_run(cluster: SteppedCluster) -> None:
    bad = {"driver": {"template": {"spec": {"hostNetwork": True}}}}
    cluster.pipelines.apply(make_minimal(spark=bad))
    status = cluster.step().status
    assert status.current_run is None
    valid = status.find_condition(ConditionType.SPEC_VALID)
    assert valid is not None
    assert valid.message.startswith("spec.spark.driver.template.spec.hostNetwork: True is not")


def test_a_property_that_takes_trust_is_refused_before_a_run(cluster: SteppedCluster) -> None:
    conf = {"spark.jars.packages": "a:b:1"}
    cluster.pipelines.apply(make_minimal(spark={"conf": conf}))
    status = cluster.step().status
    assert status.current_run is None
    valid = status.find_condition(ConditionType.SPEC_VALID)
    assert valid is not None
    assert valid.status == "False"
    assert "spec.spark.conf['spark.jars.packages']: allowed only in trusted" in valid.message


def test_a_run_that_failed_to_be_submitted_says_why(cluster: SteppedCluster) -> None:
    create(cluster, plan_first_run(cluster))
    cluster.say(RUN, "SUBMISSION_FAILED", "failed to submit: Caused by: no such thing")
    status = cluster.step().status
    assert status.last_run is not None
    assert status.last_run.failure is not None
    assert status.last_run.failure.failure_class == FailureClass.SUBMISSION
    assert status.last_run.failure.message.endswith(": no such thing")
    assert status.holds(ConditionType.STALLED)


def test_a_look_costs_three_requests(cluster: SteppedCluster) -> None:
    plan_first_run(cluster)
    cluster.counted.clear()
    seen = cluster.observe()
    assert [call[:2] for call in cluster.counted] == [
        ("get", "icebergcdcpipelines"),
        ("list", "sparkapplications"),
        ("list", "pods"),
    ]
    assert all(run.phase != RunPhase.RUNNING for run in seen.observed.runs)
