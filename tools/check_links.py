"""Checks that every relative link in the documentation leads to a file and a heading."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
PAGES = ("*.md", "docs/**/*.md", "charts/*/README.md")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)


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


def main() -> int:
    """Prints the broken links; 1 if there is any."""
    root = Path(__file__).resolve().parent.parent
    pages = [each for pattern in PAGES for each in root.glob(pattern)]
    problems = [line for page in sorted(pages) for line in broken_links(page)]
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
