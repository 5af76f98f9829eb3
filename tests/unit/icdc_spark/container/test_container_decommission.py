"""Before an executor's container is stopped, its executor hands over its blocks, and ends."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from icdc_spark.container import commands, decommission

pytestmark = pytest.mark.unit

ENDS_WHEN_ASKED = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPWR})
print("ready", flush=True)
signal.sigwait({signal.SIGPWR})
print("asked", flush=True)
sys.stdin.read()
"""

HOOK = """
import pathlib, sys
from icdc_spark.container import decommission
decommission.main(pathlib.Path(sys.argv[1]))
"""


@contextmanager
def _start_process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", ENDS_WHEN_ASKED, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def _make_proc(tmp_path: Path, *processes: "subprocess.Popen[str]") -> Path:
    """Return a /proc of these processes alone, as in a container of their own."""
    (tmp_path / "cpuinfo").touch()
    for process in processes:
        (tmp_path / str(process.pid)).symlink_to(f"/proc/{process.pid}")
    return tmp_path


def test_it_ends_when_the_executor_has_ended_and_not_before(tmp_path: Path) -> None:
    with _start_process(commands.EXECUTOR) as executor, _start_process("other") as other:
        proc = _make_proc(tmp_path, executor, other)
        with subprocess.Popen([sys.executable, "-c", HOOK, str(proc)]) as hook:
            assert executor.stdout is not None
            assert executor.stdout.readline() == "asked\n"
            with pytest.raises(subprocess.TimeoutExpired):
                hook.wait(3 * decommission.POLL_SECONDS)
            executor.communicate()
            assert hook.wait(120) == 0
        assert other.poll() is None


def test_without_an_executor_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    with _start_process("other") as other:
        assert decommission.main(_make_proc(tmp_path, other)) == 0
        assert other.poll() is None


def test_what_ended_while_it_was_looked_at_is_none(tmp_path: Path) -> None:
    (tmp_path / "17").mkdir()
    assert decommission.list_executors(tmp_path) == []
