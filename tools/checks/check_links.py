"""Checks that what the documentation names exists: files, headings that links lead to, and tests.

A test is named as `tests/….py::test_…`.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
PAGES = ("*.md", "docs/**/*.md", "charts/*/README.md")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def anchors(text: str) -> set[str]:
    """The anchors that a Markdown renderer makes from the headings of a page."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in plain}


def broken_links(page: Path) -> Iterator[str]:
    """One sentence for each link of the page that leads nowhere."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name) if name else page
        if not linked.exists():
            yield f"{page}: {target} does not exist"
        elif anchor and anchor not in anchors(linked.read_text(encoding="utf-8")):
            yield f"{page}: {target} has no such heading"


def missing_tests(page: Path, root: Path) -> Iterator[str]:
    """One sentence for each test that the page names and that does not exist."""
    for name, test in TEST.findall(page.read_text(encoding="utf-8")):
        path = root / name
        if not path.exists() or f"def {test}(" not in path.read_text(encoding="utf-8"):
            yield f"{page}: there is no test {name}::{test}"


def main() -> int:
    """Prints the broken links and the tests that are missing; 1 if there is any."""
    root = Path(__file__).resolve().parents[2]
    pages = sorted(each for pattern in PAGES for each in root.glob(pattern))
    problems = [line for page in pages for line in broken_links(page)]
    problems += [line for page in pages for line in missing_tests(page, root)]
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
