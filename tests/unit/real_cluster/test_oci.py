"""Images of one program, and what an archive says of itself."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from icdc_testing.real_cluster.node import images, oci

pytestmark = pytest.mark.unit


def test_an_archive_tells_the_name_and_the_digest_of_its_image(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    archive = tmp_path / "image.tar"
    oci.write(archive, "shop/program:1", program)
    (image,) = oci.list_images(archive)
    assert image.name == "shop/program:1"
    assert image.digest.startswith("sha256:")


def test_the_same_program_gives_the_same_image(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    archives = [tmp_path / "one.tar", tmp_path / "two.tar"]
    for archive in archives:
        oci.write(archive, "shop/program:1", program)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    program.write_bytes(b"\x7fELF, another")
    oci.write(archives[1], "shop/program:1", program)
    assert oci.list_images(archives[0])[0].digest != oci.list_images(archives[1])[0].digest


def test_an_image_is_put_together_again_without_what_is_there(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    first, whole, part = (tmp_path / f"{name}.tar" for name in ("first", "whole", "part"))
    oci.write(first, "shop/program:1", program)
    with tarfile.open(first) as tar:
        tar.extractall(tmp_path, filter="data")
    blobs, (image,) = tmp_path / "blobs" / "sha256", oci.list_images(first)
    oci.collect(whole, "shop/program:2", image.digest, blobs)
    assert oci.list_images(whole) == [oci.Described("shop/program:2", image.digest)]
    digest = f"sha256:{max(blobs.iterdir()).name}"
    oci.collect(part, "shop/program:2", image.digest, blobs, without=[digest])
    with tarfile.open(whole) as all_of_it, tarfile.open(part) as some:
        left_out = set(all_of_it.getnames()) - set(some.getnames())
    assert left_out == {f"blobs/sha256/{digest.removeprefix('sha256:')}"}


def read_blob(blobs: Path, digest: str) -> Any:
    return json.loads((blobs / digest.removeprefix("sha256:")).read_bytes())


def unpack(archive: Path, folder: Path) -> tuple[Path, str]:
    """Return the blobs of an archive in a folder, and the digest of its image."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (image,) = oci.list_images(archive)
    return folder / "blobs" / "sha256", image.digest


def test_an_image_on_another_has_its_layers_below_and_is_stored_without_them(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    base, more = tmp_path / "base.tar", tmp_path / "more.tar"
    oci.write(base, "shop/program:1", program, folder="usr/bin")
    base_blobs, base_digest = unpack(base, tmp_path / "base")
    manifest_file = base_blobs / base_digest.removeprefix("sha256:")
    oci.extend(more, "shop/program:2", manifest_file, {"a": b"1"}, {"Entrypoint": ["/a"]})
    blobs, digest = unpack(more, tmp_path / "more")
    below, manifest = read_blob(base_blobs, base_digest), read_blob(blobs, digest)
    assert manifest["layers"][:-1] == below["layers"]
    stored = {path.name for path in blobs.iterdir()}
    assert below["layers"][0]["digest"].removeprefix("sha256:") not in stored
    assert manifest["layers"][-1]["digest"].removeprefix("sha256:") in stored
    config = read_blob(blobs, manifest["config"]["digest"])
    assert len(config["rootfs"]["diff_ids"]) == 2
    assert config["config"]["Entrypoint"] == ["/a"]
    assert config["config"]["User"] == "185:185"
    assert read_blob(base_blobs, below["config"]["digest"])["config"]["Entrypoint"] == [
        "/usr/bin/program"
    ]
    oci.extend(more, "shop/program:2", manifest_file, {"a": b"1"}, {}, whole=True)
    whole, _ = unpack(more, tmp_path / "whole")
    assert {layer["digest"].removeprefix("sha256:") for layer in manifest["layers"]} <= {
        path.name for path in whole.iterdir()
    }


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("pause", "localhost/pause:latest"),
        ("shop/app", "localhost/shop/app:latest"),
        ("shop/app:1", "localhost/shop/app:1"),
        ("localhost/app:1", "localhost/app:1"),
        ("registry.test:5000/shop/app", "registry.test:5000/shop/app:latest"),
        ("registry.test/shop/app:1", "registry.test/shop/app:1"),
        ("", ""),
    ],
)
def test_names_are_those_by_which_the_kubelet_asks(name: str, full: str) -> None:
    assert images.complete_name(name) == full
