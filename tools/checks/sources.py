"""Finds the Python files that checks and figures are about: of the working tree, or of a commit.

A commit is unpacked, not checked out: nobody's working tree changes, and what git does not track
is not in it.
"""

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from icdc_cli.embedded.programs import run_program

ROOT = Path(__file__).resolve().parents[2]

_SECONDS = 60.0
"""What git may take, which takes less than one."""


def list_python_files(root: Path) -> list[Path]:
    """Return the Python files among `list_files`."""
    return list_files(root, "*.py")


def list_files(root: Path, pattern: str = "*") -> list[Path]:
    """Return the files of that pattern that git tracks, and new ones that it does not ignore.

    New ones too: a check before a commit must see what the commit is about to add.
    Submission outside of a repository.
    """
    listing = run_program(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        name="git ls-files",
        seconds=_SECONDS,
        folder=root,
    )
    # git also lists a file that was deleted and not yet committed.
    return [root / name for name in listing.splitlines() if (root / name).exists()]


@contextmanager
def unpack_commit(commit: str) -> Iterator[tuple[Path, list[Path]]]:
    """Unpack a commit, and yield its root and its Python files, which are removed at the end.

    Submission, with what git says, if there is no such commit.
    """
    with tempfile.TemporaryDirectory(prefix="icdc-commit-") as name:
        archive, root = Path(name, "commit.tar"), Path(name, "files")
        # Into a file: what a program prints is read as text.
        command = ["git", "archive", "--format=tar", f"--output={archive}", commit]
        run_program(command, name="git archive", seconds=_SECONDS, folder=ROOT)
        with tarfile.open(archive) as opened:
            opened.extractall(root, filter="data")
        yield root, sorted(root.rglob("*.py"))
