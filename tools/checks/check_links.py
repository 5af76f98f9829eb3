"""Check that the documentation names nothing that does not exist: files, headings and tests.

Pages send a reader to code and tests; a rename must find them, and no compiler does. A test is
named as `tests/….py::test_…`. Other sites are not asked: checks run without a network.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Images too, which begin with `!`, or are elements where there are two of them.
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|\b(?:src|srcset)=\"([^\"]+)\"")
PAGES = ("*.md", "docs/**/*.md", "charts/*/README.md")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def list_anchors(text: str) -> set[str]:
    """Return the anchors that a Markdown renderer makes from the headings of a page, and its own.

    ## A test for each guard      a-test-for-each-guard
    ### `spark.conf`, in short    sparkconf-in-short
    | <a id="spec.mode"></a>      spec.mode
    """
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    made = {heading.strip().replace(" ", "-") for heading in plain}
    return made | set(ANCHOR.findall(text))


def find_broken_links(page: Path) -> Iterator[str]:
    """Yield a sentence for each link of the page to a file or heading that does not exist."""
    # Without code, in which a pattern may look like a link.
    for link, asset in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        target = link or asset
        if re.match(r"[a-z]+:", target):
            continue  # Another site, or mailto:
        # `#anchor` alone is a heading of this page.
        name, _, anchor = target.partition("#")
        linked = (page.parent / name) if name else page
        if not linked.exists():
            yield f"{page}: {target} does not exist"
        elif anchor and anchor not in list_anchors(linked.read_text(encoding="utf-8")):
            yield f"{page}: {target} has no such heading"


def find_missing_tests(page: Path, root: Path) -> Iterator[str]:
    """Yield a sentence for each test that the page names and that does not exist."""
    for name, test in TEST.findall(page.read_text(encoding="utf-8")):
        path = root / name
        # As text: importing tests would need all that they need.
        if not path.exists() or f"def {test}(" not in path.read_text(encoding="utf-8"):
            yield f"{page}: there is no test {name}::{test}"


def main() -> int:
    """Print the broken links and the missing tests; 1 if there is any."""
    root = Path(__file__).resolve().parents[2]
    pages = sorted(page for pattern in PAGES for page in root.glob(pattern))
    problems = [line for page in pages for line in find_broken_links(page)]
    problems += [line for page in pages for line in find_missing_tests(page, root)]
    sys.stdout.write("".join(f"{line}\n" for line in problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
