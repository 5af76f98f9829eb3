"""Pages for a git host become pages of the site; `make site` builds them, strictly."""

import json
import re
from pathlib import Path

import pytest

import build_site
import site_pages
import site_versions

pytestmark = pytest.mark.unit

SOURCE = "https://git.example/blob/main"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # Links: to a page, to one outside of docs/, to code with and without an address for it.
        ("[a](../security.md#the-page)", "[a](../security.md#the-page)"),
        ("[a](spec.md)", "[a](spec.md)"),
        ("[a](../../README.md#install)", "[a](../index.md#install)"),
        ("[`a`](../../crds/samples)", f"[`a`]({SOURCE}/crds/samples)"),
        ("![p](../overview.svg)", "![p](../overview.svg)"),
        ('<img alt="p" src="../images/ui.png">', '<img alt="p" src="../images/ui.png">'),
        ('<source srcset="../none.png">', '<source srcset="../none.png">'),
        ("[a](#here) [b](https://other.example)", "[a](#here) [b](https://other.example)"),
        ("[two\nlines](../../CHANGELOG.md)", "[two\nlines](../changelog.md)"),
        # Code is no link.
        ("`[a](spec.md)` and ``[`b`](spec.md)``", "`[a](spec.md)` and ``[`b`](spec.md)``"),
        ("```yaml fields\n- [a](spec.md)\n```\n", "```yaml\n- [a](spec.md)\n```\n"),
        # What is below a paragraph without an empty line between them, and what is indented.
        ("text:\n- one\n  more\n- two", "text:\n\n- one\n    more\n- two"),
        ("text:\n| a |\n|---|", "text:\n\n| a |\n|---|"),
        ("# Title\n- one\n- two", "# Title\n- one\n- two"),
        ("1. a\n   ```sh x\n   b\n     c\n   ```\n", "1. a\n    ```sh\n    b\n      c\n    ```\n"),
        ("```yaml cluster\na:\n  b:\n    c: 1\n```\n", "```yaml\na:\n  b:\n    c: 1\n```\n"),
        # A bar in code in a table.
        (r"| `a\|b` | c\|d |", r"| `a|b` | c\|d |"),
        ("<!-- Made from code. -->\n# Title\n", "# Title\n"),
    ],
)  # fmt: skip
def test_a_page_is_converted(text: str, wanted: str) -> None:
    assert site_pages.convert_page(text, path="docs/reference/status.md", source=SOURCE) == wanted


def test_a_picture_of_the_readme_is_found_from_the_first_page() -> None:
    text = '<img alt="p" src="docs/images/ui.png">'
    assert site_pages.convert_page(text, path="README.md") == '<img alt="p" src="images/ui.png">'


def test_without_an_address_of_the_source_a_link_to_code_is_its_text() -> None:
    text = "see [`samples`](../crds/samples) and [glossary](glossary.md)"
    converted = site_pages.convert_page(text, path="docs/architecture.md")
    assert converted == "see `samples` and [glossary](glossary.md)"


def test_every_page_stands_once_in_the_navigation() -> None:
    text = (Path(build_site.__file__).parent / "mkdocs.yml").read_text(encoding="utf-8")
    shown = re.findall(r"^ +- (?:[\w ]+: )?(\S+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE)
    docs = build_site.ROOT / "docs"
    pages = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    assert sorted(shown) == sorted([*pages, *site_pages.PAGES.values()])


@pytest.mark.parametrize("path", site_pages.PAGES)
def test_a_page_outside_of_docs_exists(path: str) -> None:
    assert (build_site.ROOT / path).is_file()


@pytest.mark.parametrize(
    ("html", "foreign"),
    [
        ('<a href="https://other.example">a link loads nothing</a><img src="a.svg">', []),
        ('<script src="https://cdn.example/a.js"></script>', ["https://cdn.example/a.js"]),
        ('<link rel="stylesheet" href="//cdn.example/a.css">', ["//cdn.example/a.css"]),
    ],
)
def test_what_a_page_loads_from_elsewhere_is_named(
    tmp_path: Path, html: str, foreign: list[str]
) -> None:
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    wanted = [f"page.html loads {address}" for address in foreign]
    assert list(build_site.find_foreign_assets(tmp_path)) == wanted


def test_every_tool_of_the_site_is_locked_with_its_checksum() -> None:
    text = build_site.LOCK.read_text(encoding="utf-8").replace("\\\n", "")
    packages = re.findall(r"^([a-z0-9-]+)==\S+(.*)$", text, re.MULTILINE)
    assert {"mkdocs", "mkdocs-material"} <= {name for name, _ in packages}
    assert all("--hash=sha256:" in rest for _, rest in packages)


def test_versions_are_listed_newest_first_and_each_as_long_as_it_is_there(tmp_path: Path) -> None:
    for name in ("0.9.1", "0.10.0", "0.2.0", "images", "1.0.0-draft"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    # What was cut off before its first page is no version yet.
    (tmp_path / "0.11.0").mkdir()
    site_versions.write_list(tmp_path)
    listed = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [entry["version"] for entry in listed] == ["0.10.0", "0.9.1", "0.2.0"]
    assert [entry["aliases"] for entry in listed] == [["latest"], [], []]
    assert 'url=0.10.0/index.html"' in (tmp_path / "index.html").read_text(encoding="utf-8")
    (tmp_path / "0.10.0" / "index.html").unlink()
    site_versions.write_list(tmp_path)
    assert site_versions.find_versions(tmp_path) == ["0.9.1", "0.2.0"]
