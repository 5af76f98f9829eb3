"""What the documentation names exists: targets, folders, tests. Its pipelines load."""

import re
import subprocess
from pathlib import Path

import pytest

from icdc_testing import ROOT
from icdc_testing.kube.stored_pipelines import load_pipeline
from icdc_testing.user_programs import pages

pytestmark = pytest.mark.unit

PAGES = pages.list_pages()


def name_page(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _find(pattern: str, page: Path) -> list[str]:
    return re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL)


def _make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    named = {
        target
        for inline in _find(r"`make ([a-z-]+)", page) + _find(r"^make ([a-z-]+)", page)
        for target in [inline]
    }
    assert named <= _make_targets()


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_pipeline_that_a_page_shows_is_valid(page: Path, tmp_path: Path) -> None:
    for block in _find(r"```yaml(?: cluster)?\n(.*?)```", page):
        path = tmp_path / "pipeline.yaml"
        path.write_text(block, encoding="utf-8")
        assert load_pipeline(path, {"WAREHOUSE": "warehouse"}).spec.tables


def test_make_alone_prints_every_documented_target() -> None:
    shown = subprocess.run(
        ["make", "-C", str(ROOT)], capture_output=True, text=True, check=True
    ).stdout
    for target in ("setup", "demo", "check", "test", "test-unit", "test-spark", "crds"):
        assert re.search(rf"^  {target} ", shown, re.MULTILINE), shown


def _read_map() -> set[str]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## Map\n")
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_the_map_of_the_architecture_has_every_folder_and_no_other() -> None:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    # Without the root, and without packages that only say what is in the folders below them.
    folders = {
        Path(path).parent.as_posix()
        for path in listed
        if "/" in path and not path.startswith("tests/") and Path(path).name != "__init__.py"
    }
    shown = _read_map()
    assert folders <= shown
    assert {folder for folder in shown if not (ROOT / folder).is_dir()} == set()
    assert {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - {
        "__pycache__"
    } <= {Path(folder).name for folder in shown if folder.startswith("tests/")}


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(_find(r"`(test_[a-z0-9_]+)`", page))
    if named:
        tests = ROOT.glob("tests/**/test_*.py")
        written = {name for test in tests for name in _find(r"def (test_\w+)\(", test)}
        assert named <= written
