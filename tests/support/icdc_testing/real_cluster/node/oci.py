"""Makes an image of one program without building: an OCI archive that containerd loads.

Knows the image format and no container runtime. The same program gives the same bytes.
"""

import gzip
import hashlib
import io
import json
import posixpath
import tarfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MEDIA = "application/vnd.oci.image"
NAME_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
"""By which an archive says what its image is called."""


@dataclass(frozen=True)
class Described:
    """An image in an archive: its name, as far as the archive gives one, and its digest."""

    name: str
    digest: str


def list_images(archive: Path) -> list[Described]:
    """Return the images that an OCI archive holds."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile("index.json")
        assert member is not None, f"{archive} has no index.json"
        index = json.load(member)
    images = []
    for manifest in index["manifests"]:
        notes = manifest.get("annotations", {})
        name = next((notes[key] for key in NAME_ANNOTATIONS if key in notes), "")
        images.append(Described(name, manifest["digest"]))
    return images


def collect(
    archive: Path, name: str, digest: str, blobs: Path, *, without: Collection[str] = ()
) -> None:
    """Write an archive of an image from a folder of blobs, named by their digests.

    What `without` names is left out: a store that has it finds it there.
    """
    file = blobs / _strip_algorithm(digest)
    manifest = json.loads(file.read_bytes())
    parts = [
        digest,
        manifest["config"]["digest"],
        *(layer["digest"] for layer in manifest["layers"]),
    ]
    size, kind = file.stat().st_size, manifest.get("mediaType", f"{_MEDIA}.manifest.v1+json")
    entry = {"mediaType": kind, "digest": digest, "size": size}
    entry["annotations"] = dict.fromkeys(NAME_ANNOTATIONS, name)
    with tarfile.open(archive, mode="w") as tar:
        for file_name, data in _build_frame([entry]).items():
            _add(tar, file_name, data, mode=0o644)
        _add_blobs(tar, blobs, (part for part in parts if part not in without))


def write(
    archive: Path, name: str, program: Path, *, folder: str = "", architecture: str = "amd64"
) -> None:
    """Write an image whose entry point is the program, which must not need any other file."""
    path = posixpath.join(folder, program.name)
    layer = _build_tar({path: program.read_bytes()}, mode=0o755)
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": [f"/{path}"], "User": "185:185"},
        "rootfs": {"type": "layers", "diff_ids": [_compute_digest(layer)]},
    }
    packed = gzip.compress(layer, 1, mtime=0)
    _write(archive, name, config, [packed], f"{_MEDIA}.layer.v1.tar+gzip")


def write_files(archive: Path, name: str, *files: Mapping[str, bytes]) -> None:
    """Write an image of layers of files, lowest first, not compressed: as `make images` does."""
    layers = [_build_tar(layer, mode=0o644) for layer in files]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [_compute_digest(layer) for layer in layers]},
    }
    _write(archive, name, config, layers, f"{_MEDIA}.layer.v1.tar")


def extend(
    archive: Path,
    name: str,
    base: Path,
    files: Mapping[str, bytes],
    settings: Mapping[str, Any],
    *,
    whole: bool = False,
) -> None:
    """Write an image with one layer of files more than another, and with other settings.

    `base` is the manifest of the other, in a store of blobs. The layers of the other are in the
    archive only if it is `whole`: else the store that loads it must have them.
    """
    manifest = json.loads(base.read_bytes())
    config_file = base.with_name(_strip_algorithm(manifest["config"]["digest"]))
    config = json.loads(config_file.read_bytes())
    layer = _build_tar(files, mode=0o644)
    config["config"] = {**config["config"], "Cmd": None, **settings}
    config["rootfs"]["diff_ids"].append(_compute_digest(layer))
    # It would have to say as much of each layer, and nobody reads it.
    config.pop("history", None)
    _write(archive, name, config, [layer], f"{_MEDIA}.layer.v1.tar", below=manifest["layers"])
    if whole:
        with tarfile.open(archive, mode="a") as tar:
            _add_blobs(tar, base.parent, (part["digest"] for part in manifest["layers"]))


def _write(
    archive: Path,
    name: str,
    config: Mapping[str, Any],
    layers: Iterable[bytes],
    media_type: str,
    *,
    below: Sequence[dict[str, Any]] = (),
) -> None:
    blobs: dict[str, bytes] = {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": _store(blobs, f"{_MEDIA}.config.v1+json", json.dumps(config).encode()),
        "layers": [*below, *(_store(blobs, media_type, layer) for layer in layers)],
    }
    entry = _store(blobs, manifest["mediaType"], json.dumps(manifest).encode())
    entry["annotations"] = dict.fromkeys(NAME_ANNOTATIONS, name)
    files = {
        **_build_frame([entry]),
        **{f"blobs/sha256/{digest}": data for digest, data in blobs.items()},
    }
    archive.write_bytes(_build_tar(files, mode=0o644))


def _build_frame(manifests: list[dict[str, Any]]) -> dict[str, bytes]:
    """Return the files of an archive beside its blobs, by path."""
    index = {"schemaVersion": 2, "manifests": manifests}
    return {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps(index).encode(),
    }


def _strip_algorithm(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _store(blobs: dict[str, bytes], media_type: Any, data: bytes) -> dict[str, Any]:
    digest = _compute_digest(data)
    blobs[digest.removeprefix("sha256:")] = data
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def _compute_digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _build_tar(files: Mapping[str, bytes], *, mode: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            _add(tar, name, data, mode=mode)
    return out.getvalue()


def _add_blobs(tar: tarfile.TarFile, blobs: Path, digests: Iterable[str]) -> None:
    for digest in map(_strip_algorithm, dict.fromkeys(digests)):
        tar.add(blobs / digest, f"blobs/sha256/{digest}")


def _add(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    tar.addfile(member, io.BytesIO(data))
