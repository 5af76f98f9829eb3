"""What an image's bytes are for is told of the files that are in it, each in one part."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import image_parts
import oci_archive
from image_context import ROOT

pytestmark = pytest.mark.unit


def _build_layer(files: Mapping[str, int], links: Mapping[str, str]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for path, size in files.items():
            member = tarfile.TarInfo(path)
            member.size = size
            tar.addfile(member, io.BytesIO(bytes(size)))
        for path, target in links.items():
            member = tarfile.TarInfo(path)
            member.type, member.linkname = tarfile.LNKTYPE, target
            tar.addfile(member)
    return written.getvalue()


def _write_archive(folder: Path, layers: Sequence[bytes]) -> Path:
    image = folder / "image"
    image.mkdir()
    described = []
    for content in (b"{}", *layers):
        digest = oci_archive._compute_digest(content)
        (image / digest.removeprefix("sha256:")).write_bytes(content)
        described.append({"digest": digest, "size": len(content)})
    manifest = {"config": described[0], "layers": described[1:]}
    (image / "manifest.json").write_text(json.dumps(manifest))
    oci_archive.write(image, "an/image:1", folder / "a.tar")
    return folder / "a.tar"


def test_files_are_measured_as_the_topmost_layer_leaves_them(tmp_path: Path) -> None:
    lower = _build_layer({"etc/motd": 286, "etc/hosts": 10, "usr/bin/perl": 3000}, {})
    upper = _build_layer({"./etc/motd": 12, "etc/.wh.hosts": 0}, {"usr/bin/perl5": "usr/bin/perl"})
    assert oci_archive.measure_files(_write_archive(tmp_path, [lower, upper])) == {
        "etc/motd": 12,
        "usr/bin/perl": 3000,
        "usr/bin/perl5": 0,
    }


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("opt/spark/jars/iceberg-aws-bundle-1.12.0.jar", "Iceberg's bundle for AWS, one file"),
        ("opt/spark/jars/iceberg-spark-runtime-4.1_2.13-1.12.0.jar", "Iceberg for Spark"),
        ("opt/venv/lib/python3.11/site-packages/pandas/core/api.py", "pandas"),
        ("opt/venv/lib/python3.11/site-packages/six.py", "other Python packages"),
        ("usr/lib/python3.11/json/decoder.py", "Python's own modules"),
        ("usr/lib/x86_64-linux-gnu/libssl.so.3", "Debian: libraries"),
        ("etc/motd", "Debian: programs, time zones, certificates, licences"),
    ],
)
def test_a_file_belongs_to_the_first_part_that_fits_its_path(
    path: str, part: str, tmp_path: Path
) -> None:
    archive = _write_archive(tmp_path, [_build_layer({path: 7}, {})])
    assert image_parts.measure_parts(archive) == {part: 7}


def test_the_page_on_images_has_a_line_for_every_part() -> None:
    page = (ROOT / "docs/images.md").read_text("utf-8")
    assert [part for part in image_parts.PARTS if f"| {part} |" not in page] == []
