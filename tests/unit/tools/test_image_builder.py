"""Layers of earlier builds do not fill the disk."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import image_builder
import image_buildkit
import images
from image_buildkit import BuildKit
from image_context import TARGETS

pytestmark = pytest.mark.unit

ROOT = Path(image_builder.__file__).parents[2]
PROGRAM = """#!/bin/sh
echo "$@" >> "$CALLS"
"""
# Just enough of buildah to leave an image where it is asked for; dpkg-query finds every package.
BUILDAH = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
case "$1" in
  images) echo sha256:base;;
  pull | from) echo sha256:brought;;
  run) echo ran;;
  build) echo build >> "$CALLS"
    for word in "$@"; do
      [ "$previous" = --iidfile ] && echo sha256:image > "$word"; previous="$word"
    done;;
  push) for word in "$@"; do :; done; folder="${word#dir:}"
    echo '{"config": {"digest": "sha256:c"}, "layers": []}' > "$folder/manifest.json"
    echo '{}' > "$folder/c";;
esac
"""
DPKG_QUERY = "#!/bin/sh\nprintf installed\n"


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
        "image-archives/buildkit-1f3a/spark.tar",
        "images/storage/layer",
        "images/buildkit/storage/layer",
    ):
        (tmp_path / "cache" / file).parent.mkdir(parents=True)
        (tmp_path / "cache" / file).touch()
    asked.hardlink_to(tmp_path / "cache" / "image-archives" / "1f3a" / "spark.tar")
    assert images.main(["clean"]) == 0
    assert [path.name for path in (tmp_path / "cache").rglob("*")] == ["images.lock"]
    assert asked.is_file()


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A cache and a buildah of its own; the number of builds so far."""
    calls = tmp_path / "calls"
    for name, text in {"buildah": BUILDAH, "dpkg-query": DPKG_QUERY}.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setenv("ICDC_CACHE_DIR", str(tmp_path / "cache"))
    return lambda: len(calls.read_text().splitlines()) if calls.exists() else 0


def test_an_archive_is_written_once_and_only_where_it_is_asked_for(
    builds: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ["build", "operator", "--archive", str(tmp_path / "asked")]
    for _ in range(2):
        assert images.main(ask) == 0
        assert builds() == 1
    assert [path.name for path in tmp_path.rglob("*.tar")] == ["operator.tar"]
    # Another state of what the image is made of.
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "315532801")
    assert images.main(ask) == 0
    assert builds() == 2
    assert [path.name for path in tmp_path.rglob("*.tar")] == ["operator.tar"]


def test_the_cache_keeps_the_archives_of_one_state_of_each_builder(
    builds: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retained = tmp_path / "cache" / "image-archives"
    for folder in ("1f3a", "buildkit-1f3a"):
        (retained / folder).mkdir(parents=True)
    assert images.main(["build", "operator"]) == 0
    (newest,) = [path.parent.name for path in retained.rglob("operator.tar")]
    assert {path.name for path in retained.iterdir()} == {newest, "buildkit-1f3a"}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "315532801")
    assert images.main(["build", "operator", "--archive", str(tmp_path / "asked")]) == 0
    assert [path.name for path in retained.iterdir()] == ["buildkit-1f3a"]


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
    image = tmp_path / "operator.tar"
    image.mkdir() if is_folder else image.touch()
    assert image_builder.Buildah(tmp_path / "images").pull(image) == "the-id"
    assert f"{transport}{image.name}" in calls.read_text().split()


def test_an_image_of_buildkit_is_inspected_from_its_archive_if_there_is_one(tmp_path: Path) -> None:
    buildah = image_builder.Buildah(tmp_path)
    archive = tmp_path / "spark.tar"
    assert BuildKit(tmp_path, buildah).find(archive) is None
    archive.touch()
    assert BuildKit(tmp_path, buildah).find(archive) == str(archive)
    assert buildah.find(archive) is None  # the storage has it


def test_an_image_that_was_built_for_one_command_goes_with_it_and_an_archive_stays(
    builds: Callable[[], int], tmp_path: Path
) -> None:
    archive, layout = tmp_path / "spark.tar", tmp_path / "buildkit" / "spark"
    archive.touch()
    layout.mkdir(parents=True)
    buildkit = BuildKit(tmp_path / "buildkit", image_builder.Buildah(tmp_path))
    for image in (archive, layout):
        assert buildkit.run(str(image), ["true"], "") == "ran"
    assert archive.exists()
    assert not layout.exists()
    assert builds() == 0


def test_layers_that_buildkit_wrote_for_an_export_alone_are_removed_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, programs = tmp_path / "calls", tmp_path / "bin"
    programs.mkdir()
    for name, text in {"buildctl": PROGRAM, "buildkitd": "#!/bin/sh\nexec sleep 60\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(calls))
    buildkit = BuildKit(tmp_path / "buildkit", image_builder.Buildah(tmp_path))
    buildkit.build("operator", base="base@sha256:1f3a", arguments={}, epoch=0, cached=True)
    verbs = [line.split()[2] for line in calls.read_text().splitlines()]
    assert verbs[-3:] == ["build", "prune", "prune"]
    assert (
        f"--filter=description~=/{image_buildkit.build_steps_pattern('operator')}/"
        in calls.read_text()
    )


def _describe_runs(stage: str) -> list[str]:
    """Return the RUN steps of a stage as BuildKit describes their layers."""
    steps = re.split(r"^(?=[A-Z]+ )", stage, flags=re.MULTILINE)
    commands = [
        re.sub(r"--mount=\S+\s+|\\\n\s*", "", step.removeprefix("RUN "))
        for step in steps
        if step.startswith("RUN ")
    ]
    return [f"mount / from exec /bin/sh -c {command}" for command in commands]


@pytest.mark.parametrize("target", TARGETS)
def test_the_own_steps_of_an_image_are_told_from_those_that_take_long(target: str) -> None:
    texts = (ROOT / "Dockerfile").read_text("utf-8").split("\nFROM ")
    stages = {text.splitlines()[0].rpartition(" ")[2]: text for text in texts}
    steps = re.compile(image_buildkit.build_steps_pattern(target))
    # The last step holds the layers of those before it: without it nothing could be removed.
    (last,) = _describe_runs(stages[target])
    assert steps.search(last)
    assert steps.search(f"[{target} 1/4] COPY --from={target}-packages /opt/venv /opt/venv")
    others = [text for name, text in stages.items() if name not in TARGETS]
    assert not any(map(steps.search, itertools.chain.from_iterable(map(_describe_runs, others))))
    assert not steps.search(f"[{target}-packages 1/2] COPY tools/locks/{target}.lock /build/")
