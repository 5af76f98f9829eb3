"""The sources of an image: the files that .dockerignore lets through, and what is said of them.

So that a build can be left out when nothing of it changed, and an image says of which state of the
sources it is. One list for both, which builders read as well: a file that is named elsewhere could
change an image and not its key. What a user gains: of two `make images` in a row the second one
takes seconds instead of minutes, as does the check of images that passed it.

Pure but for reading those files and asking git. Knows no program that builds images.
"""

import hashlib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from icdc_api.errors import Submission
from icdc_cli.embedded import programs

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("operator", "spark")
"""Stages of the Dockerfile that are images, the smaller first."""
REPOSITORY = "iceberg-cdc-operator"

EPOCH_DEFAULT = 315532800
"""1980-01-01: the first moment that every archive format can tell. SOURCE_DATE_EPOCH moves it."""


@dataclass(frozen=True)
class Source:
    """One state of the checkout, as images see it."""

    files: Mapping[str, str]
    """SHA-256 by path; an executable file's path ends with `*`: COPY takes that mode along."""
    version: str
    """Of pyproject.toml."""
    revision: str
    """The commit, in hex, with `-dirty` after it where files differ from it; or `unknown`."""
    epoch: int
    """Date of every file and layer, in seconds since 1970."""

    @property
    def created(self) -> str:
        """The same date as RFC 3339 has it, in UTC: the form of the label and of both bills."""
        return datetime.fromtimestamp(self.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def build_arguments(self) -> dict[str, str]:
        """Return the build arguments of the Dockerfile that come from here, by name."""
        return {"VERSION": self.version, "REVISION": self.revision, "CREATED": self.created}

    def compute_key(self, *more: str) -> str:
        """Return 16 hex digits that change with whatever changes the image.

        `more` is what is not in the checkout, such as the base image. Versions of packages are in
        the locks, which are among the files.
        """
        parts = [f"{path} {self.files[path]}" for path in sorted(self.files)]
        text = "\n".join([*parts, *self.build_arguments().values(), *more])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_source(root: Path = ROOT) -> Source:
    """Return the checkout as it is now, whether committed or not."""
    files = sorted(_list_files(root))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Source(
        files={_describe(path, root): _hash_file(path) for path in files},
        version=project["version"],
        revision=_find_revision(root, files),
        epoch=int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH_DEFAULT)),
    )


def name_image(target: str, tag: str) -> str:
    """Return the image's name; a registry's stands before it where it is pushed to one."""
    return f"{REPOSITORY}/{target}:{tag}"


def _list_files(root: Path) -> Iterator[Path]:
    """The Dockerfile, and what .dockerignore, which excludes everything first, takes back in."""
    yield root / "Dockerfile"
    # Its last rule, which takes out `**/__pycache__` again, is the condition below. Rules that are
    # not plain paths would mean something else to glob than they do to a builder.
    for line in (root / ".dockerignore").read_text(encoding="utf-8").splitlines():
        for path in root.glob(line[1:]) if line.startswith("!") else ():
            below = path.rglob("*") if path.is_dir() else [path]
            yield from (
                file for file in below if file.is_file() and "__pycache__" not in file.parts
            )


def _describe(path: Path, root: Path) -> str:
    mark = "*" if os.access(path, os.X_OK) else ""
    return f"{path.relative_to(root).as_posix()}{mark}"


def _hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _find_revision(root: Path, files: Iterable[Path]) -> str:
    """Return the commit that last changed an image; `-dirty` after it where files differ from it.

    Not HEAD: the revision is a label, and so in the image's digest, which a commit that changes a
    page must leave alone.

        commit c1    Dockerfile      revision c1
        commit c2    docs/images.md  revision c1, the same image
        (edited)     Dockerfile      revision c1-dirty
    """
    names = [str(path.relative_to(root)) for path in files]
    commit = _run_git(root, "log", "-1", "--format=%H", "--", *names)
    if not commit:
        return "unknown"
    changed = _run_git(root, "status", "--porcelain", "--", *names)
    return f"{commit}-dirty" if changed else commit


def _run_git(root: Path, *arguments: str) -> str:
    """Run git and return its output; nothing where there is no git, or no repository.

    Sources unpacked from an archive can be built too: their images say `unknown`.
    """
    command = ["git", "-C", str(root), *arguments]
    try:
        return programs.run_program(command, name="git", seconds=60).strip()
    except Submission:
        return ""
