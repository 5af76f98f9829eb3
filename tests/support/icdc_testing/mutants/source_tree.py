"""A copy of the product's packages in which guards are taken out, for child processes to import.

The checkout stays as it is. Compiled files of the copy are checked by the content of their source,
because an edit and its removal within one second leave the same time and maybe the same size.
"""

import compileall
import os
import py_compile
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from icdc_testing import ROOT
from icdc_testing.mutants.edits import Edit, edit_sources

PACKAGES = ("crds", "operator", "sparkapps")


class SourceTree:
    """One copy; one process after the other uses it."""

    def __init__(self, folder: Path) -> None:
        """Copy and compile the packages into `folder`, which is empty."""
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        for name in PACKAGES:
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
            compileall.compile_dir(
                folder / name,
                quiet=2,
                invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
            )

    @contextmanager
    def hold_edits(self, edits: Iterable[Edit]) -> Iterator[None]:
        """Hold the edits in the block and undo them after it. Raises StaleEditError."""
        sources = edit_sources(self.folder, edits)
        originals = {path: (self.folder / path).read_bytes() for path in sources}
        try:
            for path, source in sources.items():
                (self.folder / path).write_text(source, encoding="utf-8")
            yield
        finally:
            for path, original in originals.items():
                (self.folder / path).write_bytes(original)

    def build_environment(self) -> dict[str, str]:
        """Return the environment in which this copy wins over the installed packages.

        Processes that such a process starts, Spark's Python workers among them, inherit it.
        """
        paths = [str(self.folder / name) for name in PACKAGES]
        inherited = os.environ.get("PYTHONPATH")
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*paths, *([inherited] if inherited else [])]),
            # The compiled files belong to the text without edits.
            "PYTHONDONTWRITEBYTECODE": "1",
            "ICDC_MUTANT_TREE": str(self.folder),
        }
