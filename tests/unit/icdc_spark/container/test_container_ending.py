"""The container lives on until the JVM has ended, but not for ever."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark import SparkContext

from icdc_spark.container import ending

pytestmark = pytest.mark.unit


@contextmanager
def _start_process(code: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_what_ends_with_its_input_has_ended_afterwards() -> None:
    with _start_process("import sys; sys.stdin.read(); sys.exit(3)") as process:
        ending.wait_for(process, 60)
        assert process.returncode == 3


def test_what_does_not_end_is_waited_for_no_longer_than_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with _start_process("import signal; signal.pause()") as process:
        ending.wait_for(process, 0.1)
        assert process.poll() is None
        assert "did not end in order" in caplog.text


def test_what_has_ended_before_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    with _start_process("") as process:
        process.wait(60)
        ending.wait_for(process, 60)
        assert not caplog.records


def test_without_a_jvm_there_is_nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # This process may have one, of other tests, which must not end.
    monkeypatch.setattr(SparkContext, "_gateway", None)
    ending.wait_for_jvm()
