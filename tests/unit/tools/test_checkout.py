"""What nobody committed is neither released nor passed over in silence."""

from pathlib import Path

import pytest

import checkout
import image_context
import release
import wanted
from checkout import Checkout
from icdc_api.errors import BadSpec
from icdc_cli.embedded import programs

pytestmark = pytest.mark.unit

COMMITTED = ("charts/a/values.yaml", "operator/app.py", "README.md")


def run_git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t.example", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return programs.run_program(command, name="git", seconds=60).strip()


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def read_all(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    write(root, *COMMITTED)
    (root / ".gitignore").write_text("__pycache__/\n*.secret\n")
    run_git(root, "init", "--quiet")
    run_git(root, "add", ".")
    run_git(root, "commit", "--quiet", "--message", "Begin")
    return root


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("README.md", True),
        ("charts/a/new.yaml", True),
        # Helm would pack it, whatever git ignores.
        ("charts/a/values.secret", True),
        ("operator/über.py", True),
        ("operator/__pycache__/app.cpython-311.pyc", False),
        ("notes.txt", False),
    ],
)
def test_whatever_would_be_released_and_is_in_no_commit_is_a_change(
    repository: Path, path: str, changed: bool
) -> None:
    commit = run_git(repository, "rev-parse", "HEAD")
    assert checkout.read_checkout(repository) == Checkout(commit)
    write(repository, path)
    (repository / path).write_text("changed")
    assert checkout.read_checkout(repository).changed == ((path,) if changed else ())


def test_copies_are_without_what_git_lacks(repository: Path, tmp_path: Path) -> None:
    write(repository, "charts/a/values.secret", "charts/a/new.yaml")
    (repository / "README.md").unlink()
    (repository / "operator" / "app.py").write_text("changed")
    checkout.copy_tracked(repository, tmp_path / "copy", "charts/a", "operator", "README.md")
    assert read_all(tmp_path / "copy") == {
        "charts/a/values.yaml": "charts/a/values.yaml",
        "operator/app.py": "changed",
    }


def test_sources_without_git_are_copied_whole_and_are_no_commit(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    write(sources, *COMMITTED, "operator/__pycache__/app.cpython-311.pyc")
    assert checkout.read_checkout(sources) == Checkout("unknown")
    checkout.copy_tracked(sources, tmp_path / "copy", "charts", "operator", "README.md")
    assert read_all(tmp_path / "copy") == {path: path for path in COMMITTED}


def test_only_a_commit_is_pushed() -> None:
    wanted.check_checkout(Checkout("c0ffee"))
    with pytest.raises(BadSpec, match="no git checkout"):
        wanted.check_checkout(Checkout("unknown"))
    changed = Checkout("c0ffee", tuple("abcdef"))
    assert changed.revision == "c0ffee-dirty"
    with pytest.raises(BadSpec, match=r"^6 files differ .*: a, b, c, d, e, …\. .*commit or remove"):
        wanted.check_checkout(changed)


def test_changes_are_refused_with_a_registry_and_named_by_a_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkout, "read_checkout", lambda root: Checkout("c0ffee", ("charts/new",)))
    monkeypatch.setattr(release, "make_release", lambda wanted, built: wanted.folder.mkdir())
    version = image_context.read_source().version
    assert release.main([version, "--check", "--registry", "r.example/lake"]) == 1
    assert "1 files differ from commit c0ffee" in capsys.readouterr().err
    assert release.main([version, "--images", str(tmp_path), "--into", str(tmp_path)]) == 0
    assert "not to be pushed: 1 files differ" in capsys.readouterr().out
