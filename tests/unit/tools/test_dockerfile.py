"""A stage of the Dockerfile that runs a script of ours has all modules that the script imports."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import image_context

pytestmark = pytest.mark.unit

ROOT = image_context.ROOT
STAGES = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").split("\nFROM ")


def list_copies(stage: str) -> list[tuple[str, str]]:
    """Return source, in the checkout, and destination of each file that is copied to /build."""
    copies = re.findall(r"^COPY ((?!--).+) (/build/\S*)$", stage, re.MULTILINE)
    return [(source, folder) for sources, folder in copies for source in sources.split()]


BUILDING = [
    stage for stage in STAGES if any(name.endswith(".py") for name, _ in list_copies(stage))
]


@pytest.mark.parametrize("stage", BUILDING, ids=lambda stage: stage.split("\n", 1)[0])
def test_a_script_of_a_stage_can_be_imported_from_what_is_copied_there(
    stage: str, tmp_path: Path
) -> None:
    modules = []
    for source, folder in list_copies(stage):
        copy = tmp_path / folder.removeprefix("/") / Path(source).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, copy)
        module = copy.relative_to(tmp_path / "build").with_suffix("")
        if copy.suffix == ".py" and module.name != "__init__":
            modules.append(".".join(module.parts))
    # -S: the Python of the image has no packages of others yet.
    ended = subprocess.run(
        [sys.executable, "-S", "-c", f"import {', '.join(modules)}"],
        cwd=tmp_path / "build",
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_the_stages_with_scripts_are_found() -> None:
    assert len(BUILDING) >= 3
