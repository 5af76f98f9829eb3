"""Takes out every guard, one after the other, and prints which test noticed it, and how soon.

`make guards` calls it, with a real Spark and a real OpenSearch node where a guard needs them.
Arguments are parts of names; without any all guards are tried. Ends with 1 if one was not missed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from icdc_testing.mutants.guard import Guard, find_blind_tests
from icdc_testing.mutants.guards import LISTED
from icdc_testing.mutants.source_tree import SourceTree
from icdc_testing.mutants.trying import ChildError, run_tests


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the guards and print a line for each."""
    parser = argparse.ArgumentParser(description="takes out guards, and runs their tests")
    parser.add_argument("names", nargs="*", help="parts of the names of guards; default: all")
    parser.add_argument(
        "--slow", action="store_true", help="only those that `make test` leaves out"
    )
    options = parser.parse_args(arguments)
    chosen = [
        guard
        for guard in LISTED
        if not (options.slow and guard.is_cheap)
        and (not options.names or any(name in guard.name for name in options.names))
    ]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        missed = _try_all(SourceTree(Path(folder)), chosen)
    seconds = time.monotonic() - begun
    sys.stdout.write(
        f"without them tests fail for {missed} of {len(chosen)} guards, in {seconds:.0f} s\n"
    )
    return 0 if missed == len(chosen) else 1


def _try_all(tree: SourceTree, chosen: Iterable[Guard]) -> int:
    """Print a row for each guard as soon as it was tried; return how many were missed."""
    sys.stdout.write("| guard | what it prevents | test | seconds |\n|---|---|---|---|\n")
    missed = 0
    for guard in chosen:
        begun = time.monotonic()
        try:
            outcome = run_tests(tree, guard.edits, guard.tests)
        except ChildError as error:
            problem, blind = str(error), list(guard.tests)
        else:
            problem, blind = outcome.output, find_blind_tests(outcome, guard.tests)
        tests = ", ".join(f"`{name}`" for name in guard.test_names)
        row = f"| {guard.name} | {guard.prevents} | {tests} | {time.monotonic() - begun:.0f} |"
        sys.stdout.write(f"{row}\n")
        if blind:
            sys.stdout.write(f"NO TEST FAILS without: {guard.name}, by {blind}\n{problem}\n")
        else:
            missed += 1
        sys.stdout.flush()
    return missed


if __name__ == "__main__":
    sys.exit(main())
