"""An image as it is released: one archive whose bytes a registry stores as they are.

Archives of `make images` have layers without compression. Whoever pushes them compresses, each
program in its own way, so the digest would be known only afterwards. Here the layers are
compressed once, before anything is pushed: charts, notes and checksums then name the digest that
the registry gives, and a dry run makes the same charts as a release. Layers that a builder has
compressed already stay as they are.

    operator.tar (1.2.3, layers as they are)    operator-1.2.3.oci.tar (layers by gzip)
    manifest, configuration                     another manifest, the same configuration

What a user gains: a chart names its images by digest before anybody has pushed them. `skopeo copy`
with `--dest-compress-format` compresses too, but the host would need one program more, and it has
no part in what charts and notes are made of.

Bills of materials are read from the image, where builds put them. Knows no registry.
"""

import gzip
import hashlib
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import image_context
import oci_archive
from icdc_api.errors import BadSpec

BILLS = {
    "spdx.json": "usr/share/doc/iceberg-cdc-operator/sbom.spdx.json",
    "cdx.json": "usr/share/doc/iceberg-cdc-operator/sbom.cdx.json",
}
"""Paths of the bills of materials in both images, by how their files end in a release."""
_COMPRESSED = "application/vnd.oci.image.layer.v1.tar+gzip"
# That of `oci_archive`, which measures by it what a registry will hold.
_GZIP_LEVEL = 6


@dataclass(frozen=True)
class ReleasedImage:
    """An image in a release's folder."""

    target: str
    """The stage of the Dockerfile."""
    archive: Path
    """An OCI archive with compressed layers."""
    digest: str
    """Of its manifest, `sha256:` before it: in the archive as in any registry."""
    base: str
    """Of its lowest layer as it is unpacked: the base image, which has one layer."""

    @property
    def repository(self) -> str:
        """Its name without registry and tag."""
        return f"{image_context.REPOSITORY}/{self.target}"


def pack_image(built: Path, target: str, version: str, folder: Path) -> list[Path]:
    """Write archive and bills of a built archive's image into the folder; return their paths.

    BadSpec where the archive has no bill. The archive comes first.
    """
    archive = folder / f"{target}-{version}.oci.tar"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        _compress(built, Path(scratch))
        oci_archive.write(Path(scratch), image_context.name_image(target, version), archive)
    files = [archive]
    for ending, path in BILLS.items():
        file = folder / f"{target}-{version}.{ending}"
        file.write_bytes(_read_from_image(built, path))
        files.append(file)
    return files


def read_image(archive: Path, target: str) -> ReleasedImage:
    """Return the image of an archive that `pack_image` wrote."""
    with tarfile.open(archive) as tar:
        config = json.load(_open_blob(tar, _read_manifest(tar)["config"]["digest"]))
    base = config["rootfs"]["diff_ids"][0]
    return ReleasedImage(target, archive, oci_archive.read_digest(archive), base)


@contextmanager
def unpack_layout(image: ReleasedImage) -> Iterator[Path]:
    """Lend the image as a layout in a folder, which is the form that crane pushes as it is."""
    with tempfile.TemporaryDirectory(dir=image.archive.parent) as scratch:
        with tarfile.open(image.archive) as tar:
            tar.extractall(scratch, filter="data")
        yield Path(scratch)


def _compress(built: Path, into: Path) -> None:
    """Write manifest and blobs into the folder in the form that `oci_archive.write` reads."""
    with tarfile.open(built) as tar:
        manifest = _read_manifest(tar)
        config = manifest["config"]["digest"]
        _blob_path(into, config).write_bytes(_open_blob(tar, config).read())
        manifest["layers"] = [
            _compress_layer(layer, _open_blob(tar, layer["digest"]), into)
            for layer in manifest["layers"]
        ]
    (into / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _compress_layer(layer: dict[str, Any], blob: IO[bytes], into: Path) -> dict[str, Any]:
    """Write the layer compressed, as it is where it is that already; return how it is described."""
    if layer["mediaType"] == _COMPRESSED:
        with _blob_path(into, layer["digest"]).open("wb") as file:
            shutil.copyfileobj(blob, file, 1 << 20)
        return layer
    return {"mediaType": _COMPRESSED, **_compress_blob(blob, into)}


def _compress_blob(blob: IO[bytes], into: Path) -> dict[str, Any]:
    """Write the blob compressed, named by its new digest; return that and its bytes."""
    part = into / "part"
    # Without name and date in its head, so that the same layer gives the same bytes.
    with (
        part.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=_GZIP_LEVEL, fileobj=file, mtime=0) as packed,
    ):
        shutil.copyfileobj(blob, packed, 1 << 20)
    with part.open("rb") as made:
        digest = f"sha256:{hashlib.file_digest(made, 'sha256').hexdigest()}"
    size = part.stat().st_size
    part.rename(_blob_path(into, digest))
    return {"digest": digest, "size": size}


def _read_from_image(built: Path, path: str) -> bytes:
    """Return a file of the image, as the topmost layer that has it left it; BadSpec without one."""
    with tarfile.open(built) as tar:
        for layer in reversed(_read_manifest(tar)["layers"]):
            with tarfile.open(fileobj=_open_blob(tar, layer["digest"]), mode="r:*") as members:
                for member in members:
                    if member.name.removeprefix("./") == path:
                        return _open_member(members, member).read()
    raise BadSpec(f"The image in {built} has no {path}: build it anew by `make images`.")


def _read_manifest(tar: tarfile.TarFile) -> dict[str, Any]:
    index: Mapping[str, Any] = json.load(_open_member(tar, "index.json"))
    manifest: dict[str, Any] = json.load(_open_blob(tar, index["manifests"][0]["digest"]))
    return manifest


def _open_blob(tar: tarfile.TarFile, digest: str) -> IO[bytes]:
    return _open_member(tar, f"blobs/{digest.replace(':', '/')}")


def _open_member(tar: tarfile.TarFile, member: str | tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(member)
    if file is None:
        # As tarfile says that an archive is broken: `release` reports both alike.
        raise tarfile.ReadError(f"{member} is not a file")
    return file


def _blob_path(folder: Path, digest: str) -> Path:
    return folder / digest.partition(":")[2]
