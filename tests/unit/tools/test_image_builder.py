"""Layers of earlier builds do not fill the disk."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import image_builder
import images
from image_buildkit import BuildKit

pytestmark = pytest.mark.unit

ROOT = Path(image_builder.__file__).parents[2]
PROGRAM = """#!/bin/sh
echo "$@" >> "$CALLS"
"""


@pytest.mark.parametrize(("megabytes", "removed"), [(1, False), (3, True)])
def test_layers_beyond_the_budget_are_removed_before_a_build(
    megabytes: int, removed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, calls = tmp_path / "bin" / "buildah", tmp_path / "calls"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setattr(image_builder, "MAX_STORAGE_BYTES", 2_000_000)
    layer = tmp_path / "images" / "storage" / "layer"
    layer.parent.mkdir(parents=True)
    layer.write_bytes(os.urandom(megabytes * 1_000_000))
    image_builder.Buildah(tmp_path / "images").shrink()
    assert (calls.is_file() and "rmi --all --force" in calls.read_text()) == removed


def test_cleaning_removes_archives_and_layers_of_both_builders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICDC_CACHE_DIR", str(tmp_path / "cache"))
    # Without any program: a host that cleans may have no buildah any more.
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = tmp_path / "asked" / "spark.tar"
    asked.parent.mkdir()
    for file in (
        "image-archives/1f3a/spark.tar",
        "image-archives/buildkit-1f3a/spark-buildkit.tar",
        "images/storage/layer",
        "images/buildkit/storage/layer",
    ):
        (tmp_path / "cache" / file).parent.mkdir(parents=True)
        (tmp_path / "cache" / file).touch()
    asked.hardlink_to(tmp_path / "cache" / "image-archives" / "1f3a" / "spark.tar")
    assert images.main(["clean"]) == 0
    assert [path.name for path in (tmp_path / "cache").rglob("*")] == ["images.lock"]
    assert asked.is_file()


def test_the_makefile_starts_image_tools_with_all_that_they_import() -> None:
    named = re.findall(r"python\)? ?(tools/images/\w+\.py)", (ROOT / "Makefile").read_text("utf-8"))
    assert {"tools/images/images.py", "tools/images/caches.py"} <= {*named}
    for program in sorted(set(named)):
        command = [sys.executable, program, "--help"]
        # Not this process's path, on which pytest puts every folder of tools.
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("is_folder", "transport"), [(True, "oci:"), (False, "oci-archive:")])
def test_what_another_builder_left_is_brought_in_as_what_it_is(
    is_folder: bool, transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, calls = tmp_path / "bin" / "buildah", tmp_path / "calls"
    program.parent.mkdir()
    program.write_text(f"{PROGRAM}echo the-id\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(calls))
    image = tmp_path / "operator-buildkit.tar"
    image.mkdir() if is_folder else image.touch()
    assert image_builder.Buildah(tmp_path / "images").pull(image) == "the-id"
    assert f"{transport}{image.name}" in calls.read_text().split()


def test_an_image_of_buildkit_is_inspected_from_its_archive_if_there_is_one(tmp_path: Path) -> None:
    buildah = image_builder.Buildah(tmp_path)
    archive = tmp_path / "spark-buildkit.tar"
    assert BuildKit(tmp_path, buildah).find(archive) is None
    archive.touch()
    assert BuildKit(tmp_path, buildah).find(archive) == str(archive)
    assert buildah.find(archive) is None  # the storage has it
