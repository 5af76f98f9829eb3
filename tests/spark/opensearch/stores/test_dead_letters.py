"""Rows that the index refuses, against a real node."""

import json
from dataclasses import replace

import pytest

from icdc_api.spec.sink import DeadLetterPolicy
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.protocol.state_document import compute_base_version
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Status
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call, read_documents

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]

DEAD_LETTERS = "orders-dead-letters"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        pytest.param(b'{"v":"secret-value"}', "mapper_parsing_exception", id="not a number"),
        pytest.param(b'{"v":1e400}', "mapper_parsing_exception", id="number out of range"),
        pytest.param(b'{"v":', "mapper_parsing_exception", id="broken JSON"),
        pytest.param(
            json.dumps({"s": "x" * 33_000}).encode(), "illegal_argument_exception", id="long term"
        ),
    ],
)
def test_a_refused_row_is_a_dead_letter_and_its_old_document_goes(
    clean_indices: str, source: bytes, kind: str
) -> None:
    sink.write(clean_indices, [sink.upsert("a", {"v": 1}), sink.upsert("b", {"v": 1})])
    lines = [sink.upsert("a", source, 2, expect="u"), sink.upsert("b", {"v": 2}, 2, expect="u")]
    result = sink.write(clean_indices, lines, 2)
    assert (result.error, result.upserted, result.deleted) == (None, 1, 0)
    assert result.dead_letters == 1
    assert read_documents(clean_indices, sink.INDEX) == {"b": (compute_base_version(2), {"v": 2})}
    ((version, letter),) = read_documents(clean_indices, DEAD_LETTERS).values()
    assert isinstance(letter, dict)
    assert version == compute_base_version(2) - 1
    assert letter["document"] == source.decode()
    assert letter | {"reason": "", "at": "", "document": ""} == {
        "id": "a",
        "reason": "",
        "errorType": kind,
        "document": "",
        "documentBytes": len(source),
        "table": "shop.orders",
        "snapshotId": "77",
        "ordinal": 2,
        "at": "",
    }


def test_a_replay_of_a_refused_row_keeps_one_letter(clean_indices: str) -> None:
    lines = [sink.upsert("a", {"v": "x"}), sink.upsert("b", {"v": 1})]
    first = sink.write(clean_indices, lines)
    again = sink.write(clean_indices, lines, known_dead_letter_ids=frozenset({"a"}))
    assert (first.dead_letters, again.dead_letters, again.resolved) == (1, 1, 0)
    assert list(read_documents(clean_indices, DEAD_LETTERS)) == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(sink.upsert("a", {"v": 3}, 3), id="written"),
        pytest.param(sink.delete("a", 3), id="deleted"),
    ],
)
def test_a_later_write_of_the_key_resolves_the_letter(
    clean_indices: str, admin: Client, line: sink.Line
) -> None:
    sink.write(clean_indices, [sink.upsert("a", {"v": "x"}), sink.upsert("b", {"v": "x"})])
    letter_ids = dead_letters.list_ids(admin, sink.OWNER)
    assert letter_ids == {"a", "b"}
    # A document of its id that somebody else wrote says nothing about the row.
    stray = sink.delete("a", 2)
    spared = {"known_dead_letter_ids": letter_ids, "settles_dead_letters": False}
    assert sink.write(clean_indices, [stray], 2, **spared).resolved == 0
    result = sink.write(clean_indices, [line], 3, known_dead_letter_ids=letter_ids)
    assert (result.error, result.resolved) == (None, 1)
    assert list(read_documents(clean_indices, DEAD_LETTERS)) == ["b"]
    # The replay finds it resolved.
    replay = sink.write(clean_indices, [line], 3, known_dead_letter_ids=letter_ids)
    assert (replay.error, replay.resolved) == (None, 0)
    assert dead_letters.count(admin, sink.OWNER) == 1


def test_a_letter_is_resolved_by_the_replay_when_the_first_attempt_died_before(
    clean_indices: str,
) -> None:
    sink.write(clean_indices, [sink.upsert("a", {"v": "x"})])
    line = sink.upsert("a", {"v": 3}, 3)
    sink.write(clean_indices, [line], 3)
    replay = sink.write(clean_indices, [line], 3, known_dead_letter_ids=frozenset({"a"}))
    assert (replay.already_applied, replay.resolved) == (1, 1)


def test_a_letter_is_resolved_when_the_batch_itself_is_repeated_with_success(
    clean_indices: str, admin: Client
) -> None:
    sink.write(clean_indices, [sink.upsert("a", {"v": "x"}, 3)], 3)
    assert dead_letters.count(admin, sink.OWNER) == 1
    letter_ids = frozenset({"a"})
    again = sink.write(
        clean_indices, [sink.upsert("a", {"v": 3}, 3)], 3, known_dead_letter_ids=letter_ids
    )
    assert (again.error, again.upserted, again.resolved) == (None, 1, 1)
    assert dead_letters.count(admin, sink.OWNER) == 0


