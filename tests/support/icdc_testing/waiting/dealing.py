"""Deals tests to processes side by side: a file stays in one, and so does a folder with servers.

Such a folder starts its servers once and not once in each process, and its tests wait more than
they work. They begin first, so that other processes use the cores meanwhile and none of them works
alone at the end. It must not know what the tests do.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

TOGETHER = ("tests/spark/nodes", "tests/spark/plugins", "tests/spark/secure")
"""The folders, each of which stays in one process."""


class FolderScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """xdist's scheduling by files, but for these folders."""

    def _split_scope(self, nodeid: str) -> str:
        """Return what stays together with this test, as a path."""
        return next((one for one in TOGETHER if _is_below(one, nodeid)), nodeid.split("::")[0])


def order_tests(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in their order, after those of the folders that stay together."""
    return sorted(items, key=lambda item: not any(_is_below(one, item.nodeid) for one in TOGETHER))


def is_last_below(folder: Path, next_test: pytest.Item | None) -> bool:
    """Return whether the test that has just ended is the last one below the folder."""
    return next_test is None or folder not in next_test.path.parents


def _is_below(folder: str, nodeid: str) -> bool:
    return nodeid.startswith(f"{folder}/")
