"""Takes the pictures of `icdc ui` in the README, light and dark, with Chromium.

    page_pictures.py --write    takes them anew; as root on Debian it installs what it needs
    page_pictures.py --check    fails where the page has changed since; needs no browser

A picture cannot be compared with what another browser draws, so each holds a hash of the page that
it shows, without the script: of its text and its style. The pipelines are those of the tests in
browsers, and the font is one that anybody can have, whatever the host's own one is.
"""

import argparse
import hashlib
import re
import struct
import sys
import tempfile
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import host_packages
from icdc_api.errors import IcdcError
from icdc_cli.commands.ui import overview
from icdc_cli.commands.ui.cells import Frame
from icdc_cli.commands.ui.elements import render_document
from icdc_cli.commands.ui.readers import PageReading, parse_resource
from icdc_cli.embedded import programs
from icdc_testing.operator.deciding.shown_pipelines import ShownPipelines
from icdc_testing.user_programs.chromium import run_chromium
from pages import ROOT

PICTURES = {
    "light": ROOT / "docs" / "images" / "ui.png",
    "dark": ROOT / "docs" / "images" / "ui-dark.png",
}
"""By the scheme that the reader prefers."""
NOW = datetime(2026, 11, 28, 9, 30, tzinfo=UTC)
WIDTH, SCALE = 1060, 2
"""Of the window, in units of CSS, and pixels for each: sharp also where the screen is."""
MARGIN = 44
"""From the top of the last line to the end of the picture."""
MAX_BYTES = 150_000
PACKAGES = ("chromium", "fonts-dejavu-core", "fonts-inter", "pngquant")

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEYWORD = b"icdc-page"
_SECONDS = 60.0
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts/opentype/inter</dir>
  <dir>/usr/share/fonts/truetype/dejavu</dir>
  <cachedir>{folder}/fonts</cachedir>
  <match target="pattern">
    <test name="family"><string>system-ui</string></test>
    <edit name="family" mode="assign" binding="strong"><string>Inter</string></edit>
  </match>
</fontconfig>
"""


def render_page() -> str:
    """Return the page that the pictures show, without its script."""
    pipelines = tuple(map(parse_resource, ShownPipelines(NOW).list_all()))
    reading = PageReading("context production, all namespaces", NOW, pipelines)
    page = render_document(overview.build_overview(Frame("/", NOW), reading))
    return re.sub(r"<script>.*?</script><noscript>.*?</noscript>", "", page, flags=re.DOTALL)


def compute_mark(page: str) -> bytes:
    """Return the hash of a page, and of the window that it is drawn in."""
    return hashlib.sha256(f"{WIDTH} {SCALE} {page}".encode()).hexdigest().encode()


def read_mark(png: bytes) -> bytes:
    """Return the mark that `add_mark` has put into a picture; empty for any other file."""
    _, _, rest = png.partition(b"tEXt" + _KEYWORD + b"\0")
    return rest[:64]


def add_mark(png: bytes, mark: bytes) -> bytes:
    """Return the picture with the mark as a text behind its head."""
    # The head is a chunk of 13 bytes: length, type, content, checksum.
    end = len(_SIGNATURE) + 4 + 4 + 13 + 4
    body = b"tEXt" + _KEYWORD + b"\0" + mark
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:end] + chunk + png[end:]


def take_pictures(page: str) -> dict[str, bytes]:
    """Return the picture of each scheme, with few colours, marked."""
    with tempfile.TemporaryDirectory(prefix="icdc-pictures-") as name:
        folder = Path(name)
        fonts, document = folder / "fonts.conf", folder / "page.html"
        fonts.write_text(_FONTS.format(folder=folder), encoding="utf-8")
        document.write_text(page, encoding="utf-8")
        taken = {}
        with run_chromium({"FONTCONFIG_FILE": str(fonts)}) as browser:
            for scheme in PICTURES:
                browser.prefer(scheme)
                browser.resize(WIDTH, scale=SCALE)
                browser.open(document.as_uri())
                # As high as the page is; below its last line there is as much as above the first.
                bottom = browser.evaluate("document.querySelector('footer p').offsetTop")
                browser.resize(WIDTH, bottom + MARGIN, scale=SCALE)
                taken[scheme] = add_mark(
                    _reduce(browser.capture(), folder / f"{scheme}.png"), compute_mark(page)
                )
    return taken


def _reduce(png: bytes, path: Path) -> bytes:
    """Return the picture with a palette, in which a page of few colours takes half as much."""
    path.write_bytes(png)
    command = ["pngquant", "--force", "--speed", "1", "--strip", "--output", str(path), str(path)]
    programs.run_program(command, name="pngquant", seconds=_SECONDS)
    return path.read_bytes()


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the pictures, or check them; 1 where one shows another page."""
    parser = argparse.ArgumentParser(description="takes the pictures of icdc ui")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="take the pictures")
    action.add_argument("--check", action="store_true", help="fail when the page has changed")
    options = parser.parse_args(arguments)
    page = render_page()
    if options.write:
        try:
            host_packages.ensure(PACKAGES)
            taken = take_pictures(page)
        except IcdcError as error:
            sys.stderr.write(f"error: {error.message}\n")
            return 1
        for scheme, png in taken.items():
            assert len(png) <= MAX_BYTES, f"{scheme}: {len(png)} bytes, at most {MAX_BYTES}"
            PICTURES[scheme].parent.mkdir(exist_ok=True)
            PICTURES[scheme].write_bytes(png)
        return 0
    stale = [path for path in PICTURES.values() if not _is_of(path, page)]
    for path in stale:
        where = path.relative_to(ROOT)
        sys.stderr.write(f"{where} shows another page than icdc ui: run `make pictures`\n")
    return 1 if stale else 0


def _is_of(path: Path, page: str) -> bool:
    return path.is_file() and read_mark(path.read_bytes()) == compute_mark(page)


if __name__ == "__main__":
    sys.exit(main())
