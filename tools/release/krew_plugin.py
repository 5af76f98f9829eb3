"""The command line as a plugin of kubectl: an archive, and the manifest by which Krew installs it.

So that `kubectl krew install` gives `kubectl icdc` without a checkout and without pip in the user's
own Python. Archives of Krew hold what runs; ours holds the wheel, the lock of its packages and a
launcher, because the packages differ by system and Python version (kubectl-icdc says more).

    kubectl-icdc             launcher
    *.whl                    icdc
    requirements.lock        tools/locks/cli.lock
    LICENSE                  Krew refuses archives without one
"""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import yaml

import image_context
from wanted import WantedRelease

LAUNCHER = "kubectl-icdc"
MANIFEST = "icdc.yaml"
"""Named after the plugin, as Krew demands."""
DOWNLOADS = "https://downloads.example/iceberg-cdc-operator"
"""A placeholder: nothing is served there yet. `--archive` names a local file instead."""
_KEY_DIGITS = 16
_CAVEATS = (
    "Needs Python 3.11 or newer. The first call installs icdc and its packages, with checksums, "
    "from your package index into a folder of its own in ~/.cache/iceberg-cdc-operator."
)


def pack_plugin(release: WantedRelease, wheel: Path) -> list[Path]:
    """Write the archive and the manifest into the release's folder; return their paths."""
    archive = release.folder / f"{LAUNCHER}-{release.version}.tar.gz"
    root = image_context.ROOT
    lock = (root / "tools" / "locks" / "cli.lock").read_bytes()
    files = {
        LAUNCHER: (render_launcher(wheel, lock), 0o755),
        wheel.name: (wheel.read_bytes(), 0o644),
        "requirements.lock": (lock, 0o644),
        "LICENSE": ((root / "LICENSE").read_bytes(), 0o644),
    }
    # Without owners, umask and the time of the build: the same files give the same archive.
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name, (content, mode) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), mode, release.epoch
            tar.addfile(member, io.BytesIO(content))
    manifest = release.folder / MANIFEST
    described = describe_plugin(release.version, archive)
    manifest.write_text(yaml.safe_dump(described, sort_keys=False), encoding="utf-8")
    return [archive, manifest]


def render_launcher(wheel: Path, lock: bytes) -> bytes:
    """Return the launcher for this wheel and lock alone, whatever else is beside it.

    Its key changes with either, so that an environment of other contents is never taken for it.
    """
    key = hashlib.sha256(wheel.read_bytes() + lock).hexdigest()[:_KEY_DIGITS]
    text = (Path(__file__).parent / LAUNCHER).read_bytes()
    return text.replace(b"@WHEEL@", wheel.name.encode()).replace(b"@KEY@", key.encode())


def describe_plugin(version: str, archive: Path) -> dict[str, Any]:
    """Return the manifest: the archive with its checksum, for Linux and macOS."""
    supported = [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "icdc"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Follow Iceberg tables into OpenSearch",
            "description": "Shows, checks and steers pipelines of the iceberg-cdc-operator, which "
            "keep OpenSearch indices equal to Apache Iceberg tables.",
            "caveats": _CAVEATS,
            "platforms": [
                {
                    "selector": {"matchExpressions": supported},
                    "uri": f"{DOWNLOADS}/{version}/{archive.name}",
                    "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                    "bin": LAUNCHER,
                }
            ],
        },
    }
