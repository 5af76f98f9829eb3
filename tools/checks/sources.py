"""Finds the Python files that checks and figures are about: of the working tree, or of a commit.

A commit is unpacked, not checked out: nobody's working tree changes, and what git does not track
is not in it.
"""

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def list_python_files(root: Path) -> list[Path]:
    """Return the Python files that git tracks, and new ones that it does not ignore.

    New ones too: a check before a commit must see what the commit is about to add.
    CalledProcessError outside of a repository.
    """
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # git also lists a file that was deleted and not yet committed.
    return [root / name for name in listing.splitlines() if (root / name).exists()]


@contextmanager
def unpack_commit(commit: str) -> Iterator[tuple[Path, list[Path]]]:
    """Unpack a commit, and yield its root and its Python files, which are removed at the end.

    CalledProcessError, after git has said why, if there is no such commit.
    """
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout
    with tempfile.TemporaryDirectory(prefix="icdc-commit-") as name:
        root = Path(name)
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            opened.extractall(root, filter="data")
        yield root, sorted(root.rglob("*.py"))
