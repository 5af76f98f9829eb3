"""Scratch directories of containers that share a volume: dead ones are removed, others are not."""

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from icdc_spark.container import scratch

from .test_container_commands import EXECUTOR

pytestmark = pytest.mark.unit

JAVA = """#!/bin/sh
for dir in $(echo "$SPARK_LOCAL_DIRS" | tr , ' '); do
  mkdir "$dir/blockmgr-1" && echo rows > "$dir/blockmgr-1/shuffle_0_0_0.data"
done
echo "$SPARK_LOCAL_DIRS"
exec cat
"""
"""In place of the executor's JVM: it shuffles, says where, and lives as long as its input."""
ENTRY = (sys.executable, "-m", "icdc_spark.container", "executor")
Container = tuple["subprocess.Popen[str]", list[Path]]
Start = Callable[..., Container]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of an executor, whose Java is JAVA."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    return {**os.environ, **EXECUTOR, "JAVA_HOME": str(tmp_path / "java")}


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume of the node."""
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start containers on volumes; returns each with its directories once it has shuffled."""
    with ExitStack() as running:

        def begin(*volumes: Path) -> Container:
            process = running.enter_context(
                subprocess.Popen(
                    ENTRY,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**environment, "SPARK_LOCAL_DIRS": ",".join(map(str, volumes))},
                )
            )
            running.callback(process.kill)
            assert process.stdout is not None
            return process, [Path(path) for path in process.stdout.readline().split(",")]

        yield begin


def read(directory: Path) -> str:
    """Return what the shuffle of a container left in its directory."""
    return Path(str(directory).strip(), "blockmgr-1", "shuffle_0_0_0.data").read_text()


def test_what_a_killed_container_left_is_removed_beside_two_live_ones(
    start: Start, volume: Path, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    before = volume / "blockmgr-0aa1b2c3-1111-2222-3333-444455556666"
    before.mkdir()
    alive = [start(volume, second), start(volume)]
    victim, left = start(volume, second)
    victim.kill()
    victim.wait()
    assert all(read(path) == "rows\n" for path in left)

    _, own = start(volume, second)
    neighbours = [path for _, paths in alive for path in paths]
    assert [read(path) for path in (*neighbours, *own)] == ["rows\n"] * 5
    wanted = {str(path).strip() for path in (before, *neighbours, *own)}
    assert {str(path) for path in (*volume.iterdir(), *second.iterdir())} == wanted


def test_a_program_that_is_no_container_of_spark_has_no_directory(volume: Path) -> None:
    assert scratch.claim({"PATH": "/bin"}) == {"PATH": "/bin"}


def _make_name() -> str:
    return f"icdc-{uuid.uuid4()}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_stays(start: Start, volume: Path) -> None:
    foreign = volume / _make_name()
    foreign.mkdir()
    os.chown(foreign, 12345, 12345)
    start(volume)
    assert foreign.exists()


def test_a_link_and_a_pipe_of_such_a_name_stay(start: Start, volume: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "rows").touch()
    link, pipe = volume / _make_name(), volume / _make_name()
    link.symlink_to(precious)
    os.mkfifo(pipe)
    start(volume)
    assert [link.is_symlink(), pipe.is_fifo(), (precious / "rows").exists()] == [True] * 3


TAKEN = """
import os, sys
from icdc_spark.container import scratch
begun = []
def take(event, _):
    # Another container finds the directory between its making and its lock.
    if event == "fcntl.flock" and not begun:
        begun.extend(os.listdir(sys.argv[1]))
        os.rmdir(os.path.join(sys.argv[1], *begun))
sys.addaudithook(take)
path = scratch.claim({"SPARK_LOCAL_DIRS": sys.argv[1]})["SPARK_LOCAL_DIRS"]
assert begun and path != sys.argv[1] and os.path.isdir(path), path
"""


def test_a_directory_that_is_removed_before_it_is_locked_is_made_again(volume: Path) -> None:
    subprocess.run([sys.executable, "-c", TAKEN, str(volume)], check=True, timeout=60)


CLAIM = """
import os, sys
from icdc_spark.container import scratch
for _ in range(80):
    path = scratch.claim({"SPARK_LOCAL_DIRS": sys.argv[1]})["SPARK_LOCAL_DIRS"]
    assert path != sys.argv[1] and os.path.isdir(path), path
print("done")
"""


def test_containers_that_start_at_once_never_take_a_directory_from_each_other(
    volume: Path,
) -> None:
    command = [sys.executable, "-c", CLAIM, str(volume)]
    pipe = subprocess.PIPE
    begun = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(3)]
    for process in begun:
        output, errors = process.communicate()
        assert output == "done\n", errors


DISK = 'mount -t tmpfs -o size=256k,nr_inodes=16 none "$1" || exit 77; '
BY_DEAD = 'mkdir "$1/$2"; cat /dev/zero > "$1/$2/shuffle" 2> /dev/null; '
"""A dead container's file takes all bytes of the disk."""
BY_OTHERS = 'for n in 1 2 3 4 5 6 7 8 9 a b c d e f g; do touch "$1/$n"; done 2> /dev/null; '
"""Files that are nobody's take all of its inodes."""


def _run_on_full_disk(filled: str, volume: Path, environment: dict[str, str]) -> tuple[str, str]:
    """Return what a container prints on a disk that only it sees, and what it says."""
    script = f'{DISK}{filled}SPARK_LOCAL_DIRS="$1" exec "$3" -m icdc_spark.container executor'
    alone = ("unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh")
    done = subprocess.run(
        [*alone, str(volume), _make_name(), sys.executable],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare:" in done.stderr:
        assert not os.environ.get("ICDC_REQUIRE_ALL"), done.stderr
        pytest.skip(f"no mounts here: {done.stderr}")
    return done.stdout.strip(), done.stderr


def test_a_disk_that_a_dead_container_filled_has_room_again(
    volume: Path, environment: dict[str, str]
) -> None:
    own, said = _run_on_full_disk(BY_DEAD, volume, environment)
    assert Path(own).parent == volume
    assert f"removed {volume}/icdc-" in said
    assert "No space left" not in said


def test_on_a_disk_that_others_filled_spark_starts_and_finds_out_itself(
    volume: Path, environment: dict[str, str]
) -> None:
    own, said = _run_on_full_disk(BY_OTHERS, volume, environment)
    assert own == str(volume)
    assert "cannot be made: No space left on device" in said