def test_letters_that_somebody_removed_are_nothing_to_resolve(
    clean_indices: str, admin: Client
) -> None:
    letter_ids = frozenset({"a"})
    result = sink.write(
        clean_indices, [sink.upsert("a", {"v": 1})], known_dead_letter_ids=letter_ids
    )
    assert (result.error, result.resolved) == (None, 0)
    assert not admin.indices.exists(index=DEAD_LETTERS)


def test_the_policy_stop_ends_with_the_first_refused_row(clean_indices: str) -> None:
    sink.write(clean_indices, [sink.upsert("a", {"v": 1})])
    lines = [sink.upsert("a", {"v": "secret-value"}, 2, expect="u")]
    result = sink.write(clean_indices, lines, 2, dead_letter_policy=DeadLetterPolicy.STOP)
    words = 'refused document "a" (mapper_parsing_exception), and deadLetters.policy is Stop.'
    assert result.error is not None
    assert result.error[0] == "DeadLetterLimit"
    assert f"Index 'orders-000001' {words}" in result.error[1]
    assert read_documents(clean_indices, sink.INDEX) == {"a": (compute_base_version(1), {"v": 1})}


def test_more_letters_than_allowed_end_the_batch(clean_indices: str) -> None:
    lines = [sink.upsert(f"k{n}", {"v": "secret-value"}) for n in range(4)]
    result = sink.write(clean_indices, lines, max_dead_letters=3)
    assert result.error is not None
    assert result.error[0] == "DeadLetterLimit"
    assert "deadLetters.maxRows (3)" in result.error[1]
    assert "secret-value" not in result.error[1]
    letter_ids = frozenset({"k0", "k1"})
    retained = sink.write(
        clean_indices, lines[:3], max_dead_letters=3, known_dead_letter_ids=letter_ids
    )
    assert (retained.error, retained.dead_letters) == (None, 3)


def test_an_index_of_somebody_else_is_not_filled_with_letters(
    clean_indices: str, admin: Client
) -> None:
    admin.indices.create(index=DEAD_LETTERS)
    result = sink.write(clean_indices, [sink.upsert("a", {"v": "x"})])
    assert result.error is not None
    assert result.error[0] == "AliasTaken"
    assert read_documents(clean_indices, DEAD_LETTERS) == {}


def test_a_request_refused_whole_is_halved_until_the_culprit_is_alone(clean_indices: str) -> None:
    lines = [sink.upsert(f"k{n}", {"v": n}) for n in range(64)]
    lines[37] = (b'{"index":{"_id":"bad","version":-1,"version_type":"external"}}\n{"v":1}\n', "c")
    result = sink.write(clean_indices, lines)
    assert (result.error, result.upserted, result.dead_letters) == (None, 63, 1)
    assert list(read_documents(clean_indices, DEAD_LETTERS)) == ["bad"]
    assert len(read_documents(clean_indices, sink.INDEX)) == 63


@pytest.mark.parametrize("size", [100_000, 1_200_000])
def test_a_document_that_is_too_large_for_a_proxy_is_a_dead_letter_without_its_text(
    proxy: FaultProxy, size: int
) -> None:
    huge = json.dumps({"s": "x" * size}).encode()
    proxy.add(Status(413, body=b""), path="_bulk", body="x{1000}", times=None)
    lines = [sink.upsert("a", {"v": 1}), sink.upsert("big", huge), sink.upsert("z", {"v": 1})]
    result = sink.write(proxy.url, lines)
    assert (result.error, result.upserted, result.dead_letters) == (None, 2, 1)
    ((version, letter),) = read_documents(proxy.upstream, DEAD_LETTERS).values()
    assert isinstance(letter, dict)
    assert (version, letter["documentBytes"]) == (compute_base_version(1) - 1, len(huge))
    assert "document" not in letter


def test_a_refused_delete_is_never_passed_over(clean_indices: str) -> None:
    line = b'{"delete":{"_id":"a","version":-1,"version_type":"external"}}\n'
    result = sink.write(clean_indices, [(line, "d")])
    assert result.error is not None
    assert result.error[0] == "Bug"


def test_letters_of_before_an_export_and_of_rows_with_a_document_are_purged(
    clean_indices: str, admin: Client
) -> None:
    assert dead_letters.purge_older(admin, sink.OWNER, 5) == 0
    sink.write(clean_indices, [sink.upsert("a", {"v": "x"})])
    sink.write(clean_indices, [sink.upsert("b", {"v": "x"}, 2)], 2)
    counts = [dead_letters.count(admin, sink.OWNER, ordinal=number) for number in (1, 2, 3)]
    assert counts == [1, 1, 0]
    assert dead_letters.purge_older(admin, sink.OWNER, 2) == 1
    sink.write(clean_indices, [sink.upsert("c", {"v": "x"}, 3)], 3)
    call(clean_indices, "PUT", f"/{sink.INDEX}/_doc/b?routing=elsewhere", {"v": 1})
    assert dead_letters.purge_written(admin, sink.OWNER, sink.INDEX) == 1
    assert dead_letters.list_ids(admin, sink.OWNER) == {"c"}


