"""The pictures of `icdc ui` are of the page as it is, which is known without a browser."""

import struct
import zlib
from pathlib import Path

import pytest

import page_pictures
from icdc_cli.commands.ui import elements

pytestmark = pytest.mark.unit


def list_chunks(png: bytes) -> list[bytes]:
    """Return the kinds of the chunks of a picture, whose checksums are right."""
    kinds, at = [], 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        body = png[at + 4 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length) == (zlib.crc32(body),)
        kinds.append(body[:4])
        at += 12 + length
    return kinds


@pytest.mark.parametrize("path", page_pictures.PICTURES.values(), ids=lambda path: path.name)
def test_a_picture_is_small_and_has_a_mark(path: Path) -> None:
    png = path.read_bytes()
    assert len(png) <= page_pictures.MAX_BYTES
    assert list_chunks(png)[:2] == [b"IHDR", b"tEXt"]
    assert len(page_pictures.read_mark(png).decode()) == 64


def test_a_page_that_has_changed_needs_new_pictures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert page_pictures.main(["--check"]) == 0
    monkeypatch.setitem(elements._RAW, "script", "another script, which is not seen")
    assert page_pictures.main(["--check"]) == 0
    monkeypatch.setitem(elements._RAW, "style", "h1 { color: red }")
    assert page_pictures.main(["--check"]) == 1
    assert capsys.readouterr().err.count("run `make pictures`") == 2


@pytest.mark.parametrize("png", [b"", b"\x89PNG\r\n\x1a\n", b"text"])
def test_another_file_has_no_mark(png: bytes) -> None:
    assert page_pictures.read_mark(png) == b""
