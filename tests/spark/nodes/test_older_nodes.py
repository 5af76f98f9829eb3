"""Primaries that are lost, on the oldest OpenSearch that is promised.

Its primary, once it is back among nodes that have another one, acknowledges what it alone has.
"""

from collections.abc import Iterator

import pytest

from icdc_cli.embedded.jars import OPENSEARCH_VERSIONS
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.kill_points import BatchKind
from icdc_testing.target.nodes.three_nodes import ThreeNodes

from .conftest import Follow, begin_nodes
from .primaries import AMID_A_BATCH, lose_primary

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    """Three nodes of that version, for this module."""
    with begin_nodes(tmp_path_factory, OPENSEARCH_VERSIONS[0]) as nodes:
        yield nodes


@pytest.mark.sampled
@pytest.mark.parametrize("fault", AMID_A_BATCH)
def test_what_a_lost_primary_of_the_oldest_version_acknowledged_is_in_the_index(
    nodes: ThreeNodes, follow: Follow, front: FaultProxy, fault: str
) -> None:
    lose_primary(nodes, follow(BatchKind.MERGE_ON_READ), front, fault)
