"""Programs of a cluster are ended from files, and nothing else is."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from icdc_testing.real_cluster.host import programs
from icdc_testing.real_cluster.host.layout import ClusterPaths

pytestmark = pytest.mark.unit


@pytest.fixture
def where(tmp_path: Path) -> ClusterPaths:
    """The folders of a cluster that is not there."""
    paths = ClusterPaths(tmp_path)
    paths.make()
    return paths


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that ends only when it is killed."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_recorded_program_is_ended_once_and_forgotten(
    where: ClusterPaths, sleeper: "subprocess.Popen[bytes]"
) -> None:
    programs.record(where, "sleeper", sleeper.pid)
    assert programs.read_record(where) == {"sleeper": sleeper.pid}
    programs.end(where, ["another"])
    assert programs.read_record(where) == {"sleeper": sleeper.pid}
    programs.end(where)
    assert sleeper.wait() == -9
    assert programs.read_record(where) == {}
    assert list(where.pids.iterdir()) == []


def test_a_process_that_got_the_number_of_a_program_is_left_alone(
    where: ClusterPaths, sleeper: "subprocess.Popen[bytes]"
) -> None:
    (where.pids / "etcd").write_text(f"{sleeper.pid} 1", encoding="utf-8")
    assert programs.read_record(where) == {}
    programs.end(where)
    assert sleeper.poll() is None


def test_a_process_that_ended_before_it_was_killed_is_not_waited_for(where: ClusterPaths) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    programs.record(where, "short", process.pid)
    assert programs.read_record(where) == {}
    programs.kill([process.pid])
