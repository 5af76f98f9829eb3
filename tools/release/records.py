"""Records by which a stranger checks a release: checksums of all files, and where they come from.

The statement has the form of in-toto, with the predicate of SLSA: which commit and which locks the
files were made of, what to build again and to compare. By itself it proves nothing against somebody
who can replace the files; a signature of the checksums covers it. Pure but for reading the files.
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
_LOCKS = (
    *("tools/locks/build.lock", "tools/locks/operator.lock", "tools/locks/spark.lock"),
    "operator/icdc_cli/embedded/jars.lock",
    # Of the plugin.
    "tools/locks/cli.lock",
)


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
                "resolvedDependencies": _list_sources(release, images),
            },
            # A person's host or a CI machine, whose name nothing here could show.
            "runDetails": {"builder": {"id": f"{_KIND}/any-host"}},
        },
    }
    path = release.folder / PROVENANCE
    path.write_text(json.dumps(statement, indent=1) + "\n", encoding="utf-8")
    return path


def _list_sources(
    release: WantedRelease, images: Sequence[ReleasedImage]
) -> list[dict[str, str | dict[str, str]]]:
    """Return the commit, the base image, and the locks that fix every package and jar.

    What the images have of Debian on top of the base is in their bills alone.
    """
    root = image_context.ROOT
    sources: list[dict[str, str | dict[str, str]]] = [
        {"name": "checkout", "digest": {"gitCommit": release.checkout.revision}}
    ]
    sources += [
        {"name": "layer of the base image", "digest": {"sha256": base.partition(":")[2]}}
        for base in sorted({image.base for image in images})
    ]
    sources += [{"name": lock, "digest": {"sha256": hash_file(root / lock)}} for lock in _LOCKS]
    return sources
