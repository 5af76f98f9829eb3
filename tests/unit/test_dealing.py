"""Tests begin in an order that keeps several processes at work until the end."""

from types import SimpleNamespace
from typing import cast

import pytest

from icdc_testing.waiting.dealing import order_tests

pytestmark = pytest.mark.unit


def test_folders_with_servers_begin_first_and_quick_tests_last() -> None:
    begins = (
        "tests/spark/nodes/test_shards.py::test_a",
        "tests/spark/plugins/test_search_mappings.py::test_b",
        "tests/spark/secure/test_role.py::test_a",
        "tests/spark/cli/test_demo.py::test_b",
        "tests/spark/cli/test_demo.py::test_a",
        "tests/api/test_control_plane.py::test_a",
        "tests/unit/test_dealing.py::test_a",
    )
    # As pytest collects them: by their folders, and in a file as they stand there.
    collected = [*begins[5:6], *begins[3:5], *begins[:3], *begins[6:]]
    items = [cast(pytest.Item, SimpleNamespace(nodeid=name)) for name in collected]
    assert tuple(item.nodeid for item in order_tests(items)) == begins
