"""Writes the table of guards in docs/testing.md from the list that the tests take out.

The list is code, since each entry takes a guard out of the product; a page by hand would soon name
tests and guards of before. `--check` fails where the page differs or where a guard is no longer in
the product as the list has it, `--write` writes the page.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from icdc_testing.mutants.edits import edit_sources
from icdc_testing.mutants.guard import GuardKind
from icdc_testing.mutants.guards import LISTED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"
HEADING = "## A test for each guard\n"
"""The last heading of the page: all that follows it is made, and an end mark is not needed."""
_TOP = """\
<!-- Made from tests/support/icdc_testing/mutants/guards by `make guard-table`. Do not edit. -->
A guard is a check in the product that prevents one fault. It is kept only if a test fails without
it. So each guard is removed from a copy of the product, one at a time, and the tests of its row are
run: one of them must fail by what it asserts, not by a crash of the test. `make test` does this for
the guards whose tests need neither Spark nor OpenSearch; `make guards` does it for all, and prints
how long each took. With all guards in place the same tests pass.
"""


def render_section() -> str:
    """Return the whole section without its heading: how many guards, a table for each kind."""
    slow = sum(not guard.is_cheap for guard in LISTED)
    counts = f"\n{len(LISTED)} guards, {len(LISTED) - slow} of them in `make test`.\n"
    return "".join((_TOP, counts, *(part for kind in GuardKind for part in _render_table(kind))))


def _render_table(kind: GuardKind) -> Iterator[str]:
    """Yield the lines of the kind's table in the order of the list, none without guards."""
    guards = [guard for guard in LISTED if guard.kind is kind]
    if not guards:
        return
    yield f"\n**{kind.value}**\n\n| guard | what it prevents | test |\n|---|---|---|\n"
    for guard in guards:
        names = ", ".join(f"`{name}`" for name in guard.test_names)
        yield f"| {guard.name} | {guard.prevents} | {names} |\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or check; 1 when the page differs, StaleEditError when a guard is not found."""
    parser = argparse.ArgumentParser(description="writes the table of guards")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the page")
    action.add_argument("--check", action="store_true", help="fail when the page differs")
    options = parser.parse_args(arguments)
    before, heading, now = PAGE.read_text(encoding="utf-8").partition(HEADING)
    wanted = render_section()
    if options.write:
        PAGE.write_text(f"{before}{heading or HEADING}{wanted}", encoding="utf-8")
    elif now != wanted:
        sys.stderr.write(
            "docs/testing.md differs from the list of guards: run `make guard-table`\n"
        )
        return 1
    for guard in LISTED:
        # Raises where the product no longer has the text of a guard; nothing is written.
        edit_sources(ROOT, guard.edits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
