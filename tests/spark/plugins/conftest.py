"""Nodes of both lines that have what every distribution has, and a pipeline on each."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import Submission
from icdc_testing.lake.lake import Lake
from icdc_testing.target.secure.node import SecureNode
from icdc_testing.target.secure.plugin_node import PluginNode, find_jdk
from icdc_testing.target.secure.site import PluginSite, make_open_site, make_site
from icdc_testing.waiting import dealing

_RUNNING = contextlib.ExitStack()
"""The node, if one runs."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the node after the last test that needs it."""
    if dealing.is_last_below(Path(__file__).parent, nextitem):
        _RUNNING.close()


@pytest.fixture(scope="session", params=[SecureNode, PluginNode], ids=["2.19", "3"])
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PluginNode]:
    """A node of either line, one after the other: only 2.19 has the security plugin."""
    kind: type[PluginNode] = request.param
    try:
        find_jdk(kind.release)
    except Submission as missing:
        pytest.skip(missing.message)
    with _RUNNING:
        yield _RUNNING.enter_context(kind(tmp_path_factory.mktemp("plugins")))


@pytest.fixture
def site(spark: SparkSession, lake: Lake, node: PluginNode, tmp_path: Path) -> PluginSite:
    """A pipeline; where the node knows users, its own has the documented role and no other."""
    if isinstance(node, SecureNode):
        return make_site(spark, lake, node, tmp_path)
    return make_open_site(spark, lake, node, tmp_path)
