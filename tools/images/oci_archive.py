"""An image as one file that containerd imports: the OCI image layout, in a tar archive.

    oci-layout              the version of the layout
    index.json              one manifest: its digest, its size, the image's name
    blobs/sha256/<digest>   manifest, configuration and each layer, named by what is in them

The archive is written here and not by a builder, so that both builders' archives of one image are
the same bytes at every build: what is not in the image, such as dates of files, is left out.
Archives that buildah itself writes of one image, a second apart, differed in 14 of 7,168 bytes.
What a user gains: the checksum of an archive says whether two builds made the same image.

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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_NAME = "org.opencontainers.image.ref.name"
"""The annotation by which containerd names what it imports; without it an image has no name."""
_WHITEOUT = ".wh."
"""What the name of a file begins with that stands for one of a lower layer, which is gone."""
_GZIP_LEVEL = 6
"""What gzip does by itself, and about what a registry's clients send."""
_CHUNK_BYTES = 1 << 20
"""Read at once: a layer may have half a gigabyte."""


@dataclass(frozen=True)
class StoredArchive:
    """An archive, and the file beside it that says what it is: spark.tar and spark.state.

    spark.state    1f3a5c…      the key of what the image was made of
                   2215a050     the key of checks that it passed, one on each line
    """

    file: Path
    """Of the archive; the other one is named after it."""
    key: str
    """Of the state that is wanted; `is_current` says whether the archive is of it."""

    def is_current(self) -> bool:
        """Return whether the archive is there and of the wanted state."""
        return self.file.is_file() and self._read_notes()[:1] == [self.key]

    def has_passed(self, checks: str) -> bool:
        """Return whether the archive of the wanted state passed the checks of that key."""
        return self.is_current() and checks in self._read_notes()[1:]

    def note_passed(self, checks: str) -> None:
        """Note that the archive, which is current, passed the checks of that key."""
        self._note([*self._read_notes(), checks])

    @contextmanager
    def replace(self) -> Iterator[Path]:
        """Lend a path for a new archive, which takes the place of the old one at the end."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        made = self.file.with_suffix(".part")
        yield made
        # In this order: whatever is cut off between two of them leaves an archive of no state,
        # which is made again, and none that is taken for another.
        self._state.unlink(missing_ok=True)
        made.rename(self.file)
        self._note([self.key])

    @property
    def _state(self) -> Path:
        return self.file.with_suffix(".state")

    def _read_notes(self) -> list[str]:
        return self._state.read_text("utf-8").split() if self._state.is_file() else []

    def _note(self, lines: Iterable[str]) -> None:
        self._state.write_text("\n".join([*lines, ""]), encoding="utf-8")


def write(folder: Path, name: str, archive: Path) -> None:
    """Make the archive of the image that lies in the folder as the transport `dir:` left it.

    There a blob is a file that is called after its digest, without `sha256:` before it.
    """
    _write((folder / "manifest.json").read_bytes(), folder, name, archive)


def write_layout(layout: Path, name: str, archive: Path) -> None:
    """Make the archive of the one image of a layout in a folder."""
    folder = layout / "blobs" / "sha256"
    manifest = (folder / read_layout_digest(layout).partition(":")[2]).read_bytes()
    _write(manifest, folder, name, archive)


def read_layout_digest(layout: Path) -> str:
    """Return the digest of the one image of a layout in a folder, `sha256:` before it."""
    index = json.loads((layout / "index.json").read_text(encoding="utf-8"))
    return str(index["manifests"][0]["digest"])


def _write(manifest: bytes, folder: Path, name: str, archive: Path) -> None:
    # The manifest goes in as the builder wrote it: parsed and written anew it would have another
    # digest, and an image must have one digest in archive, cluster and registry.
    own = _compute_digest(manifest)
    named = {"mediaType": _MANIFEST, "digest": own, "size": len(manifest)}
    index = {"schemaVersion": 2, "manifests": [{**named, "annotations": {_NAME: name}}]}
    described = json.loads(manifest)
    # Neither compressed nor in another order than this: the same image gives the same bytes.
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        _add(tar, _name_blob(own), manifest)
        # Two layers may be equal, such as empty ones; a tar would hold the blob twice.
        digests = [blob["digest"] for blob in (described["config"], *described["layers"])]
        for digest in dict.fromkeys(digests):
            tar.add(folder / digest.partition(":")[2], _name_blob(digest), filter=_make_plain)


def read_digest(archive: Path) -> str:
    """Return the digest of the archive's one image, `sha256:` before it; TarError without one."""
    with tarfile.open(archive) as tar:
        return str(_read_json(tar, "index.json")["manifests"][0]["digest"])


def read_layers(archive: Path) -> list[tuple[str, int, int]]:
    """Return digest, bytes, and bytes as gzip would send them of each layer, lowest first.

    ("sha256:1f…", 127_000_000, 48_000_000), ("sha256:88…", ...): a change of ours is in the last
    ones alone if all digests before them are those of the archive before.
    """
    with tarfile.open(archive) as tar:
        manifest = _read_json(
            tar, _name_blob(_read_json(tar, "index.json")["manifests"][0]["digest"])
        )
        return [
            (layer["digest"], layer["size"], _count_gzip_bytes(tar, layer["digest"]))
            for layer in manifest["layers"]
        ]


def measure_files(archive: Path) -> dict[str, int]:
    """Return the bytes of each file of the archive's image by its path, without a leading slash.

    As they are when all layers lie on each other. A file of several names counts under the first.

        layer 1    etc/motd 286                     {"etc/motd": 286}
        layer 2    etc/motd 12, etc/.wh.hosts       {"etc/motd": 12}, and no etc/hosts
    """
    files: dict[str, int] = {}
    with tarfile.open(archive) as tar:
        manifest = _read_json(
            tar, _name_blob(_read_json(tar, "index.json")["manifests"][0]["digest"])
        )
        for layer in manifest["layers"]:
            # As a stream: the blob itself is a member of a tar, and a layer may be large.
            with tarfile.open(
                fileobj=tar.extractfile(_name_blob(layer["digest"])), mode="r|*"
            ) as members:
                for member in members:
                    path = member.name.removeprefix("./")
                    folder, _, name = path.rpartition("/")
                    if name.startswith(_WHITEOUT):
                        files.pop(f"{folder}/{name.removeprefix(_WHITEOUT)}".lstrip("/"), None)
                    else:
                        files[path] = member.size if member.isreg() else 0
    return files


def _count_gzip_bytes(tar: tarfile.TarFile, digest: str) -> int:
    """Count what compressing the layer gives, in bytes, with neither file nor memory for it."""
    counted = _Counted()
    blob = tar.extractfile(_name_blob(digest))
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


def _read_json(tar: tarfile.TarFile, member: str) -> Any:
    file = tar.extractfile(member)
    if file is None:
        raise tarfile.ReadError(f"{member} is not a file")
    return json.load(file)


def _compute_digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _name_blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    # A new TarInfo has the date 0, owner 0 and mode 644, whoever writes it.
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _make_plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member without date, owner and mode of the file, so that an archive repeats."""
    plain = tarfile.TarInfo(member.name)
    plain.size = member.size
    return plain
