"""The whole operator as a process, on a real API server, with no more rights than its Role."""

import json
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import ExportProgress, PipelineStatus, parse_status
from icdc_api.status.runs import RunState
from icdc_operator.cluster.leader import Timing
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster, report_of
from icdc_testing.operator.deciding.pipelines import caught_up
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

RUN = "shop-e1-1"
HAND_OVER_SECONDS = 30.0
"""From the end of a lease until somebody sees that another one leads, on a busy host."""

Start = Callable[..., OperatorProcess]


def status(cluster: SteppedCluster, name: str = "shop") -> PipelineStatus:
    return parse_status(cluster.pipelines.get(name).get("status") or {})


def reasons(cluster: SteppedCluster) -> set[str]:
    events = json.loads(cluster.pipelines.ok("get", "events.events.k8s.io", "-o", "json"))
    return {event["reason"] for event in events["items"]}


def holder(cluster: SteppedCluster) -> str:
    lease: dict[str, Any] = json.loads(cluster.pipelines.ok("get", "lease", "-o", "json"))
    held = [str(item["spec"].get("holderIdentity", "")) for item in lease["items"]]
    return held[0] if held else ""


def test_a_pipeline_gets_its_run_and_the_report_becomes_its_status(
    cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(minimal())
    operator.until(lambda: cluster.names("sparkapplication") == [RUN], "the run is created")
    cluster.start_driver(RUN)
    run = status(cluster).current_run
    assert run is not None
    exported = caught_up("shop.orders", rows_upserted=5, export=ExportProgress(rows=5))
    cluster.report(RUN, report_of(run, exported))
    operator.until(lambda: status(cluster).holds(ConditionType.CAUGHT_UP), "it is caught up")
    assert status(cluster).tables[0].rows_upserted == 5
    operator.until(lambda: "RunStarted" in reasons(cluster), "events are posted")
    assert {"SpecAccepted", "RunPlanned", "ExportCompleted"} <= reasons(cluster)
    cluster.report(RUN, report_of(run, caught_up("shop.orders"), finished=True))
    cluster.pod_state(RUN, "Succeeded", {"terminated": {"exitCode": 0}})
    operator.until(lambda: status(cluster).last_run is not None, "the run has ended")
    assert status(cluster).holds(ConditionType.READY)


def test_the_process_ends_in_order_and_the_next_one_goes_on(
    cluster: SteppedCluster, start: Start
) -> None:
    first = start("first")
    cluster.pipelines.apply(minimal())
    first.until(lambda: bool(cluster.names("sparkapplication")), "the run is created")
    assert first.end() == 0
    (before,) = cluster.objects("sparkapplication")
    second = start("second")
    second.until(lambda: second.metric('icdc_reconciles_total{result="done"}') > 2, "it looks")
    assert cluster.objects("sparkapplication") == [before]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_end_it_at_any_time(start: Start, number: signal.Signals) -> None:
    operator = start()
    operator.says("health on port")
    assert operator.end(number) == 0


def test_probes_and_metrics_tell_how_it_does(cluster: SteppedCluster, start: Start) -> None:
    operator = start()
    cluster.pipelines.apply(minimal(suspend=True))
    operator.until(lambda: operator.ask("health", "/readyz")[0] == 200, "it is ready")
    assert operator.ask("health", "/healthz") == (200, "ok\n")
    operator.until(lambda: operator.metric('icdc_pipelines{phase="Suspended"}') == 1, "it is seen")
    ready = f'icdc_pipeline_condition{{name="shop",namespace="{cluster.pipelines.namespace}"'
    assert operator.metric(f'{ready},type="Ready"}}') == 1
    assert operator.metric("icdc_leader") == 1
    watched = 'icdc_watch_events_total{kind="icebergcdcpipelines"}'
    operator.until(lambda: operator.metric(watched) >= 1, "the watch has told of it")
    cluster.pipelines.ok("delete", "icdc", "shop")
    operator.until(lambda: operator.metric('icdc_pipelines{phase="Suspended"}') == 0, "it is gone")


def test_a_pipeline_at_rest_is_written_once_and_then_left_alone(
    cluster: SteppedCluster, start: Start
) -> None:
    operator = start()
    cluster.pipelines.apply(minimal(suspend=True))
    operator.until(lambda: status(cluster).holds(ConditionType.SUSPENDED), "it is suspended")

    def polls() -> float:
        return operator.metric('icdc_reconciles_total{result="done"}')

    def at_rest() -> bool:
        gauges = ("icdc_queue_depth", "icdc_queue_active")
        return all(operator.metric(gauge) == 0 for gauge in gauges)

    # The status is seen before the look that wrote it is counted.
    operator.until(at_rest, "nothing is under way")
    settled = polls()
    cluster.pipelines.ok("annotate", "icdc", "shop", "touched=yes")
    operator.until(lambda: polls() > settled, "it looks at a change of others")
    # One for the change; at most one more where its own write was told of before it was done.
    assert polls() <= settled + 2
    assert operator.metric("icdc_status_writes_total") == 1


def test_a_lease_changes_hands_whether_its_holder_ends_or_dies(
    cluster: SteppedCluster, start: Start, record_property: Callable[[str, object], None]
) -> None:
    first = start("first", "--leader-elect")
    first.says("leading as")
    second = start("second", "--leader-elect")
    second.says("standing by")
    cluster.pipelines.apply(minimal())
    first.until(lambda: bool(cluster.names("sparkapplication")), "the first one works")
    assert second.metric("icdc_leader") == 0
    assert second.ask("health", "/readyz")[0] == 200
    given_back = take_over(cluster, first, second, signal.SIGTERM)
    second.until(lambda: second.metric('icdc_reconciles_total{result="done"}') > 0, "it works")
    third = start("third", "--leader-elect")
    third.says("standing by")
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
    one = holder(cluster)
    begun = time.monotonic()
    assert leader.end(number) == (0 if number == signal.SIGTERM else -number)
    other.until(lambda: holder(cluster) not in ("", one), "the other one leads")
    seconds = time.monotonic() - begun
    other.until(lambda: other.metric("icdc_leader") == 1, "it says so")
    return seconds


def test_a_leader_whose_lease_is_taken_ends_at_once(cluster: SteppedCluster, start: Start) -> None:
    operator = start("first", "--leader-elect")
    operator.says("leading as")
    taken = json.dumps({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}})
    cluster.pipelines.ok("patch", "lease", "iceberg-cdc-operator", "--type=merge", "-p", taken)
    operator.says("another operator holds the lease")
    wait.until(lambda: operator.ended == 1, "it has ended with code 1")
    assert holder(cluster) == "somebody"


