"""The wanted release, and whether it may be made: version, registry, state of the checkout, notes.

A version that was released once means the same bytes for ever, so everything that would make a
release of the wrong thing is refused before anything is made. Pure: reads no file and asks nobody.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from checkout import UNKNOWN, Checkout
from icdc_api.errors import BadSpec

# No pre-releases, whose names differ between Python and Helm, and no build metadata, since tags
# have no `+`.
_VERSION = re.compile(r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}")
_LABEL = r"[a-z0-9]+(?:-+[a-z0-9]+)*"
_REGISTRY = re.compile(
    # Anything else in the first place is a name in Docker Hub, as for Docker and Kubernetes.
    r"(?=[^/]*[.:]|localhost(?:/|$))"
    rf"{_LABEL}(?:\.{_LABEL})*(?::\d+)?"
    r"(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*"
)
_UNRELEASED = "Unreleased"
_SHOWN_PATHS = 5


@dataclass(frozen=True)
class WantedRelease:
    """One release: what it is called, where it goes, and what it is made of."""

    version: str
    """Of pyproject.toml, which image, charts and wheel have as well."""
    registry: str
    """Before the names of images and charts, such as `registry.example/lake`; "" for none."""
    checkout: Checkout
    """The commit, and what differs from it."""
    epoch: int
    """Date of every file in every archive, in seconds since 1970."""
    notes: str
    """What the changelog says of this version."""
    folder: Path
    """Where its files go."""

    def name_in_registry(self, name: str) -> str:
        """Return the name with the registry before it; without a registry the name alone."""
        return f"{self.registry}/{name}" if self.registry else name


def check_version(version: str, stated: str) -> None:
    """Return where `version` is the one that pyproject.toml states; else BadSpec says what to do.

    0.2.0, stated 0.2.0      nothing
    "", 0.2, v0.2.0          BadSpec: not a version
    0.3.0, stated 0.2.0      BadSpec: another version
    """
    if not _VERSION.fullmatch(version):
        raise BadSpec(
            f"VERSION={version} is not a version such as 1.2.3. This checkout is version "
            f"{stated}: make release VERSION={stated}"
        )
    if version != stated:
        raise BadSpec(
            f"VERSION={version}, but this checkout is version {stated}. Check out the commit of "
            f"{version}, or first raise the version in pyproject.toml, crds/icdc_api/__init__.py, "
            "both Chart.yaml, README.md and docs/releasing.md."
        )


def check_registry(registry: str) -> None:
    """Return where the name can stand before that of an image; BadSpec where it cannot.

    registry.example/lake, localhost/lake, r:5000    nothing
    lake, lake/cdc                                   BadSpec: Docker Hub, and not the host `lake`
    https://r.example, r.example/, a..b, r.io/-x     BadSpec: no registry accepts such a name
    """
    if registry and not _REGISTRY.fullmatch(registry):
        raise BadSpec(
            f"REGISTRY={registry} is not a host with an optional port and path, such as "
            "registry.example/lake: lower case, no scheme, no slash at the end, and a dot or a "
            "port in the host unless it is localhost."
        )


def check_checkout(checkout: Checkout) -> None:
    """Return where the checkout is a commit; BadSpec where others could not check it out."""
    if checkout.commit == UNKNOWN:
        raise BadSpec(
            "This folder is no git checkout. Only a commit is pushed to a registry: clone the "
            "repository, or leave out REGISTRY for a dry run."
        )
    if checkout.changed:
        raise BadSpec(
            f"{describe_changes(checkout)}. Only a commit is pushed to a registry: commit or "
            "remove them first, or leave out REGISTRY for a dry run."
        )


def describe_changes(checkout: Checkout) -> str:
    """Return how many files differ from the commit, and the first of them."""
    shown = ", ".join(checkout.changed[:_SHOWN_PATHS])
    more = ", …" if len(checkout.changed) > _SHOWN_PATHS else ""
    count = len(checkout.changed)
    return f"{count} files differ from commit {checkout.commit}, or are not in it: {shown}{more}"


def cut_notes(changelog: str, version: str) -> str:
    """Return the section of the version, without its heading; BadSpec without one.

    Headings that count: `## 0.2.0`, `## [0.2.0]`, either with ` - 2026-11-27` after it. Where the
    version has no section yet, `## Unreleased` is its: of what is released into one's own registry.
    """
    sections = {
        heading[1]: heading[2].strip()
        for heading in re.finditer(
            r"^## \[?([^\]\s]+)\]?[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
        )
    }
    notes = sections.get(version) or sections.get(_UNRELEASED)
    if not notes:
        raise BadSpec(
            f"CHANGELOG.md has neither a section `## {version} - YYYY-MM-DD` nor one "
            f"`## {_UNRELEASED}`, from which release notes are made."
        )
    return notes + "\n"
