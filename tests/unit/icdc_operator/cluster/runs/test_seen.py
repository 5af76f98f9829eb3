"""What spark-operator and pods show, and what is made of it: the recorded states, one by one."""

from typing import Any

import pytest

from icdc_api.errors import FailureClass, OutOfMemory, SourceUnavailable
from icdc_api.job import report_text
from icdc_api.job.run_files import RunReport
from icdc_api.status.runs import Failure
from icdc_operator.cluster.runs import seen
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.objects import (
    EPOCH,
    NOW,
    OWNER,
    RUN_ID,
    Resource,
    driver_pod,
    only_run,
    running,
    spark_application,
    termination,
)

pytestmark = pytest.mark.unit


def report(*, finished: bool = False, run_id: str = RUN_ID, **more: Any) -> RunReport:
    return RunReport(run_id=run_id, started_at=NOW, updated_at=NOW, finished=finished, **more)


# State of the SparkApplication, what there is of a driver pod, the phase, whether it may write.
STATES = [
    ("", None, RunPhase.PENDING, False),
    ("SUBMITTED", None, RunPhase.PENDING, False),
    ("", driver_pod("Pending"), RunPhase.PENDING, True),
    ("SUBMITTED", driver_pod("Pending"), RunPhase.PENDING, True),
    ("SUBMITTED", driver_pod("Running", state=running()), RunPhase.RUNNING, True),
    ("RUNNING", driver_pod("Running", state=running()), RunPhase.RUNNING, True),
    ("UNKNOWN", driver_pod("Unknown", state=running()), RunPhase.RUNNING, True),
    # FAILED while its driver works: spark-operator was restarted between two of its steps.
    ("FAILED", driver_pod("Running", state=running()), RunPhase.RUNNING, True),
    ("SUBMISSION_FAILED", driver_pod("Running", state=running()), RunPhase.RUNNING, True),
    ("COMPLETED", driver_pod("Running", state=running()), RunPhase.RUNNING, True),
    ("RUNNING", driver_pod("Failed", state=termination(1)), RunPhase.FAILED, False),
    ("SUCCEEDING", driver_pod("Succeeded", state=termination(0)), RunPhase.SUCCEEDED, False),
    ("COMPLETED", driver_pod("Succeeded", state=termination(0)), RunPhase.SUCCEEDED, False),
    # A sidecar goes on although the driver has ended.
    ("RUNNING", driver_pod("Running", state=termination(0)), RunPhase.SUCCEEDED, False),
    ("RUNNING", None, RunPhase.MISSING, False),
    ("FAILING", None, RunPhase.MISSING, False),
    ("FAILED", None, RunPhase.MISSING, False),
    ("COMPLETED", None, RunPhase.MISSING, False),
    ("SUSPENDED", None, RunPhase.FAILED, False),
    # Somebody edited the run: spark-operator makes another driver of it.
    ("INVALIDATING", driver_pod("Failed", state=termination(143)), RunPhase.PENDING, False),
    ("PENDING_RERUN", None, RunPhase.PENDING, False),
]


@pytest.mark.parametrize(("state", "pod", "phase", "writes"), STATES)
def test_a_pod_goes_before_what_spark_operator_says(
    state: str, pod: Resource | None, phase: RunPhase, writes: bool
) -> None:
    run = only_run(spark_application(state), *([] if pod is None else [pod]))
    assert (run.phase, run.writer_alive) == (phase, writes)
    assert run.live == (writes or phase == RunPhase.PENDING)


def test_a_driver_without_its_application_is_a_run() -> None:
    run = only_run(driver_pod("Running", state=running(), report=report()))
    assert run.live
    assert run.report == report()
    assert run.report_bytes == len(report_text.to_annotation(report()))


def test_a_report_that_is_finished_goes_before_an_exit_code() -> None:
    good = driver_pod("Failed", state=termination(143), report=report(finished=True))
    run = only_run(spark_application("FAILED", "driver container failed with ExitCode: 143"), good)
    assert (run.phase, run.failure) == (RunPhase.SUCCEEDED, None)
    outcome = Failure.of(SourceUnavailable("down"))
    finished = report(finished=True, outcome=outcome)
    run = only_run(driver_pod("Succeeded", state=termination(0), report=finished))
    assert (run.phase, run.report) == (RunPhase.FAILED, finished)


def test_a_driver_pod_that_is_gone_may_have_succeeded() -> None:
    lost = spark_application("FAILED", "driver pod not found")
    assert only_run(lost).phase == RunPhase.MISSING
    last = driver_pod("Succeeded", state=termination(0), report=report(finished=True))
    assert only_run(lost, remembered=last).phase == RunPhase.SUCCEEDED


def test_a_termination_message_finishes_a_report_that_was_not_updated() -> None:
    message = report_text.to_termination_message(report(finished=True))
    run = only_run(driver_pod("Succeeded", state=termination(0, message=message), report=report()))
    assert run.report == report(finished=True)
    run = only_run(driver_pod("Succeeded", state=termination(0, message=message)))
    assert (run.phase, run.failure) == (RunPhase.SUCCEEDED, None)


def test_words_of_another_attempt_do_not_count() -> None:
    other = report(finished=True, run_id="shop-e1-1.999")
    message = report_text.to_termination_message(other)
    run = only_run(driver_pod("Failed", state=termination(1, message=message), report=other))
    assert run.report is None
    assert run.failure is not None


def test_a_report_that_cannot_be_read_is_said() -> None:
    pod = driver_pod("Succeeded", state=termination(0))
    pod["metadata"]["annotations"][report_text.ANNOTATION_REPORT] = "rubbish"
    run = only_run(pod)
    assert run.failure is not None
    assert run.failure.reason == "ReportUnreadable"


@pytest.mark.parametrize("seen_as", [FailureClass.BUG, FailureClass.NODE_LOST])
def test_a_driver_that_cannot_know_why_it_failed_is_told_by_its_pod(seen_as: FailureClass) -> None:
    blind = Failure.of(OutOfMemory("")).model_copy(update={"failure_class": seen_as})
    pod = driver_pod(
        "Failed",
        state=termination(137, "OOMKilled"),
        report=report(finished=True, outcome=blind),
    )
    run = only_run(pod)
    assert run.report is not None
    assert run.report.outcome is not None
    assert run.report.outcome.failure_class == FailureClass.OUT_OF_MEMORY


def test_attempts_of_one_name_are_told_apart_by_their_epoch() -> None:
    old = driver_pod("Running", state=running(), epoch=999)
    runs = seen.build_runs(seen.group_by_attempt("shop", [spark_application()], [old]), now=NOW)
    assert {(run.epoch, run.writer_alive) for run in runs} == {(EPOCH, False), (999, True)}


def test_a_pod_with_an_epoch_that_is_no_number_of_ours_stops_nobody() -> None:
    strange = driver_pod("Running", state=running())
    strange["metadata"]["annotations"]["icebergcdc.dev/epoch"] = "9" * 5000
    assert only_run(spark_application("RUNNING"), strange).writer_alive


def test_a_pod_without_an_epoch_is_of_the_run_whose_name_it_has() -> None:
    pod = driver_pod("Running", state=running())
    pod["metadata"]["annotations"] = {}
    assert only_run(spark_application("RUNNING"), pod).writer_alive


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
    stranger = spark_application("RUNNING", ownerReferences=owners)
    assert not seen.group_by_attempt("shop", [stranger], [])
