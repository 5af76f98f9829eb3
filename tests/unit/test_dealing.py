"""Tests begin in an order that keeps several processes at work until the end."""

from types import SimpleNamespace
from typing import cast

import pytest

from icdc_testing.waiting.dealing import order_tests

pytestmark = pytest.mark.unit


def test_folders_that_stay_together_begin_first() -> None:
    begins = (
        "tests/spark/nodes/test_shards.py::test_a",
        "tests/spark/secure/test_role.py::test_b",
        "tests/spark/secure/test_role.py::test_a",
        "tests/api/test_control_plane.py::test_a",
        "tests/spark/cli/test_demo.py::test_a",
        "tests/unit/test_dealing.py::test_a",
    )
    collected = [*begins[3:5], *begins[:3], *begins[5:]]
    items = [cast(pytest.Item, SimpleNamespace(nodeid=name)) for name in collected]
    assert tuple(item.nodeid for item in order_tests(items)) == begins
