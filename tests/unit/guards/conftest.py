"""One copy of the product for all tests of a process."""

from pathlib import Path

import pytest

from icdc_testing.mutants.source_tree import SourceTree


@pytest.fixture(scope="session")
def source_tree(tmp_path_factory: pytest.TempPathFactory) -> SourceTree:
    """The copy."""
    folder: Path = tmp_path_factory.mktemp("mutants")
    return SourceTree(folder)
