"""An archive holds an image whole, is the same for the same image, and tells what is in it."""

import hashlib
import json
import os
import tarfile
from pathlib import Path

import pytest

import oci_archive
from oci_archive import StoredArchive

pytestmark = pytest.mark.unit

NAME = "iceberg-cdc-operator/operator:1"
LAYERS = (b"lowest" * 1000, b"highest")


def _make_image(folder: Path, *, date: int = 0) -> Path:
    """Make the folder that buildah's transport `dir:` makes."""
    folder.mkdir()
    described = [_write_blob(folder, content) for content in (b"{}", *LAYERS)]
    manifest = {"schemaVersion": 2, "config": described[0], "layers": described[1:]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for file in folder.iterdir():
        os.utime(file, (date, date))
    return folder


def _write_blob(folder: Path, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    (folder / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def test_the_archive_is_an_image_layout_whose_blobs_are_named_by_what_they_hold(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "a.tar"
    oci_archive.write(_make_image(tmp_path / "image"), NAME, archive)
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    blobs = {name: data for name, data in contents.items() if name.startswith("blobs/sha256/")}
    assert json.loads(contents["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (named,) = json.loads(contents["index.json"])["manifests"]
    assert named["annotations"] == {"org.opencontainers.image.ref.name": NAME}
    assert named["digest"].replace("sha256:", "blobs/sha256/") in blobs
    assert all(name[13:] == hashlib.sha256(data).hexdigest() for name, data in blobs.items())
    assert set(LAYERS) < set(blobs.values())


def test_the_same_image_gives_the_same_archive(tmp_path: Path) -> None:
    archives = [tmp_path / "a.tar", tmp_path / "b.tar"]
    for date, archive in enumerate(archives):
        oci_archive.write(_make_image(tmp_path / str(date), date=date), NAME, archive)
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_digest_and_layers_are_read_from_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    folder = _make_image(tmp_path / "image")
    oci_archive.write(folder, NAME, archive)
    manifest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    assert oci_archive.read_digest(archive) == f"sha256:{manifest}"
    layers = oci_archive.read_layers(archive)
    assert [size for _, size, _ in layers] == [len(content) for content in LAYERS]
    assert 0 < layers[0][2] < len(LAYERS[0])


def test_a_layout_gives_the_archive_that_its_image_gives(tmp_path: Path) -> None:
    image = _make_image(tmp_path / "image")
    layout = tmp_path / "layout"
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    manifest = (image / "manifest.json").read_bytes()
    own = _write_blob(blobs, manifest)
    for file in image.iterdir():
        if file.name != "manifest.json":
            (blobs / file.name).write_bytes(file.read_bytes())
    (layout / "index.json").write_text(json.dumps({"manifests": [own]}))
    archives = [tmp_path / "a.tar", tmp_path / "b.tar"]
    oci_archive.write(image, NAME, archives[0])
    oci_archive.write_layout(layout, NAME, archives[1])
    assert oci_archive.read_layout_digest(layout) == own["digest"]
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_an_archive_is_known_by_the_state_that_it_is_of_and_the_checks_that_it_passed(
    tmp_path: Path,
) -> None:
    first = StoredArchive(tmp_path / "new" / "spark.tar", "state-1")
    second = StoredArchive(first.file, "state-2")
    assert not first.is_current()
    with first.replace() as made:
        made.write_text("first")
    first.note_passed("checks-1")
    assert (first.has_passed("checks-1"), first.has_passed("checks-2")) == (True, False)
    assert not second.is_current()
    assert not second.has_passed("checks-1")
    with second.replace() as made:
        made.write_text("second")
    assert (first.is_current(), second.is_current()) == (False, True)
    assert not second.has_passed("checks-1")
    second.file.unlink()
    assert not second.is_current()


def test_a_build_that_fails_leaves_the_archive_that_was_there(tmp_path: Path) -> None:
    archive = StoredArchive(tmp_path / "spark.tar", "state")
    with archive.replace() as made:
        made.write_text("whole")
    with pytest.raises(FileNotFoundError), archive.replace() as made:
        (made / "no-folder").write_text("half")
    assert archive.is_current()
    assert archive.file.read_text() == "whole"
