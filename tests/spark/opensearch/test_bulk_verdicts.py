"""Happy path and the rule of versions, against a real node."""

import json
from collections.abc import Iterator

import pytest

from icdc_spark.opensearch.bulk.result import PartitionResult
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.protocol.state_document import FIXUP_OFFSET, compute_base_version
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call, read_documents

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("index")]


def write(url: str, lines: list[sink.Line], ordinal: int = 1, **changes: object) -> PartitionResult:
    return sink.run_task(sink.make_batches(lines), sink.make_target(url, ordinal, **changes))


def test_documents_are_written_with_the_version_of_their_batch(clean_indices: str) -> None:
    lines = [sink.upsert(f"k{n}", {"v": n}) for n in range(2500)]
    result = write(clean_indices, lines, max_bytes=20_000)
    assert (result.error, result.upserted, result.deleted) == (None, 2500, 0)
    assert result.requests > 5
    stored = read_documents(clean_indices, sink.INDEX)
    assert stored == {f"k{n}": (compute_base_version(1), {"v": n}) for n in range(2500)}


def test_deletes_and_upserts_of_a_later_batch_apply(clean_indices: str) -> None:
    write(clean_indices, [sink.upsert("a", {"v": 1}), sink.upsert("b", {"v": 1})])
    later = [
        sink.upsert("a", {"v": 2}, 2, expect="u"),
        sink.delete("b", 2),
        sink.delete("never", 2),
        sink.upsert("c", {"v": 3}, 2),
    ]
    result = write(clean_indices, later, 2)
    assert (result.upserted, result.deleted, result.suspects.count) == (2, 2, 0)
    assert read_documents(clean_indices, sink.INDEX) == {
        "a": (compute_base_version(2), {"v": 2}),
        "c": (compute_base_version(2), {"v": 3}),
    }


def test_a_replay_changes_nothing_and_is_counted_apart(clean_indices: str) -> None:
    lines = [sink.upsert("a", {"v": 1}), sink.delete("b")]
    write(clean_indices, lines)
    before = read_documents(clean_indices, sink.INDEX)
    result = write(clean_indices, lines)
    assert (result.upserted, result.deleted, result.already_applied) == (0, 0, 2)
    assert read_documents(clean_indices, sink.INDEX) == before


def test_a_create_that_updates_is_a_suspect(clean_indices: str) -> None:
    write(clean_indices, [sink.upsert("a", {"v": 1})])
    lines = [
        sink.upsert("a", {"v": 2}, 2),
        sink.upsert("b", {"v": 2}, 2),
        sink.upsert("a2", {"v": 2}, 2, expect="u"),
    ]
    result = write(clean_indices, lines, 2)
    assert (result.suspects.count, result.suspects.ids) == (1, ["a"])


@pytest.mark.parametrize(
    ("current", "version", "expected"),
    [
        pytest.param(
            compute_base_version(5), compute_base_version(5), "already", id="exactly ours"
        ),
        pytest.param(
            compute_base_version(5) + FIXUP_OFFSET,
            compute_base_version(5),
            "already",
            id="our fix-up",
        ),
        pytest.param(
            compute_base_version(5) + FIXUP_OFFSET,
            compute_base_version(5) + FIXUP_OFFSET,
            "already",
            id="a fix-up repeated",
        ),
        pytest.param(
            compute_base_version(5) + 1, compute_base_version(5), "foreign", id="edited after ours"
        ),
        pytest.param(
            compute_base_version(5) + FIXUP_OFFSET + 3,
            compute_base_version(5) + FIXUP_OFFSET,
            "foreign",
            id="edited after our fix-up",
        ),
        pytest.param(
            compute_base_version(6) - 1, compute_base_version(5), "foreign", id="the last of ours"
        ),
        pytest.param(
            compute_base_version(6), compute_base_version(5), "Fenced", id="a newer batch"
        ),
        pytest.param(
            compute_base_version(9) + 7, compute_base_version(5), "Fenced", id="a much newer batch"
        ),
        pytest.param(
            compute_base_version(4) + 7, compute_base_version(5), "applied", id="edited before ours"
        ),
    ],
)
def test_a_conflict_is_judged_by_the_versions(
    clean_indices: str, current: int, version: int, expected: str
) -> None:
    query = f"version={current}&version_type=external"
    stored = call(clean_indices, "PUT", f"/{sink.INDEX}/_doc/a?{query}", {"v": 0})
    assert stored.status == 201
    line, expect = sink.upsert("a", {"v": 1}, 5, expect="u")
    line = line.replace(str(compute_base_version(5)).encode(), str(version).encode())
    result = write(clean_indices, [(line, expect)], 5, version=version)
    assert {
        "already": result.already_applied,
        "foreign": result.foreign_edits.count,
        "applied": result.upserted,
        "Fenced": int(result.error is not None and result.error[0] == "Fenced"),
    }[expected] == 1
    retained = read_documents(clean_indices, sink.INDEX)["a"]
    assert retained == ((version, {"v": 1}) if expected == "applied" else (current, {"v": 0}))


