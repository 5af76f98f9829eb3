"""Links of pages lead to files and headings, also to anchors that a page sets itself."""

from pathlib import Path

import pytest

import check_links

pytestmark = pytest.mark.unit


def test_anchors_are_those_of_headings_and_those_that_the_page_sets() -> None:
    text = '# One page\n## `spec.tables[]`, in short\n| <a id="spec.mode"></a>`mode` | text |\n'
    assert check_links.list_anchors(text) == {"one-page", "spectables-in-short", "spec.mode"}


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("[here](#top) [there](other.md#part) [site](https://example.org)", []),
        ("[no](missing.md)", ["missing.md does not exist"]),
        ("[no](#bottom)", ["#bottom has no such heading"]),
        ("[`code`](other.md#nothing)", ["other.md#nothing has no such heading"]),
        ('<img alt="a" src="other.md"><img srcset="no.png">', ["no.png does not exist"]),
        ("a pattern is no link: `[a-z]([a-z.]*[a-z])?`", []),
    ],
)
def test_what_a_link_names_exists(tmp_path: Path, text: str, broken: list[str]) -> None:
    (tmp_path / "other.md").write_text("# Other\n## Part\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(f"# Top\n{text}\n", encoding="utf-8")
    assert list(check_links.find_broken_links(page)) == [f"{page}: {text}" for text in broken]
