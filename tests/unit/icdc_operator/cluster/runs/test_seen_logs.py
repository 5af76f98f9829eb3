"""Drivers that ended before they could say why: the end of their log does, where it may."""

import pytest

from icdc_api.errors import FailureClass
from icdc_api.job.run_files import RunReport
from icdc_testing.operator.adapter.objects import (
    NOW,
    RUN_ID,
    Resource,
    build_only_run,
    make_application,
    make_pod,
    make_termination,
)

pytestmark = pytest.mark.unit

NO_FILE = (
    "WARN: something else\n/opt/venv/bin/python: can't open file "
    "'/opt/iceberg-cdc-operator/main.py': [Errno 13] Permission denied\n"
)
NO_PYTHON = "error: /usr/bin/python3.12 cannot be started: No such file or directory\n"
ENDINGS = [
    (
        make_pod("Failed", state=make_termination(2, message=NO_FILE)),
        FailureClass.SUBMISSION,
        "DriverNotStarted",
        "the driver did not start (code 2); see spec.spark.image: "
        "/opt/venv/bin/python: can't open file '/opt/iceberg-cdc-operator/main.py': [Errno 13] "
        "Permission denied",
    ),
    (
        make_pod("Failed", state=make_termination(127, message=NO_PYTHON)),
        FailureClass.SUBMISSION,
        "DriverNotStarted",
        f"(code 127); see spec.spark.image: {NO_PYTHON.strip()}",
    ),
    (
        make_pod(
            "Failed", state=make_termination(1, message="x" * 900 + "\nValueError: row 4711\n")
        ),
        FailureClass.BUG,
        "NoOutcome",
        "reported no outcome; read its log: ValueError",
    ),
]


@pytest.mark.parametrize(("pod", "failure_class", "reason", "text"), ENDINGS)
def test_a_driver_that_never_began_is_told_by_the_end_of_its_log(
    pod: Resource, failure_class: FailureClass, reason: str, text: str
) -> None:
    run = build_only_run(make_application("FAILED", "driver container failed"), pod)
    assert run.failure is not None
    assert (run.failure.failure_class, run.failure.reason) == (failure_class, reason)
    assert text in run.failure.message


def test_the_log_of_a_driver_that_had_begun_is_not_quoted() -> None:
    pod = make_pod(
        "Failed",
        state=make_termination(1, message="ValueError: row 4711"),
        report=RunReport(run_id=RUN_ID, started_at=NOW, updated_at=NOW),
    )
    run = build_only_run(make_application("FAILED", "driver container failed"), pod)
    assert run.failure is not None
    assert "reported no outcome; read its log" in run.failure.message
    assert "4711" not in run.failure.message


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("/bin/sh: 1: /opt/venv/bin/python: not found", True),
        ("/opt/entrypoint.sh: line 9: /opt/x: Permission denied", True),
        ("exec /opt/entrypoint.sh: exec format error", True),
        ("ModuleNotFoundError: No module named 'icdc_spark'", True),
        ("/opt/venv/bin/python: No module named icdc_spark.process", True),
        ("Error: Could not find or load main class org.apache.spark.deploy.SparkSubmit", True),
        ("Unrecognized VM option 'UseX'", True),
        ("java.lang.NoClassDefFoundError: org/apache/iceberg/Table", True),
        ("24/03/15 INFO TaskSetManager: Lost task: row [4711, not found]", False),
        ("KeyError: '4711'", False),
        ("java.lang.ClassNotFoundException: for 4711: nothing", False),
        ("4711", False),
    ],
)
def test_only_lines_that_no_row_can_be_in_are_quoted(line: str, quoted: bool) -> None:
    pod = make_pod("Failed", state=make_termination(127, message=f"{line}\n"))
    run = build_only_run(make_application("FAILED", "driver container failed"), pod)
    assert run.failure is not None
    assert (line in run.failure.message) is quoted
    assert "4711" not in run.failure.message