def test_an_id_that_quotes_a_conflict_does_not_confuse(clean_indices: str) -> None:
    key = 'x]: version conflict, current version [1] is higher or equal to the one provided [9]"'
    write(clean_indices, [sink.upsert(key, {"v": 1}, 3)], 3)
    result = write(clean_indices, [sink.upsert(key, {"v": 1}, 3)], 3)
    assert (result.error, result.already_applied) == (None, 1)


def test_a_missing_index_is_a_gap_and_is_not_created(
    clean_indices: str, admin: Client, index: PhysicalIndex
) -> None:
    admin.indices.delete(index=index.name)
    for lines in ([sink.delete("a")], [sink.upsert("a", {"v": 1})]):
        result = write(clean_indices, lines)
        assert result.error is not None
        assert result.error[0] == "Gap"
        listed = call(clean_indices, "GET", "/_cat/indices?format=json&expand_wildcards=all")
        assert json.loads(listed.body) == []


def test_an_alias_in_the_place_of_the_index_is_a_gap(
    clean_indices: str, admin: Client, index: PhysicalIndex
) -> None:
    admin.indices.delete(index=index.name)
    admin.indices.create(index="foreign", body={"aliases": {index.name: {}}})
    result = write(clean_indices, [sink.delete("a")])
    assert result.error is not None
    assert result.error[0] == "Gap"
    assert read_documents(clean_indices, "foreign") == {}


@pytest.fixture
def unblocked(clean_indices: str) -> Iterator[None]:
    """Takes blocks off again, so that the index can be removed."""
    yield
    blocks = ("write", "read_only", "read_only_allow_delete")
    for block in blocks:
        # One at a time: a read-only index lets nothing else be changed in the same request.
        call(clean_indices, "PUT", f"/{sink.INDEX}/_settings", {f"index.blocks.{block}": None})


@pytest.mark.usefixtures("unblocked")
@pytest.mark.parametrize("block", ["write", "read_only", "read_only_allow_delete"])
def test_a_block_is_read_only_at_once(clean_indices: str, admin: Client, block: str) -> None:
    admin.indices.put_settings(index=sink.INDEX, body={f"index.blocks.{block}": True})
    result = write(clean_indices, [sink.upsert("a", {"v": 1})])
    assert result.error is not None
    assert (result.error[0], result.retries) == ("TargetReadOnly", 0)


def test_a_closed_index_is_read_only_and_no_dead_letter(clean_indices: str, admin: Client) -> None:
    admin.indices.close(index=sink.INDEX)
    result = write(clean_indices, [sink.upsert("a", {"v": 1})])
    assert result.error is not None
    assert (result.error[0], result.dead_letters) == ("TargetReadOnly", 0)
    assert "is closed (index_closed_exception)" in result.error[1]
    assert "open it (POST /" in result.error[1]
