"""What the tests on three nodes share: the nodes, started once, and a proxy before them."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.kill_points import BatchKind
from icdc_testing.target import node_calls
from icdc_testing.target.nodes.followed import FollowedOnNodes
from icdc_testing.target.nodes.three_nodes import ThreeNodes
from icdc_testing.waiting import dealing

_RUNNING = contextlib.ExitStack()
"""The nodes, if they run."""

Follow = Callable[..., FollowedOnNodes]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the nodes after the last test that needs them: idle they take 1 GB and 4 % of a core."""
    if dealing.is_last_below(Path(__file__).parent, nextitem):
        _RUNNING.close()


@pytest.fixture(autouse=True, scope="module")
def quick_waits() -> None:
    """Wait as in production: nodes that were killed or cut off leave requests behind."""


def begin_nodes(folders: pytest.TempPathFactory, version: str = "") -> ThreeNodes:
    """Return three nodes to be started; skips where the host cannot have them."""
    if (sys.platform, os.geteuid()) != ("linux", 0):
        assert not os.environ.get("ICDC_REQUIRE_ALL"), "network namespaces need root on Linux"
        pytest.skip("network namespaces need root on Linux")
    return ThreeNodes(folders.mktemp("nodes"), version=version)


@pytest.fixture(scope="session")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    """Three nodes for the tests of this folder."""
    with _RUNNING:
        yield _RUNNING.enter_context(begin_nodes(tmp_path_factory))


@pytest.fixture
def nodes(three_nodes: ThreeNodes) -> ThreeNodes:
    """The nodes, all up and without any index."""
    three_nodes.restart()
    node_calls.clean_indices(three_nodes.members[0].url)
    return three_nodes


@pytest.fixture
def front(nodes: ThreeNodes) -> Iterator[FaultProxy]:
    """A fault proxy before the nodes, which asks the first of them."""
    with FaultProxy(nodes.members[0].url) as proxy:
        yield proxy


@pytest.fixture
def follow(spark: SparkSession, nodes: ThreeNodes, front: FaultProxy, tmp_path: Path) -> Follow:
    """Make a table whose index is on the nodes."""

    def make_followed(
        kind: BatchKind = BatchKind.COPY_ON_WRITE, *, replicas: int = 1
    ) -> FollowedOnNodes:
        return FollowedOnNodes.make(spark, nodes, front, tmp_path, kind, replicas=replicas)

    return make_followed
