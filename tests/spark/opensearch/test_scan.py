"""Reading a whole index in slices."""

import pytest

import support_sink as sink
from icdc_spark.opensearch import indices, scan
from icdc_spark.opensearch.bulk import write_batches
from icdc_spark.opensearch.connection import Client
from icdc_spark.state import base_version
from support_opensearch import call

pytestmark = pytest.mark.spark


def fill(url: str, lines: list[sink.Line]) -> None:
    assert write_batches(sink.batches(lines), sink.target(url)).error is None
    call(url, "POST", f"/{sink.INDEX}/_refresh")


@pytest.mark.parametrize(("shards", "slices"), [(1, 1), (1, 4), (3, 1), (3, 3), (3, 7)])
def test_every_document_is_read_once(
    clean_indices: str, admin: Client, shards: int, slices: int
) -> None:
    settings = {"number_of_shards": shards}
    indices.create(admin, sink.OWNER, sink.MAPPING, settings)
    fill(clean_indices, [sink.upsert(f"k{n}", {"v": n}) for n in range(3000)])
    opened = scan.open_scan(admin, sink.INDEX, slices)
    # Documents written after the scan was opened are not in it.
    fill(clean_indices, [sink.upsert("late", {"v": 1})])
    found = [each for n in range(opened.slices) for each in scan.read_slice(opened, n)]
    scan.close_scan(admin, opened)
    assert sorted(each.id for each in found) == sorted(f"k{n}" for n in range(3000))
    assert {each.version for each in found} == {base_version(1)}
    assert all(each.source == {"v": int(each.id[1:])} for each in found)
    scan.close_scan(admin, opened)


def test_the_text_of_a_document_is_read_as_it_was_written(
    clean_indices: str, admin: Client
) -> None:
    mapping: dict[str, object] = {"dynamic": False, "properties": {}}
    indices.create(admin, sink.OWNER, mapping, {})
    texts = {
        "numbers": '{"a":1.0E10,"b":1e2,"c":-0.0,"d":123456789012345678901234567890}',
        'quote"_source":{': '{"text":"\\"_source\\":{}} \\u00e9","deep":{"x":[{"y":"}"}]}}',
        "\U0001f600|\\": '{"o":{},"l":[],"s":"\U0001f600"}',
    }
    fill(clean_indices, [sink.upsert(key, text.encode()) for key, text in texts.items()])
    opened = scan.open_scan(admin, sink.INDEX, 1)
    assert {each.id: each.text for each in scan.read_slice(opened, 0)} == texts
    scan.close_scan(admin, opened)


def test_an_empty_index_has_no_documents(admin: Client) -> None:
    indices.create(admin, sink.OWNER, sink.MAPPING, {})
    opened = scan.open_scan(admin, sink.INDEX, 2)
    assert [each for n in range(opened.slices) for each in scan.read_slice(opened, n)] == []
    scan.close_scan(admin, opened)
