"""Names derived from our alias that another tenant of the same OpenSearch has taken already.

One pipeline's alias may be called as the next index of another one, or as its dead letters.
"""

import pytest

from icdc_api.errors import AliasTaken
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores import aliases, dead_letters, indices
from icdc_spark.opensearch.stores.indices import Ownership
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call, read_documents

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

DEAD_LETTERS = "orders-dead-letters"
NEIGHBOUR = Ownership(pipeline="other/shop", alias=DEAD_LETTERS)
COLUMNS = {
    "id": {"type": "keyword"},
    "ordinal": {"type": "long"},
    "s": {"type": "keyword"},
}
THEIRS = {"id": "a", "ordinal": 1, "s": "theirs"}


def create_plain_index(url: str, admin: Client) -> str:
    assert call(url, "PUT", f"/{DEAD_LETTERS}", {"mappings": {"properties": COLUMNS}}).status == 200
    return DEAD_LETTERS


def create_alias_of_another_pipeline(url: str, admin: Client) -> str:
    made = indices.create(admin, NEIGHBOUR, {"properties": COLUMNS}, {})
    actions = [{"add": {"index": made.name, "alias": DEAD_LETTERS, "is_write_index": False}}]
    assert call(url, "POST", "/_aliases", {"actions": actions}).status == 200
    return made.name


@pytest.mark.parametrize("take", [create_plain_index, create_alias_of_another_pipeline])
def test_documents_of_others_are_not_taken_for_dead_letters(
    clean_indices: str, admin: Client, take: object
) -> None:
    """They have fields of the same names, and a key in common with a row."""
    assert callable(take)
    name = take(clean_indices, admin)
    assert call(clean_indices, "PUT", f"/{name}/_doc/a?refresh", THEIRS).status == 201
    assert dead_letters.list_ids(admin, sink.OWNER) == frozenset()
    assert dead_letters.count(admin, sink.OWNER) == 0
    assert dead_letters.read_last_ordinal(admin, sink.OWNER) == 0
    assert dead_letters.purge_older(admin, sink.OWNER, 9) == 0
    refused_ids = dead_letters.list_ids(admin, sink.OWNER)
    written = sink.write(
        clean_indices, [sink.upsert("a", {"v": 1})], known_dead_letter_ids=refused_ids
    )
    assert (written.error, written.upserted) == (None, 1)
    assert read_documents(clean_indices, name) == {"a": (1, THEIRS)}
    with pytest.raises(AliasTaken, match=f"'{DEAD_LETTERS}', which would hold refused rows"):
        dead_letters.ensure_index(admin, sink.OWNER)
    # Only now is anybody stopped: a row is refused, and has no place to be kept.
    refused = sink.write(clean_indices, [sink.upsert("b", {"v": "no number"})], 2)
    assert refused.error is not None
    assert refused.error[0] == "AliasTaken"
    assert read_documents(clean_indices, name) == {"a": (1, THEIRS)}


def test_a_number_that_is_somebody_elses_alias_is_passed_over(
    clean_indices: str, admin: Client
) -> None:
    taken = Ownership(pipeline="other/shop", alias="orders-000002")
    made = indices.create(admin, taken, {"properties": COLUMNS}, {})
    actions = [{"add": {"index": made.name, "alias": taken.alias}}]
    assert call(clean_indices, "POST", "/_aliases", {"actions": actions}).status == 200
    assert indices.create(admin, sink.OWNER, sink.MAPPING, {}).name == "orders-000003"
    dropped = indices.drop_orphans(admin, sink.OWNER, keep=frozenset(), below=9)
    assert sorted(dropped) == ["orders-000001", "orders-000003"]
    assert call(clean_indices, "GET", "/orders-000002/_count").status == 200


@pytest.mark.parametrize("where", ["logs", "orders-000002-000001"])
def test_an_alias_of_a_number_is_found_whatever_it_points_to(
    clean_indices: str, admin: Client, where: str
) -> None:
    body: object = {"aliases": {"orders-000002": {}}}
    assert call(clean_indices, "PUT", f"/{where}", body).status == 200
    assert indices.create(admin, sink.OWNER, sink.MAPPING, {}).name == "orders-000003"


def test_an_index_of_somebody_else_that_hides_its_metadata_is_not_in_our_way(
    clean_indices: str, admin: Client
) -> None:
    body = {"settings": {"index.blocks.metadata": True}}
    assert call(clean_indices, "PUT", "/logs", body).status == 200
    assert aliases.check_free(admin, sink.OWNER) == []
    assert aliases.move_alias(admin, sink.OWNER, sink.INDEX) == []
    assert aliases.find_problem(admin, "orders", sink.INDEX) is None
    assert indices.create(admin, sink.OWNER, sink.MAPPING, {}).name == "orders-000002"
    assert aliases.list_current_indices(admin, "orders") == [sink.INDEX]
    refused = call(clean_indices, "GET", "/_alias/orders")
    # What the test is about: asked so, the node answers nobody.
    assert refused.status == 403
