"""What changes an image, and what does not."""

import subprocess
from pathlib import Path

import pytest

import image_context

pytestmark = pytest.mark.unit


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project under git."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    (tmp_path / "notes.md").write_text("1")
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    (tmp_path / ".dockerignore").write_text("# why\n*\n!code\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    _run_git(tmp_path, "init", "--quiet")
    _commit(tmp_path)
    return tmp_path


def _run_git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _commit(folder: Path) -> str:
    _run_git(folder, "add", "--all")
    _run_git(folder, "commit", "--quiet", "--message", "x")
    return _run_git(folder, "rev-parse", "HEAD")


@pytest.mark.parametrize("name", ["code/a.py", "Dockerfile", "code/new.py"])
def test_what_an_image_is_made_of_changes_its_key(checkout: Path, name: str) -> None:
    before = image_context.read_source(checkout).compute_key()
    (checkout / name).write_text("2")
    assert image_context.read_source(checkout).compute_key() != before


def test_the_right_to_execute_changes_the_key(checkout: Path) -> None:
    before = image_context.read_source(checkout).compute_key()
    (checkout / "code" / "a.py").chmod(0o755)
    assert image_context.read_source(checkout).compute_key() != before


def test_another_tag_is_another_archive(checkout: Path) -> None:
    source = image_context.read_source(checkout)
    assert len({source.compute_key(), source.compute_key("1"), source.compute_key("2")}) == 3


@pytest.mark.parametrize("name", ["notes.md", "code/__pycache__/a.pyc", "tests/x.py"])
def test_what_is_in_no_image_changes_nothing_of_it(checkout: Path, name: str) -> None:
    before = image_context.read_source(checkout)
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("2")
    assert image_context.read_source(checkout) == before
    _commit(checkout)
    assert image_context.read_source(checkout).revision == before.revision


def test_the_revision_says_when_files_differ_from_it(checkout: Path) -> None:
    commit = _run_git(checkout, "rev-parse", "HEAD")
    assert image_context.read_source(checkout).revision == commit
    (checkout / "code" / "a.py").write_text("2")
    assert image_context.read_source(checkout).revision == f"{commit}-dirty"
    assert _commit(checkout) == image_context.read_source(checkout).revision != commit


def test_the_date_is_given_or_the_first_that_archives_can_tell(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert image_context.read_source(checkout).created == "1980-01-01T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert image_context.read_source(checkout).build_arguments() == {
        "VERSION": "1.2.3",
        "REVISION": image_context.read_source(checkout).revision,
        "CREATED": "2023-11-14T22:13:20Z",
    }
