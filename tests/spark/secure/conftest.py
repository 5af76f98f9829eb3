"""A node with OpenSearch's security plugin, and a pipeline that has one role on it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.lake import Lake
from icdc_testing.target.secure.node import SecureNode
from icdc_testing.target.secure.site import SecureSite, make_site
from icdc_testing.waiting import dealing

_RUNNING = contextlib.ExitStack()
"""The node, if it runs."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the node after the last test that needs it: idle it takes 0.9 GB."""
    if dealing.is_last_below(Path(__file__).parent, nextitem):
        _RUNNING.close()


@pytest.fixture(scope="session")
def secure_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    """One node for the tests of this folder."""
    with _RUNNING:
        yield _RUNNING.enter_context(SecureNode(tmp_path_factory.mktemp("secure")))


@pytest.fixture
def site(spark: SparkSession, lake: Lake, secure_node: SecureNode, tmp_path: Path) -> SecureSite:
    """A pipeline whose user has the documented role and no other."""
    return make_site(spark, lake, secure_node, tmp_path)
