"""The whole operator as a process, on a real API server, with no more rights than its Role."""

import json
import signal
import time
from collections.abc import Callable

import pytest

from icdc_api import naming
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import ExportProgress, PipelineStatus, parse_status
from icdc_api.status.runs import RunState
from icdc_operator.cluster.leader import Timing
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

RUN = "shop-e1-1"
OURS = f"{naming.LABEL_MANAGED_BY}={naming.MANAGED_BY}"
HAND_OVER_SECONDS = 30.0
"""From the end of a lease until somebody sees that another one leads, on a busy host."""

Start = Callable[..., OperatorProcess]


def read_status(cluster: SteppedCluster, name: str = "shop") -> PipelineStatus:
    return parse_status(cluster.pipelines.get(name).get("status") or {})


def read_reasons(cluster: SteppedCluster) -> set[str]:
    ours = ("-l", f"{naming.LABEL_PIPELINE}=shop,{OURS}", "-o", "json")
    events = json.loads(cluster.pipelines.run_ok("get", "events.events.k8s.io", *ours))
    return {event["reason"] for event in events["items"]}


def read_holder(cluster: SteppedCluster) -> str:
    leases = json.loads(cluster.pipelines.run_ok("get", "lease", "-l", OURS, "-o", "json"))
    held = [str(item["spec"].get("holderIdentity", "")) for item in leases["items"]]
    return held[0] if held else ""


