"""Reading a whole index in slices."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from icdc_api.errors import TargetUnavailable
from icdc_spark.matching.buckets import Buckets
from icdc_spark.matching.digests import build_scan_task
from icdc_spark.opensearch.client import scan
from icdc_spark.opensearch.client.connection import Client, Connection, open_client
from icdc_spark.opensearch.stores import dead_letters, indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.protocol.state_document import compute_base_version
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import RewrittenAnswer, Status
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark

REFUSED_ROWS = "orders-dead-letters"


def fill(url: str, lines: list[sink.Line]) -> None:
    assert sink.run_task(sink.make_batches(lines), sink.make_target(url)).error is None
    call(url, "POST", f"/{sink.INDEX}/_refresh")


@pytest.mark.parametrize(("shards", "slices"), [(1, 1), (1, 4), (3, 3), (3, 7), (64, 64)])
def test_every_document_is_read_once(
    clean_indices: str, admin: Client, shards: int, slices: int
) -> None:
    settings = {"number_of_shards": shards}
    indices.create(admin, sink.OWNER, sink.MAPPING, settings)
    fill(clean_indices, [sink.upsert(f"k{n}", {"v": n}) for n in range(3000)])
    opened = scan.open_scan(admin, sink.INDEX, slices * scan.SLICE_DOCUMENTS)
    assert opened.slices == slices
    # Documents written after the scan was opened are not in it.
    fill(clean_indices, [sink.upsert("late", {"v": 1})])
    read = [document for n in range(opened.slices) for document in scan.read_slice(opened, n)]
    scan.close_scan(admin, opened)
    assert sorted(document.id for document in read) == sorted(f"k{n}" for n in range(3000))
    assert {document.version for document in read} == {compute_base_version(1)}
    assert all(json.loads(document.text) == {"v": int(document.id[1:])} for document in read)
    scan.close_scan(admin, opened)


def test_pages_fit_into_the_window_of_an_index(clean_indices: str, admin: Client) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {"max_result_window": 2})
    ids = [f"k{n}" for n in range(5)]
    fill(clean_indices, [sink.upsert(key, {"v": 1}) for key in ids])
    opened = scan.open_scan(admin, sink.INDEX, 0)
    assert sorted(document.id for document in scan.read_slice(opened, 0)) == ids
    scan.close_scan(admin, opened)
    shards, page = scan.read_limits(admin, sink.INDEX)
    named = scan.NamedIndex(opened.connection, sink.INDEX, shards=shards, page=page)
    assert [document.id for document in scan.read_documents(named, ids[:2])] == ids[:2]


def test_a_scan_that_was_read_is_left_to_expire_where_it_cannot_be_closed(
    proxy: FaultProxy, index: PhysicalIndex
) -> None:
    through = open_client(Connection(hosts=(proxy.url,)))
    opened = scan.open_scan(through, index.name, 0)
    through.patience = 0.1
    refused = proxy.add(Status(503), method="DELETE", path="point_in_time", times=None)
    scan.close_scan(through, opened)
    through.close()
    assert refused.hits


def test_pages_of_large_documents_have_fewer_of_them(proxy: FaultProxy, admin: Client) -> None:
    mapping: dict[str, object] = {"dynamic": False, "properties": {}}
    indices.create(admin, sink.OWNER, mapping, {})
    large = scan.PAGE_BYTES // 4
    sizes = [1] * 60 + [large] * 12
    for at in range(0, len(sizes), 12):
        some = list(enumerate(sizes))[at : at + 12]
        fill(proxy.upstream, [sink.upsert(f"k{n}", {"t": "x" * size}) for n, size in some])
    through = open_client(Connection(hosts=(proxy.url,)))
    opened = scan.open_scan(through, sink.INDEX, 0)
    assert sorted(len(found.text) for found in scan.read_slice(opened, 0)) == sorted(
        len('{"t": ""}') + size for size in sizes
    )
    scan.close_scan(through, opened)
    through.close()
    pages = [json.loads(seen.body)["size"] for seen in proxy.list_requests("/_search?")]
    # Twice as many while they are small, and then as few as their size allows.
    assert pages == [50, 100, 3]


def test_a_task_shows_that_it_reads_also_where_it_leaves_all_documents_out(
    clean_indices: str, admin: Client
) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    fill(clean_indices, [sink.upsert(f"k{n}", {"v": n}) for n in range(2500)])
    opened = scan.open_scan(admin, sink.INDEX, 0)
    number = pa.record_batch({"id": [0]})
    for within, rows in ((Buckets(frozenset()), 0), (None, 2500)):
        batches = list(build_scan_task(opened, None, within)([number]))
        assert (len(batches), sum(batch.num_rows for batch in batches)) == (3, rows)
        assert {tuple(map(str, batch.schema.types)) for batch in batches} == {("string",) * 3}
    scan.close_scan(admin, opened)


def test_the_text_of_a_document_is_read_as_it_was_written(
    clean_indices: str, admin: Client
) -> None:
    mapping: dict[str, object] = {"dynamic": False, "properties": {}}
    indices.create(admin, sink.OWNER, mapping, {})
    texts = {
        "numbers": '{"a":1.0E10,"b":1e2,"c":-0.0,"d":123456789012345678901234567890}',
        'quote"_source":{': '{"text":"\\"_source\\":{}} \\u00e9","deep":{"x":[{"y":"}"}]}}',
        "like ours": '{"o":{"x":{},"sort":[1],"matched_queries":["q"],"_source":{}}}',
        "\U0001f600|\\": '{"o":{},"l":[],"s":"\U0001f600"}',
    }
    fill(clean_indices, [sink.upsert(key, text.encode()) for key, text in texts.items()])
    opened = scan.open_scan(admin, sink.INDEX, 0)
    assert {document.id: document.text for document in scan.read_slice(opened, 0)} == texts
    scan.close_scan(admin, opened)


def test_a_search_pipeline_that_an_index_names_for_its_readers_is_not_used(
    clean_indices: str, admin: Client
) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    fill(clean_indices, [sink.upsert(f"k{n}", {"v": n}) for n in range(3)])
    opened = scan.open_scan(admin, sink.INDEX, 0)
    # One that is missing shows best who would use it.
    missing = {"index.search.default_pipeline": "missing"}
    assert call(clean_indices, "PUT", f"/{sink.INDEX}/_settings", missing).status == 200
    assert call(clean_indices, "GET", f"/{sink.INDEX}/_search").status == 400
    named = scan.NamedIndex(opened.connection, sink.INDEX, shards=1)
    for documents in (scan.read_slice(opened, 0), scan.read_documents(named, ["k0", "k1", "k2"])):
        assert sorted(document.id for document in documents) == ["k0", "k1", "k2"]
    assert indices.refresh_and_count(admin, sink.INDEX) == 3
    scan.close_scan(admin, opened)


def test_a_search_pipeline_hides_no_dead_letter(clean_indices: str, admin: Client) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    assert sink.write(clean_indices, [sink.upsert("a", {"v": "x"})]).dead_letters == 1
    missing = {"index.search.default_pipeline": "missing"}
    assert call(clean_indices, "PUT", f"/{REFUSED_ROWS}/_settings", missing).status == 200
    assert dead_letters.list_ids(admin, sink.OWNER) == {"a"}
    assert dead_letters.count(admin, sink.OWNER) == 1
    assert dead_letters.read_last_ordinal(admin, sink.OWNER) == 1
    assert dead_letters.purge_older(admin, sink.OWNER, 2) == 1


def test_a_point_in_time_that_is_gone_is_no_defect_and_is_not_asked_for_again(
    clean_indices: str, admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    fill(clean_indices, [sink.upsert("k", {"v": 1})])
    opened = scan.open_scan(admin, sink.INDEX, 1)
    scan.close_scan(admin, opened)
    with pytest.raises(TargetUnavailable, match=r"search_context_missing_exception\): what was"):
        list(scan.read_slice(opened, 0))
    assert "Tried again" not in caplog.text


def test_an_empty_index_has_no_documents(admin: Client) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    opened = scan.open_scan(admin, sink.INDEX, 0)
    assert [document for n in range(opened.slices) for document in scan.read_slice(opened, n)] == []
    scan.close_scan(admin, opened)


SHARDS = {"total": 3, "successful": 2, "skipped": 0, "failed": 0}
"""What OpenSearch says when one of three shards has no copy just now."""


FAILED = {"_shards": {"total": 1, "successful": 0, "failed": 1}}


def fail_shards(answer: dict[str, Any]) -> dict[str, Any]:
    return answer | {"_shards": SHARDS}


def take_too_long(answer: dict[str, Any]) -> dict[str, Any]:
    return answer | {"timed_out": True}


@pytest.mark.parametrize(
    ("path", "change"),
    [
        pytest.param("point_in_time", fail_shards, id="opening"),
        pytest.param("/_search", fail_shards, id="a page"),
        pytest.param("/_search", take_too_long, id="a page in haste"),
        pytest.param("/orders-000001/_search", fail_shards, id="a count"),
        pytest.param("/orders-000001/_search", take_too_long, id="a count in haste"),
        pytest.param("/orders-dead-letters/_search", fail_shards, id="ids of dead letters"),
        pytest.param("/orders-dead-letters/_refresh", lambda answer: FAILED, id="a refresh"),
    ],
)
def test_an_answer_from_a_part_of_the_shards_is_asked_again(
    proxy: FaultProxy, admin: Client, path: str, change: Callable[[dict[str, Any]], Any]
) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {"number_of_shards": 3})
    fill(proxy.upstream, [sink.upsert(f"k{n}", {"v": n}) for n in range(30)])
    dead_letters.ensure_index(admin, sink.OWNER)
    through = open_client(Connection(hosts=(proxy.url,)))
    rule = proxy.add(RewrittenAnswer(change), path=path)
    opened = scan.open_scan(through, sink.INDEX, 0)
    ids = [document.id for n in range(opened.slices) for document in scan.read_slice(opened, n)]
    assert sorted(ids) == sorted(f"k{n}" for n in range(30))
    assert indices.refresh_and_count(through, sink.INDEX) == 30
    assert dead_letters.list_ids(through, sink.OWNER) == frozenset()
    assert dead_letters.count(through, sink.OWNER) == 0
    assert (rule.hits, len(proxy.list_requests(path)) > 1) == (1, True)
    scan.close_scan(through, opened)
    through.close()


def test_a_page_that_was_cut_short_or_written_anew_is_asked_again(
    proxy: FaultProxy, admin: Client
) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    fill(proxy.upstream, [sink.upsert(f"k{n}", {"v": n}) for n in range(30)])
    through = open_client(Connection(hosts=(proxy.url,)))
    opened = scan.open_scan(through, sink.INDEX, 0)
    # The proxy parses an answer and writes it with other spaces.
    for change in (lambda answer: answer, lambda answer: answer | {"hits": {}}):
        rule = proxy.add(RewrittenAnswer(change), path="/_search")
        assert len({document.id for document in scan.read_slice(opened, 0)}) == 30
        assert rule.hits == 1
    scan.close_scan(through, opened)
    through.close()


def test_an_index_with_a_shard_that_is_nowhere_is_not_read(admin: Client) -> None:
    settings = {"number_of_shards": 3, "routing.allocation.total_shards_per_node": 2}
    body = {"settings": settings}
    admin.indices.create(index="orders-000001", body=body, params={"wait_for_active_shards": "0"})
    admin.patience = 0.1
    with pytest.raises(TargetUnavailable, match="answered 503"):
        scan.open_scan(admin, "orders-000001", 0)


def test_a_point_in_time_of_a_part_of_the_shards_is_never_scanned(
    proxy: FaultProxy, admin: Client
) -> None:
    """A shard that is left out of it stays out, also once it has a copy again."""
    indices.create(admin, sink.OWNER, sink.MAPPING, {"number_of_shards": 3})
    through = open_client(Connection(hosts=(proxy.url,)))
    through.patience = 0.5
    proxy.add(RewrittenAnswer(fail_shards), path="point_in_time", times=None)
    with pytest.raises(
        TargetUnavailable,
        match=f"the point in time of index '{sink.INDEX}' from 2 of 3 shards",
    ):
        scan.open_scan(through, sink.INDEX, 0)
    through.close()
    opened = proxy.list_requests("point_in_time")
    assert len(opened) > 1
    # Without it OpenSearch answers 200 for what it could open.
    assert all("allow_partial_pit_creation=false" in seen.target for seen in opened)
    assert len(proxy.list_requests("/_search")) == len(opened), "no page was asked for"
