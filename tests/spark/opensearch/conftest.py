"""A clean node seen through our own package."""

from collections.abc import Iterator

import pytest

from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.stores import indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_testing.target import sink_cases


@pytest.fixture(autouse=True, scope="module")
def quick_waits() -> None:
    """Wait as in production: these tests are about the wait, among others."""


@pytest.fixture
def connection(clean_indices: str) -> Connection:
    """Straight to the node."""
    return Connection(hosts=(clean_indices,))


@pytest.fixture
def admin(connection: Connection) -> Iterator[Client]:
    """A client of our own making."""
    made = open_client(connection)
    yield made
    made.close()


@pytest.fixture
def index(admin: Client) -> PhysicalIndex:
    """An empty physical index `orders-000001` with a long `v` and a keyword `s`."""
    return indices.create(admin, sink_cases.OWNER, sink_cases.MAPPING, {})
