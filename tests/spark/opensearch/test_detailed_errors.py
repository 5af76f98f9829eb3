"""A node that says what failed in a text alone (http.detailed_errors.enabled is false)."""

from collections.abc import Iterator

import pytest

from icdc_api.errors import AliasTaken, Gap, MappingInvalid, TargetReadOnly
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores import aliases, dead_letters, identity, indices
from icdc_spark.opensearch.stores.indices import Ownership, PhysicalIndex
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.restoring import take_slowly

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearchNode]:
    """A node that gives no details."""
    folder = tmp_path_factory.mktemp("terse")
    settings = {"http.detailed_errors.enabled": "false", "path.repo": str(folder)}
    with OpenSearchNode(folder, settings=settings) as node:
        yield node


def test_an_index_that_was_deleted_is_a_gap(admin: Client, index: PhysicalIndex) -> None:
    admin.patience = 0.5
    admin.indices.delete(index=index.name)
    assert identity.identify(admin, index.name) is None
    with pytest.raises(Gap):
        indices.read_uuid(admin, index.name)


def test_a_closed_index_is_read_only(admin: Client, index: PhysicalIndex) -> None:
    admin.indices.close(index=index.name)
    with pytest.raises(TargetReadOnly, match="is closed"):
        identity.identify(admin, index.name)


def test_the_second_batch_with_refused_rows_stores_its_dead_letters(
    clean_indices: str, index: PhysicalIndex
) -> None:
    for ordinal in (1, 2):
        lines = [sink.upsert(f"bad{ordinal}", {"v": "x"}, ordinal)]
        result = sink.write(clean_indices, lines, ordinal)
        assert (result.error, result.dead_letters) == (None, 1)


def test_an_index_of_dead_letters_that_is_somebody_elses_is_taken(admin: Client) -> None:
    dead_letters.ensure_index(admin, Ownership(pipeline="default/other", alias="orders"))
    with pytest.raises(AliasTaken):
        dead_letters.ensure_index(admin, sink.OWNER)


def test_a_deletion_waits_for_a_snapshot(
    opensearch: OpenSearchNode, admin: Client, index: PhysicalIndex
) -> None:
    with take_slowly(opensearch, index.name):
        assert not indices.delete(admin, index.name)


def test_what_is_refused_is_said_as_far_as_the_node_says_it(admin: Client) -> None:
    mapping: dict[str, object] = {"properties": {"v": {"type": "nonsense"}}}
    with pytest.raises(MappingInvalid, match="MapperParsingException"):
        indices.create(admin, sink.OWNER, mapping, {})


def test_an_alias_that_is_missing_is_none(admin: Client, index: PhysicalIndex) -> None:
    assert aliases.list_current_indices(admin, "orders") == []
    assert aliases.move_alias(admin, sink.OWNER, index.name) == []
    assert aliases.list_current_indices(admin, "orders") == [index.name]
