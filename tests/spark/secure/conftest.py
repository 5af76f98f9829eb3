"""A node with OpenSearch's security plugin, and a pipeline that has one role on it."""

from collections.abc import Iterator

import pytest

from icdc_testing.target.secure_node import SecureNode


@pytest.fixture(scope="session")
def secure_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    """One node for the whole test run."""
    with SecureNode(tmp_path_factory.mktemp("secure")) as node:
        yield node
