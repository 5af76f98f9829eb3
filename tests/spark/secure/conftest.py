"""A node with OpenSearch's security plugin, and a pipeline that has one role on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.lake import Lake
from icdc_testing.target.secure.node import SecureNode
from icdc_testing.target.secure.site import SecureSite, make_site


@pytest.fixture(scope="session")
def secure_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    """One node for the whole test run."""
    with SecureNode(tmp_path_factory.mktemp("secure")) as node:
        yield node


@pytest.fixture
def site(spark: SparkSession, lake: Lake, secure_node: SecureNode, tmp_path: Path) -> SecureSite:
    """A pipeline whose user has the documented role and no other."""
    return make_site(spark, lake, secure_node, tmp_path)
