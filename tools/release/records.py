"""What a stranger checks a release by: checksums of all files, and where they come from.

The statement has the form of in-toto, with the predicate of SLSA: which commit and which locks the
files were made of. It is not signed, so it proves nothing against somebody who can replace the
files; it says what to build again and to compare. Pure but for reading the files.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import image_context
from released_image import ReleasedImage
from wanted import WantedRelease

SUMS = "SHA256SUMS"
PROVENANCE = "provenance.json"
_KIND = "https://icebergcdc.dev/make-release/v1"
"""The type of the build, which says what its parameters mean. A name: nothing is served there."""
_LOCKS = "tools/locks"
_JARS = "operator/icdc_cli/embedded/jars.lock"


def hash_file(path: Path) -> str:
    """Return the SHA-256 of the file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(folder: Path) -> Path:
    """Write the checksums of all other files of the folder, for `sha256sum`; return the path."""
    sums = folder / SUMS
    files = sorted(path for path in folder.iterdir() if path != sums)
    lines = [f"{hash_file(path)}  {path.name}\n" for path in files]
    sums.write_text("".join(lines), encoding="utf-8")
    return sums


def write_provenance(
    release: WantedRelease, files: Iterable[Path], images: Sequence[ReleasedImage]
) -> Path:
    """Write the statement about the files and images; return its path."""
    subjects = [{"name": path.name, "digest": {"sha256": hash_file(path)}} for path in files]
    subjects += [
        {
            "name": release.name_in_registry(image.repository),
            "digest": {"sha256": image.digest.partition(":")[2]},
        }
        for image in images
    ]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _KIND,
                "externalParameters": {"VERSION": release.version, "REGISTRY": release.registry},
                "internalParameters": {"SOURCE_DATE_EPOCH": release.epoch},
                "resolvedDependencies": _list_sources(release),
            },
            # A person's host or a CI machine: the statement is not signed, so a name is a claim.
            "runDetails": {"builder": {"id": f"{_KIND}/any-host"}},
        },
    }
    path = release.folder / PROVENANCE
    path.write_text(json.dumps(statement, indent=1) + "\n", encoding="utf-8")
    return path


def _list_sources(release: WantedRelease) -> list[dict[str, str | dict[str, str]]]:
    """Return the commit, and the locks that fix every package and jar of both images."""
    root = image_context.ROOT
    locks = [*sorted((root / _LOCKS).glob("*.lock")), root / _JARS]
    sources: list[dict[str, str | dict[str, str]]] = [
        {"name": path.relative_to(root).as_posix(), "digest": {"sha256": hash_file(path)}}
        for path in locks
    ]
    return [{"name": "checkout", "digest": {"gitCommit": release.checkout.revision}}, *sources]
