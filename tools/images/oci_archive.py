"""An image as one file that containerd imports: the OCI image layout, in a tar archive.

Layers lie in it as they are: compressing and unpacking them costs more than a disk does, and their
digests then say what is in them, whatever compresses them later. Knows nothing of builders but the
forms in which they leave an image in a folder: blobs named by their digests, and a manifest beside
them (the `dir:` transport of buildah) or the layout itself (BuildKit).
"""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_NAME = "org.opencontainers.image.ref.name"
_GZIP_LEVEL = 6
_CHUNK_BYTES = 1 << 20


def write(folder: Path, name: str, archive: Path) -> None:
    """Makes the archive of the image that lies in the folder."""
    _write((folder / "manifest.json").read_bytes(), folder, name, archive)


def write_layout(layout: Path, name: str, archive: Path) -> None:
    """Make the archive of the one image of a layout in a folder."""
    folder = layout / "blobs" / "sha256"
    manifest = (folder / layout_digest(layout).partition(":")[2]).read_bytes()
    _write(manifest, folder, name, archive)


def layout_digest(layout: Path) -> str:
    """The digest of the one image of a layout in a folder."""
    index = json.loads((layout / "index.json").read_text(encoding="utf-8"))
    return str(index["manifests"][0]["digest"])


def _write(manifest: bytes, folder: Path, name: str, archive: Path) -> None:
    own = _digest(manifest)
    named = {"mediaType": _MANIFEST, "digest": own, "size": len(manifest)}
    index = {"schemaVersion": 2, "manifests": [{**named, "annotations": {_NAME: name}}]}
    described = json.loads(manifest)
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        _add(tar, _blob(own), manifest)
        # Two layers may be equal, such as empty ones; a tar would hold the blob twice.
        digests = [blob["digest"] for blob in (described["config"], *described["layers"])]
        for digest in dict.fromkeys(digests):
            tar.add(folder / digest.partition(":")[2], _blob(digest), filter=_plain)


def digest(archive: Path) -> str:
    """The digest of the image."""
    with tarfile.open(archive) as tar:
        return str(_json(tar, "index.json")["manifests"][0]["digest"])


def layers(archive: Path) -> list[tuple[str, int, int]]:
    """Digest and bytes of each layer, lowest first, and its bytes as gzip would send them."""
    with tarfile.open(archive) as tar:
        manifest = _json(tar, _blob(_json(tar, "index.json")["manifests"][0]["digest"]))
        return [
            (layer["digest"], layer["size"], _gzip_bytes(tar, layer["digest"]))
            for layer in manifest["layers"]
        ]


def _gzip_bytes(tar: tarfile.TarFile, digest: str) -> int:
    counted = _Counted()
    blob = tar.extractfile(_blob(digest))
    if blob is None:
        raise tarfile.ReadError(f"{digest} is not a file")
    with gzip.GzipFile(fileobj=counted, mode="wb", compresslevel=_GZIP_LEVEL, mtime=0) as packed:
        while chunk := blob.read(_CHUNK_BYTES):
            packed.write(chunk)
    return counted.bytes


class _Counted(io.RawIOBase):
    """Keeps nothing of what is written but how much it was."""

    bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.bytes += len(data)
        return len(data)


def _json(tar: tarfile.TarFile, member: str) -> Any:
    file = tar.extractfile(member)
    if file is None:
        raise tarfile.ReadError(f"{member} is not a file")
    return json.load(file)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member without date, owner and mode of the file, so that an archive repeats."""
    plain = tarfile.TarInfo(member.name)
    plain.size = member.size
    return plain