def test_a_leader_that_was_frozen_past_its_lease_does_nothing_more(
    cluster: SteppedCluster, start: Start
) -> None:
    first = start("first", "--leader-elect")
    first.says("leading as")
    second = start("second", "--leader-elect")
    second.says("standing by")
    cluster.pipelines.apply(minimal())
    first.until(lambda: cluster.names("sparkapplication") == [RUN], "the first one works")
    one = holder(cluster)
    first.send(signal.SIGSTOP)
    # What it is told of meanwhile waits in its sockets.
    cluster.pipelines.apply(minimal(restartNonce=1))
    cluster.pipelines.apply(minimal("other"))
    wait.until(lambda: holder(cluster) not in ("", one), "the other one leads", pause=0.5)
    # The edit ends the first run, and another one takes its place: nothing changes after that.
    runs = ["other-e1-1", "shop-e2-1"]
    second.until(lambda: cluster.names("sparkapplication") == runs, "it works")
    second.until(lambda: _current(cluster) == (runs[1], RunState.SUBMITTED), "it follows the edit")
    before = cluster.objects("sparkapplication")
    messages_before = len(first.messages)
    first.send(signal.SIGCONT)
    wait.until(lambda: first.ended == 1, "the first one has ended with code 1")
    assert any("not renewed" in message for message in first.messages[messages_before:])
    assert holder(cluster) not in ("", one)
    assert cluster.objects("sparkapplication") == before
    assert second.ended is None


def _current(cluster: SteppedCluster) -> tuple[str, RunState] | None:
    run = status(cluster).current_run
    return None if run is None else (run.name, run.state)


def test_missing_rights_are_said_and_gotten_over(cluster: SteppedCluster, start: Start) -> None:
    role = cluster.pipelines.ok("get", "rolebinding", "operator", "-o", "json")
    cluster.pipelines.ok("delete", "rolebinding", "operator")
    operator = start()
    operator.says("forbidden")
    assert operator.ask("health", "/readyz")[0] == 503
    binding = json.loads(role)
    binding["metadata"] = {"name": "operator", "namespace": cluster.pipelines.namespace}
    cluster.pipelines.ok("create", "-f", "-", stdin=json.dumps(binding))
    cluster.pipelines.apply(minimal())
    operator.until(lambda: bool(cluster.names("sparkapplication")), "it works")
