"""Lists the versions of the site in one folder, each of which was built from its own release.

    FOLDER/0.2.0/…          the site of this checkout
    FOLDER/0.1.0/…          that of an earlier one, as it was built then
    FOLDER/versions.json    what the menu of every version shows, newest first
    FOLDER/index.html       leads to the newest

What a user gains: pages that fit the release that he runs, also after the next one. The list is
made of what is in the folder, so that no version can be lost or shown that is not there.
"""

import json
import re
from pathlib import Path

_VERSION = re.compile(r"\d+\.\d+\.\d+")
"""As releases are named (tools/release/wanted.py)."""
_FIRST_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={version}/index.html">
<title>iceberg-cdc-operator</title>
<a href="{version}/index.html">iceberg-cdc-operator {version}</a>
"""


def find_versions(folder: Path) -> list[str]:
    """Return the versions whose site is in the folder, newest first: 0.10.0 before 0.9.1."""
    names = (path.parent.name for path in folder.glob("*/index.html"))
    found = filter(_VERSION.fullmatch, names)
    return sorted(found, key=lambda name: [*map(int, name.split("."))], reverse=True)


def write_list(folder: Path) -> None:
    """Write the list of versions, in the form that the theme reads, and the page that leads on."""
    newest, *others = find_versions(folder)
    listed = [{"version": newest, "title": newest, "aliases": ["latest"]}]
    listed += [{"version": name, "title": name, "aliases": []} for name in others]
    (folder / "versions.json").write_text(f"{json.dumps(listed, indent=2)}\n", encoding="utf-8")
    (folder / "index.html").write_text(_FIRST_PAGE.format(version=newest), encoding="utf-8")
