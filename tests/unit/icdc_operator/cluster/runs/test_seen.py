"""What spark-operator and pods show, and what is made of it: the recorded states, one by one."""

import copy
from datetime import timedelta
from typing import Any

import pytest

from icdc_api.errors import Bug, FailureClass, OutOfMemory, SourceUnavailable
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure
from icdc_operator.cluster.runs import seen
from icdc_operator.cluster.runs.memory import Memory
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.objects import (
    EPOCH,
    NOW,
    OWNER,
    RUN_ID,
    Resource,
    build_only_run,
    go_back,
    make_application,
    make_pod,
    make_running,
    make_termination,
)

pytestmark = pytest.mark.unit


def make_report(*, finished: bool = False, run_id: str = RUN_ID, **more: Any) -> RunReport:
    return RunReport(run_id=run_id, started_at=NOW, updated_at=NOW, finished=finished, **more)


# State of the SparkApplication, what there is of a driver pod, the phase, whether it may write.
STATES = [
    ("", None, RunPhase.PENDING, False),
    ("SUBMITTED", None, RunPhase.PENDING, False),
    ("", make_pod("Pending"), RunPhase.PENDING, True),
    ("SUBMITTED", make_pod("Pending"), RunPhase.PENDING, True),
    ("SUBMITTED", make_pod("Running", state=make_running()), RunPhase.RUNNING, True),
    ("RUNNING", make_pod("Running", state=make_running()), RunPhase.RUNNING, True),
    ("UNKNOWN", make_pod("Unknown", state=make_running()), RunPhase.RUNNING, True),
    # FAILED while its driver works: spark-operator was restarted between two of its steps.
    ("FAILED", make_pod("Running", state=make_running()), RunPhase.RUNNING, True),
    ("SUBMISSION_FAILED", make_pod("Running", state=make_running()), RunPhase.RUNNING, True),
    ("COMPLETED", make_pod("Running", state=make_running()), RunPhase.RUNNING, True),
    ("RUNNING", make_pod("Failed", state=make_termination(1)), RunPhase.FAILED, False),
    ("SUCCEEDING", make_pod("Succeeded", state=make_termination(0)), RunPhase.SUCCEEDED, False),
    ("COMPLETED", make_pod("Succeeded", state=make_termination(0)), RunPhase.SUCCEEDED, False),
    # A sidecar goes on although the driver has ended.
    ("RUNNING", make_pod("Running", state=make_termination(0)), RunPhase.SUCCEEDED, False),
    ("RUNNING", None, RunPhase.MISSING, False),
    ("FAILING", None, RunPhase.MISSING, False),
    ("FAILED", None, RunPhase.MISSING, False),
    ("COMPLETED", None, RunPhase.MISSING, False),
    ("SUSPENDED", None, RunPhase.FAILED, False),
    # Somebody edited the run: spark-operator makes another driver of it.
    ("INVALIDATING", make_pod("Failed", state=make_termination(143)), RunPhase.PENDING, False),
    ("PENDING_RERUN", None, RunPhase.PENDING, False),
]


@pytest.mark.parametrize(("state", "pod", "phase", "writes"), STATES)
def test_a_pod_goes_before_what_spark_operator_says(
    state: str, pod: Resource | None, phase: RunPhase, writes: bool
) -> None:
    run = build_only_run(make_application(state), *([] if pod is None else [pod]))
    assert (run.phase, run.writer_alive) == (phase, writes)
    assert run.live == (writes or phase == RunPhase.PENDING)


def test_a_driver_without_its_application_is_a_run() -> None:
    run = build_only_run(make_pod("Running", state=make_running(), report=make_report()))
    assert run.live
    assert run.report == make_report()
    assert run.report_bytes == len(report_text.to_annotation(make_report()))


def test_a_report_that_is_finished_goes_before_an_exit_code() -> None:
    good = make_pod("Failed", state=make_termination(143), report=make_report(finished=True))
    run = build_only_run(
        make_application("FAILED", "driver container failed with ExitCode: 143"), good
    )
    assert (run.phase, run.failure) == (RunPhase.SUCCEEDED, None)
    outcome = Failure.of(SourceUnavailable("down"))
    finished = make_report(finished=True, outcome=outcome)
    run = build_only_run(make_pod("Succeeded", state=make_termination(0), report=finished))
    assert (run.phase, run.report) == (RunPhase.FAILED, finished)


def test_a_driver_pod_that_is_gone_may_have_succeeded() -> None:
    lost = make_application("FAILED", "driver pod not found")
    assert build_only_run(lost).phase == RunPhase.MISSING
    last = make_pod("Succeeded", state=make_termination(0), report=make_report(finished=True))
    assert build_only_run(lost, remembered=last).phase == RunPhase.SUCCEEDED


def test_a_termination_message_finishes_a_report_that_was_not_updated() -> None:
    message = report_text.to_termination_message(make_report(finished=True))
    run = build_only_run(
        make_pod("Succeeded", state=make_termination(0, message=message), report=make_report())
    )
    assert run.report == make_report(finished=True)
    run = build_only_run(make_pod("Succeeded", state=make_termination(0, message=message)))
    assert (run.phase, run.failure) == (RunPhase.SUCCEEDED, None)


def test_words_of_another_attempt_do_not_count() -> None:
    other = make_report(finished=True, run_id="shop-e1-1.999")
    message = report_text.to_termination_message(other)
    run = build_only_run(
        make_pod("Failed", state=make_termination(1, message=message), report=other)
    )
    assert run.report is None
    assert run.failure is not None


