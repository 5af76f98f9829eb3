"""Says what of this checkout is committed, and copies that without the rest.

A release says of which commit it is, and charts and the Python package are made of whole folders,
so a file that nobody committed would be released under the name of a commit that lacks it. Files
that git ignores count too: Helm and hatchling have rules of their own. Knows git and no release.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from icdc_api.errors import Submission
from icdc_cli.embedded import programs

RELEASED = ("charts", "crds", "operator", "sparkapps", "tools")
"""Folders whose files are in a release, or make it."""
UNKNOWN = "unknown"
_SECONDS = 60


@dataclass(frozen=True)
class Checkout:
    """The state of a checkout."""

    commit: str
    """In hex; `unknown` where sources were unpacked from an archive."""
    changed: tuple[str, ...] = ()
    """Paths that differ from the commit, and those of RELEASED that are in no commit."""

    @property
    def revision(self) -> str:
        """The commit, with `-dirty` after it where files differ from it."""
        return f"{self.commit}-dirty" if self.changed else self.commit


def read_checkout(root: Path) -> Checkout:
    """Return the state of the checkout in that folder."""
    try:
        commit = _run_git(root, "rev-parse", "HEAD")[0]
        tracked = _run_git(root, "diff", "--name-only", "HEAD")
        # Without the rules of .gitignore, and so with what Python compiles.
        others = _run_git(root, "ls-files", "--others", "--", *RELEASED)
    except Submission:
        return Checkout(UNKNOWN)
    return Checkout(commit, (*tracked, *(path for path in others if not _is_compiled(Path(path)))))


def copy_tracked(root: Path, into: Path, *names: str) -> None:
    """Copy files and folders of the checkout, as they are now, but for files that git lacks.

    From an archive of sources, which has no git, all of them.
    """
    try:
        paths = [Path(path) for path in _run_git(root, "ls-files", "--", *names)]
    except Submission:
        candidates = [path for name in names for path in (root / name, *(root / name).rglob("*"))]
        paths = [path.relative_to(root) for path in candidates if not _is_compiled(path)]
    for path in paths:
        # What was deleted and is still in the commit differs from it, and is reported as that.
        if (root / path).is_file():
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, into / path)


def _is_compiled(path: Path) -> bool:
    return path.suffix == ".pyc" or "__pycache__" in path.parts


def _run_git(root: Path, command: str, *arguments: str) -> list[str]:
    """Run git; return the lines or paths that it prints. Submission without git or a repository."""
    # Paths as they are, not quoted.
    git = ["git", "-C", str(root), "-c", "core.quotePath=false", command, *arguments]
    return programs.run_program(git, name=f"`git {command}`", seconds=_SECONDS).splitlines()
