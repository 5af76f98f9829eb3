"""Refuses two modules of one name within a package.

Code names a module without its folder, as in `process.run`, and so do tracebacks and talk: of two
`process` a reader has to find out which. Packages may share names: each has a `main`. Files of
`tests` may too, since they are beside what they test.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator

from sources import ROOT, list_python_files

PACKAGES = (
    "crds/icdc_api",
    "operator/icdc_cli",
    "operator/icdc_operator",
    "sparkapps/icdc_spark",
    "tools",
)


def find_repeated_modules(paths: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each name that two of `paths`, relative to the root, have in a package.

    operator/icdc_cli/exits.py, operator/icdc_cli/local/exits.py    refused
    operator/icdc_cli/main.py, operator/icdc_operator/main.py       allowed
    """
    folders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sorted(paths):
        folder, _, name = path.rpartition("/")
        for package in PACKAGES:
            if f"{folder}/".startswith(f"{package}/") and not name.startswith("__"):
                folders[package, name].append(folder)
    for (package, name), holders in folders.items():
        if len(holders) > 1:
            yield f"{package}: {name} stands twice: in {' and in '.join(holders)}"


def main() -> int:
    """Print what is refused; 1 if anything is."""
    paths = [path.relative_to(ROOT).as_posix() for path in list_python_files(ROOT)]
    refused = list(find_repeated_modules(paths))
    sys.stdout.write("".join(f"{line}\n" for line in refused))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