def test_a_report_that_cannot_be_read_is_said() -> None:
    pod = make_pod("Succeeded", state=make_termination(0))
    pod["metadata"]["annotations"][report_text.ANNOTATION_REPORT] = "rubbish"
    run = build_only_run(pod)
    assert run.failure is not None
    assert run.failure.reason == "ReportUnreadable"


@pytest.mark.parametrize(
    "seen_as", [FailureClass.BUG, FailureClass.NODE_LOST, FailureClass.SUBMISSION]
)
def test_a_driver_that_cannot_know_why_it_failed_is_told_by_its_pod(seen_as: FailureClass) -> None:
    blind = Failure.of(OutOfMemory("")).model_copy(update={"failure_class": seen_as})
    pod = make_pod(
        "Failed",
        state=make_termination(137, "OOMKilled"),
        report=make_report(finished=True, outcome=blind),
    )
    run = build_only_run(pod)
    assert run.report is not None
    assert run.report.outcome is not None
    assert run.report.outcome.failure_class == FailureClass.OUT_OF_MEMORY


@pytest.mark.parametrize(("seconds", "reason"), [(10, "SIGTERM"), (300, "Bug")])
def test_what_ends_a_driver_that_lives_on_after_its_outcome_is_not_its_cause(
    seconds: int, reason: str
) -> None:
    """Else a driver that hangs at its end, and is ended for that, would be a lost node."""
    reported_at = NOW - timedelta(seconds=seconds)
    report = make_report(finished=True, outcome=Failure.of(Bug("the JVM does not answer")))
    report = report.model_copy(update={"updated_at": reported_at})
    run = build_only_run(make_pod("Failed", state=make_termination(143), report=report))
    assert run.report is not None
    assert run.report.outcome is not None
    assert run.report.outcome.reason == reason


def test_attempts_of_one_name_are_told_apart_by_their_epoch() -> None:
    old = make_pod("Running", state=make_running(), epoch=999)
    runs = seen.build_runs(seen.group_by_attempt("shop", [make_application()], [old]), now=NOW)
    assert {(run.epoch, run.writer_alive) for run in runs} == {(EPOCH, False), (999, True)}


def test_a_pod_with_an_epoch_that_is_no_number_of_ours_stops_nobody() -> None:
    strange = make_pod("Running", state=make_running())
    strange["metadata"]["annotations"]["icebergcdc.dev/epoch"] = "9" * 5000
    assert build_only_run(make_application("RUNNING"), strange).writer_alive


def test_an_ended_pod_with_such_an_epoch_does_not_replace_one_of_ours() -> None:
    memory = Memory()
    ours = make_pod("Succeeded", state=make_termination(0))
    strange = copy.deepcopy(ours)
    strange["metadata"]["annotations"]["icebergcdc.dev/epoch"] = "9" * 5000
    for pod in (ours, strange):
        memory.note_pod(pod)
    key = (ours["metadata"]["namespace"], "shop")
    (remembered,) = memory.find_ended_pods(key, RUN_ID).values()
    assert remembered["metadata"]["annotations"]["icebergcdc.dev/epoch"] == str(EPOCH)


def test_a_pod_without_an_epoch_is_of_the_run_whose_name_it_has() -> None:
    pod = make_pod("Running", state=make_running())
    pod["metadata"]["annotations"] = {}
    assert build_only_run(make_application("RUNNING"), pod).writer_alive


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{"apiVersion": "v1", "kind": "Pod", "name": "shop"}],
        [{**OWNER, "name": "other"}],
        [{**OWNER, "apiVersion": "example.com/v1"}],
    ],
)
def test_an_application_of_a_stranger_is_no_run(owners: list[Resource]) -> None:
    stranger = make_application("RUNNING", ownerReferences=owners)
    assert not seen.group_by_attempt("shop", [stranger], [])


def make_volumes(volume: Resource) -> Resource:
    """Return an ended driver pod with that volume."""
    pod = make_pod("Succeeded", state=make_termination(0))
    pod["spec"]["volumes"] = [{"name": "report", "emptyDir": {}}, {"name": "local", **volume}]
    return pod


CLAIM: Resource = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
SIDECAR_RUNS = make_pod("Running", state=make_termination(0))

# State of the SparkApplication, what is left of the driver, whether that takes from others.
LEFT = [
    ("COMPLETED", make_volumes(CLAIM), True),
    ("FAILED", SIDECAR_RUNS, True),
    # spark-operator would record it as failed.
    ("RUNNING", SIDECAR_RUNS, False),
    ("SUCCEEDING", make_volumes(CLAIM), False),
    ("COMPLETED", make_volumes({"hostPath": {"path": "/mnt"}}), False),
    ("COMPLETED", make_pod("Succeeded", state=make_termination(0)), False),
    # It is on its way out.
    (
        "COMPLETED",
        make_pod("Running", state=make_termination(0), deletionTimestamp=go_back(0)),
        False,
    ),
]


@pytest.mark.parametrize(("state", "pod", "holds"), LEFT)
def test_what_is_left_of_a_run_is_told_where_it_takes_from_others(
    state: str, pod: Resource, holds: bool
) -> None:
    run = build_only_run(make_application(state), pod)
    assert (run.live, run.holds) == (False, holds)