def test_the_dead_letter_index_is_no_physical_index(clean_indices: str, admin: Client) -> None:
    sink.write(clean_indices, [sink.upsert("a", {"v": "x"})])
    assert indices.drop_orphans(admin, sink.OWNER, keep=frozenset({sink.INDEX}), below=99) == []
    assert admin.indices.exists(index=DEAD_LETTERS)


def test_the_letters_of_others_are_not_ours(admin: Client) -> None:
    other = replace(sink.OWNER, pipeline="default/other")
    assert dead_letters.owns_index(admin, sink.OWNER) is None
    dead_letters.ensure_index(admin, other)
    assert dead_letters.owns_index(admin, sink.OWNER) is False
    assert dead_letters.owns_index(admin, other) is True


def test_a_letter_that_was_deleted_by_hand_is_stored_again_by_the_replay(
    clean_indices: str, admin: Client
) -> None:
    """OpenSearch remembers the deletion with a version above the letter's, for an hour."""
    lines = [sink.upsert("a", {"v": "x"}), sink.upsert("b", {"v": 1})]
    sink.write(clean_indices, lines)
    for deletions in (1, 2):
        assert call(clean_indices, "DELETE", f"/{DEAD_LETTERS}/_doc/a").status == 200
        again = sink.write(clean_indices, lines)
        assert (again.error, again.dead_letters) == (None, 1), deletions
        assert dead_letters.count(admin, sink.OWNER, ordinal=1) == 1, deletions
    letter_ids = dead_letters.list_ids(admin, sink.OWNER)
    taken = sink.write(
        clean_indices, [sink.upsert("a", {"v": 2})], known_dead_letter_ids=letter_ids
    )
    assert (taken.error, taken.upserted, taken.resolved) == (None, 1, 1)
    assert dead_letters.count(admin, sink.OWNER) == 0


def test_a_letter_is_stored_although_a_later_batch_removed_one_of_its_id_before_the_state_was_lost(
    clean_indices: str, admin: Client
) -> None:
    """The ordinals of the next export begin anew: no letter is left that shows the old ones."""
    sink.write(clean_indices, [sink.upsert("a", {"v": "x"}, 50)], 50)
    letter_ids = frozenset({"a"})
    sink.write(clean_indices, [sink.delete("a", 60)], 60, known_dead_letter_ids=letter_ids)
    assert dead_letters.read_last_ordinal(admin, sink.OWNER) == 0
    indices.delete(admin, sink.INDEX)
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    # With a newer run the letter is that run's affair ...
    lines = [sink.upsert("a", {"v": "x"}), sink.upsert("b", {"v": 1})]
    fenced = sink.write(clean_indices, lines)
    assert fenced.error is not None
    assert fenced.error[0] == "Fenced"
    # ... and where the driver has seen that there is none, the letter is stored and counted.
    result = sink.write(clean_indices, lines, outranked_is_foreign=True)
    assert (result.error, result.dead_letters) == (None, 1)
    assert dead_letters.count(admin, sink.OWNER, ordinal=1) == 1
    replay = sink.write(clean_indices, lines, known_dead_letter_ids=letter_ids)
    assert (replay.error, replay.dead_letters) == (None, 1)
    # Nor is its removal held up, by the very next batch.
    later = sink.write(
        clean_indices, [sink.upsert("a", {"v": 2}, 2)], 2, known_dead_letter_ids=letter_ids
    )
    assert (later.error, later.resolved) == (None, 1)
    assert dead_letters.count(admin, sink.OWNER) == 0


def test_the_letter_of_a_newer_batch_is_neither_overwritten_nor_removed(
    clean_indices: str, admin: Client
) -> None:
    sink.write(clean_indices, [sink.upsert("a", {"v": "x"}, 9), sink.upsert("b", {"v": 1}, 1)], 9)
    before = read_documents(clean_indices, DEAD_LETTERS)
    older = sink.write(clean_indices, [sink.upsert("a", {"v": "y"}, 3)], 3)
    assert older.error is not None
    assert older.error[0] == "Fenced"
    letter_ids = frozenset({"a"})
    sink.write(clean_indices, [sink.upsert("a", {"v": 3}, 3)], 3, known_dead_letter_ids=letter_ids)
    assert read_documents(clean_indices, DEAD_LETTERS) == before


def test_a_letter_that_was_edited_by_hand_stands_for_its_row(
    clean_indices: str, admin: Client
) -> None:
    lines = [sink.upsert("a", {"v": "x"})]
    sink.write(clean_indices, lines)
    change = {"doc": {"reason": "seen, asked for a mending"}}
    assert call(clean_indices, "POST", f"/{DEAD_LETTERS}/_update/a", change).status == 200
    edited = read_documents(clean_indices, DEAD_LETTERS)
    again = sink.write(clean_indices, lines)
    assert (again.error, again.dead_letters) == (None, 1)
    assert read_documents(clean_indices, DEAD_LETTERS) == edited
    letter_ids = frozenset({"a"})
    taken = sink.write(
        clean_indices, [sink.upsert("a", {"v": 2})], known_dead_letter_ids=letter_ids
    )
    assert (taken.error, taken.resolved) == (None, 1)
    assert dead_letters.count(admin, sink.OWNER) == 0
