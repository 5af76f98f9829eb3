"""The state directory: one runner at a time, whole files only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from icdc_api import errors
from icdc_cli.local.state_dir import StateDir

pytestmark = pytest.mark.unit

RESOURCE = {"metadata": {"name": "shop"}, "spec": {}, "status": {"phase": "Ready"}}


def test_a_first_run_finds_no_resource(tmp_path: Path) -> None:
    with StateDir(tmp_path / "state") as state:
        assert state.load() is None


def test_what_was_saved_is_loaded_by_the_next_runner(tmp_path: Path) -> None:
    with StateDir(tmp_path) as state:
        state.save(RESOURCE)
    with StateDir(tmp_path) as state:
        assert state.load() == RESOURCE
    assert not [entry for entry in tmp_path.iterdir() if entry.name.endswith(".tmp")]


def test_a_second_runner_is_refused_and_told_who_holds_the_directory(tmp_path: Path) -> None:
    with StateDir(tmp_path), pytest.raises(errors.BadSpec) as refused, StateDir(tmp_path):
        pass
    assert str(refused.value) == (
        f"--state-dir {tmp_path} is in use by another icdc run (process {os.getpid()}); "
        "stop that one, or give another directory to a pipeline of another name"
    )


def test_a_killed_runner_leaves_no_lock_behind(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from icdc_cli.local.state_dir import StateDir; "
        "StateDir(pathlib.Path(sys.argv[1])).__enter__(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    with StateDir(tmp_path) as state:
        assert state.load() is None


@pytest.mark.parametrize("text", [b"{", b"- a list", b"metadata: text", b"\x00", b"a: \xff"])
def test_a_resource_that_is_not_ours_is_refused_with_the_way_out(
    tmp_path: Path, text: bytes
) -> None:
    (tmp_path / "pipeline.yaml").write_bytes(text)
    with StateDir(tmp_path) as state, pytest.raises(errors.StateCorrupt, match="remove the file"):
        state.load()
    assert (tmp_path / "pipeline.yaml").read_bytes() == text


def test_a_resource_that_cannot_be_read_is_bad_usage(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").mkdir()
    with (
        StateDir(tmp_path) as state,
        pytest.raises(errors.BadSpec, match="yaml cannot be read: Is a"),
    ):
        state.load()


def test_a_directory_that_cannot_be_made_is_bad_usage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(errors.BadSpec, match="cannot be used: Not a directory"),
        StateDir(tmp_path / "file" / "state"),
    ):
        pass


def test_a_directory_that_somebody_removes_while_it_is_used_is_no_defect(tmp_path: Path) -> None:
    with StateDir(tmp_path / "state") as state:
        shutil.rmtree(state.root)
        refused = pytest.raises(errors.BadSpec, match=r"No such file or.*progress is stored in Op")
        with refused, state.explain_errors():
            state.save(RESOURCE)


def test_a_full_disk_is_said_with_the_file_and_leaves_no_scratch_file(tmp_path: Path) -> None:
    scratch = tmp_path / f".pipeline.yaml.{os.getpid()}.tmp"
    scratch.symlink_to("/dev/full")
    with (
        StateDir(tmp_path) as state,
        pytest.raises(errors.DiskFull) as full,
        state.explain_errors(),
    ):
        state.save(RESOURCE)
    assert f"No space left on device: {tmp_path}/pipeline.yaml;" in str(full.value)
    assert not scratch.is_symlink()


def test_an_error_of_something_else_is_left_alone(tmp_path: Path) -> None:
    with (
        StateDir(tmp_path / "state") as state,
        pytest.raises(FileNotFoundError),
        state.explain_errors(),
    ):
        (tmp_path / "other").read_text()