def test_a_pipeline_gets_its_run_and_the_report_becomes_its_status(
    cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(make_minimal())
    operator.wait_until(
        lambda: cluster.list_names("sparkapplication") == [RUN], "the run is created"
    )
    cluster.start_driver(RUN)
    run = read_status(cluster).current_run
    assert run is not None
    exported = make_caught_up("shop.orders", rows_upserted=5, export=ExportProgress(rows=5))
    cluster.report(RUN, make_report(run, exported))
    operator.wait_until(
        lambda: read_status(cluster).holds(ConditionType.CAUGHT_UP), "it is caught up"
    )
    assert read_status(cluster).tables[0].rows_upserted == 5
    operator.wait_until(lambda: "RunStarted" in read_reasons(cluster), "events are posted")
    assert {"SpecAccepted", "RunPlanned", "ExportStarted", "ExportCompleted"} <= read_reasons(
        cluster
    )
    cluster.report(RUN, make_report(run, make_caught_up("shop.orders"), finished=True))
    cluster.write_pod_state(RUN, "Succeeded", {"terminated": {"exitCode": 0}})
    operator.wait_until(lambda: read_status(cluster).last_run is not None, "the run has ended")
    assert read_status(cluster).holds(ConditionType.READY)


def test_the_process_ends_in_order_and_the_next_one_goes_on(
    cluster: SteppedCluster, start: Start
) -> None:
    first = start("first")
    cluster.pipelines.apply(make_minimal())
    first.wait_until(lambda: bool(cluster.list_names("sparkapplication")), "the run is created")
    assert first.end() == 0
    (before,) = cluster.list_objects("sparkapplication")
    second = start("second")
    second.wait_until(
        lambda: second.read_metric('icdc_reconciles_total{result="done"}') > 2, "it looks"
    )
    assert cluster.list_objects("sparkapplication") == [before]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_end_it_at_any_time(start: Start, number: signal.Signals) -> None:
    operator = start()
    operator.wait_for_log("health on port")
    assert operator.end(number) == 0


def test_probes_and_metrics_tell_how_it_does(cluster: SteppedCluster, start: Start) -> None:
    operator = start()
    cluster.pipelines.apply(make_minimal(suspend=True))
    operator.wait_until(lambda: operator.ask("health", "/readyz")[0] == 200, "it is ready")
    assert operator.ask("health", "/healthz") == (200, "ok\n")
    operator.wait_until(
        lambda: operator.read_metric('icdc_pipelines{phase="Suspended"}') == 1, "it is seen"
    )
    ready = f'icdc_pipeline_condition{{name="shop",namespace="{cluster.pipelines.namespace}"'
    assert operator.read_metric(f'{ready},status="True",type="Ready"}}') == 1
    assert operator.read_metric("icdc_leader") == 1
    watched = 'icdc_watch_events_total{kind="icebergcdcpipelines"}'
    operator.wait_until(lambda: operator.read_metric(watched) >= 1, "the watch has told of it")
    cluster.pipelines.run_ok("delete", "icdc", "shop")
    operator.wait_until(
        lambda: operator.read_metric('icdc_pipelines{phase="Suspended"}') == 0, "it is gone"
    )


def test_a_pipeline_at_rest_is_written_once_and_then_left_alone(
    cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(make_minimal(suspend=True))
    operator.wait_until(
        lambda: read_status(cluster).holds(ConditionType.SUSPENDED), "it is suspended"
    )

    def count_polls() -> float:
        return operator.read_metric('icdc_reconciles_total{result="done"}')

    def is_at_rest() -> bool:
        gauges = ("icdc_queue_depth", "icdc_queue_active")
        return all(operator.read_metric(gauge) == 0 for gauge in gauges)

    # The status is seen before the look that wrote it is counted.
    operator.wait_until(is_at_rest, "nothing is under way")
    settled = count_polls()
    cluster.pipelines.run_ok("annotate", "icdc", "shop", "touched=yes")
    operator.wait_until(lambda: count_polls() > settled, "it looks at a change of others")
    # One for the change; at most one more where its own write was told of before it was done.
    assert count_polls() <= settled + 2
    assert operator.read_metric("icdc_status_writes_total") == 1


def test_a_lease_changes_hands_whether_its_holder_ends_or_dies(
    cluster: SteppedCluster, start: Start, record_property: Callable[[str, object], None]
) -> None:
    first = start("first", "--leader-elect")
    first.wait_for_log("leading as")
    second = start("second", "--leader-elect")
    second.wait_for_log("standing by")
    cluster.pipelines.apply(make_minimal())
    first.wait_until(lambda: bool(cluster.list_names("sparkapplication")), "the first one works")
    assert second.read_metric("icdc_leader") == 0
    assert second.ask("health", "/readyz")[0] == 200
    given_back = take_over(cluster, first, second, signal.SIGTERM)
    second.wait_until(
        lambda: second.read_metric('icdc_reconciles_total{result="done"}') > 0, "it works"
    )
    third = start("third", "--leader-elect")
    third.wait_for_log("standing by")
    expired = take_over(cluster, second, third, signal.SIGKILL)
    lease = Timing()
    # A lease that was given back is free; one that was not is waited out, from its last renewal,
    # which is tried every `retry` seconds.
    assert given_back < lease.lease - lease.retry
    assert lease.lease - lease.renew <= expired <= lease.lease + HAND_OVER_SECONDS
    summary = f"{given_back:.1f} s after SIGTERM, {expired:.1f} s after SIGKILL"
    record_property("tried", f"hand-over with a lease of {lease.lease:.0f} s: {summary}")


def take_over(
    cluster: SteppedCluster, leader: OperatorProcess, other: OperatorProcess, number: signal.Signals
) -> float:
    """End the leader with that signal: seconds until the other one leads."""
    one = read_holder(cluster)
    begun = time.monotonic()
    assert leader.end(number) == (0 if number == signal.SIGTERM else -number)
    other.wait_until(lambda: read_holder(cluster) not in ("", one), "the other one leads")
    seconds = time.monotonic() - begun
    other.wait_until(lambda: other.read_metric("icdc_leader") == 1, "it says so")
    return seconds


def test_a_leader_whose_lease_is_taken_ends_at_once(cluster: SteppedCluster, start: Start) -> None:
    operator = start("first", "--leader-elect")
    operator.wait_for_log("leading as")
    taken = json.dumps({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}})
    cluster.pipelines.run_ok("patch", "lease", "iceberg-cdc-operator", "--type=merge", "-p", taken)
    operator.wait_for_log("another operator holds the lease")
    wait.wait_until(lambda: operator.ended == 1, "it has ended with code 1")
    assert read_holder(cluster) == "somebody"


def test_a_leader_that_was_frozen_past_its_lease_does_nothing_more(
    cluster: SteppedCluster, start: Start
) -> None:
    first = start("first", "--leader-elect")
    first.wait_for_log("leading as")
    second = start("second", "--leader-elect")
    second.wait_for_log("standing by")
    cluster.pipelines.apply(make_minimal())
    first.wait_until(lambda: cluster.list_names("sparkapplication") == [RUN], "the first one works")
    one = read_holder(cluster)
    first.send(signal.SIGSTOP)
    # What it is told of meanwhile waits in its sockets.
    cluster.pipelines.apply(make_minimal(restartNonce=1))
    cluster.pipelines.apply(make_minimal("other"))
    wait.wait_until(lambda: read_holder(cluster) not in ("", one), "the other one leads", pause=0.5)
    # The edit ends the first run, and another one takes its place: nothing changes after that.
    runs = ["other-e1-1", "shop-e2-1"]
    second.wait_until(lambda: cluster.list_names("sparkapplication") == runs, "it works")
    second.wait_until(
        lambda: _read_current_run(cluster) == (runs[1], RunState.SUBMITTED), "it follows the edit"
    )
    before = cluster.list_objects("sparkapplication")
    messages_before = len(first.messages)
    first.send(signal.SIGCONT)
    wait.wait_until(lambda: first.ended == 1, "the first one has ended with code 1")
    assert any("not renewed" in message for message in first.messages[messages_before:])
    assert read_holder(cluster) not in ("", one)
    assert cluster.list_objects("sparkapplication") == before
    assert second.ended is None


def _read_current_run(cluster: SteppedCluster) -> tuple[str, RunState] | None:
    run = read_status(cluster).current_run
    return None if run is None else (run.name, run.state)


def test_missing_rights_are_said_and_gotten_over(cluster: SteppedCluster, start: Start) -> None:
    role = cluster.pipelines.run_ok("get", "rolebinding", "operator", "-o", "json")
    cluster.pipelines.run_ok("delete", "rolebinding", "operator")
    operator = start()
    operator.wait_for_log("forbidden")
    assert operator.ask("health", "/readyz")[0] == 503
    binding = json.loads(role)
    binding["metadata"] = {"name": "operator", "namespace": cluster.pipelines.namespace}
    cluster.pipelines.run_ok("create", "-f", "-", stdin=json.dumps(binding))
    cluster.pipelines.apply(make_minimal())
    operator.wait_until(lambda: bool(cluster.list_names("sparkapplication")), "it works")
