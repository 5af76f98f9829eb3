"""Rows of a sample, and the documents that a new index has under their ids."""

import itertools
from collections.abc import Iterable, Set

import pyarrow as pa
import pytest

from icdc_spark.matching.sampling import PAGE_BYTES, build_sample_task, cut_pages
from icdc_spark.opensearch.client.connection import Connection
from icdc_spark.opensearch.client.scan import NamedIndex
from icdc_spark.opensearch.wire.operations import build_index_entry
from icdc_spark.replication.checks.new_index import SAMPLE_CHUNKS, choose_chunks
from icdc_testing.simulation.model.target import ModelTarget
from icdc_testing.target.replaced_indices import THIRD

pytestmark = pytest.mark.unit


def make_batch(rows: Iterable[tuple[str, str]]) -> pa.RecordBatch:
    """Return the bulk lines of rows."""
    lines = [build_index_entry(key, 1, text.encode()) for key, text in rows]
    return pa.record_batch({"line": pa.array(lines, pa.binary())})


def compare(
    rows: dict[str, str], limit: int, added: Set[str] | None = None
) -> list[tuple[str, str]]:
    """Return id and kind of each row that a task compares; the rows come in two batches."""
    pairs = list(rows.items())
    batches = [make_batch(part) for part in (pairs[:2], pairs[2:])]
    index = NamedIndex(Connection(hosts=("http://127.0.0.1:1",)), THIRD, shards=1)
    task = build_sample_task(index, added, limit)
    return [(row["id"], row["kind"]) for made in task(batches) for row in made.to_pylist()]


def test_a_task_says_how_rows_and_documents_differ_and_asks_for_no_more_than_its_share(
    target: ModelTarget,
) -> None:
    index = target.indices[THIRD]
    for key, source in {"1": {"a": "x"}, "3": {"a": "q"}, "4": {"a": "x"}}.items():
        index.write(key, source, 0.0)
    rows = {"1": '{"a":"x"}', "2": '{"a":"y"}', "3": '{"a":"z"}', "4": '{"a":"y"}'}
    # A search finds what was refreshed.
    assert compare(rows, 4) == [(key, "missing") for key in rows]
    index.refresh()
    judged = [("1", "equal"), ("2", "missing"), ("3", "different"), ("4", "different")]
    for limit in range(5):
        assert compare(rows, limit) == judged[:limit]


def test_a_task_reads_no_further_than_its_share_where_keys_repeat(target: ModelTarget) -> None:
    batches = iter([make_batch([("1", '{"a":"x"}')] * 3) for _ in range(4)])
    index = NamedIndex(Connection(hosts=("http://127.0.0.1:1",)), THIRD, shards=1)
    assert [made.num_rows for made in build_sample_task(index, None, 5)(batches)] == [1, 1]
    assert len(list(batches)) == 2


def test_what_opensearch_adds_is_no_difference_at_whatever_depth(target: ModelTarget) -> None:
    index = target.indices[THIRD]
    stored = {"a": "x", "a_info": [1], "b": [{"c": "y", "c_info": {"d": 1}}, None], "e": 1.5}
    index.write("1", stored, 0.0)
    index.write("2", {**stored, "b": [{"c": "z", "c_info": 2}]}, 0.0)
    index.refresh()
    row = '{"a":"x","b":[{"c":"y"},null],"e":1.50}'
    found = compare({"1": row, "2": row}, 2, {"a_info", "b.c_info"})
    assert found == [("1", "equal"), ("2", "different")]


@pytest.mark.parametrize(
    ("sizes", "pages"),
    [
        ([], []),
        ([1] * 4, [3, 1]),
        ([PAGE_BYTES + 1, 1, PAGE_BYTES - 1, 1], [1, 2, 1]),
    ],
    ids=["no line", "many lines", "large lines"],
)
def test_documents_are_asked_for_in_pages_that_fit_into_memory(
    sizes: list[int], pages: list[int]
) -> None:
    lines = [b"x" * size for size in sizes]
    made = list(cut_pages(lines, 3))
    assert [len(page) for page in made] == pages
    assert [line for page in made for line in page] == lines


@pytest.mark.parametrize("count", [1, 2, SAMPLE_CHUNKS, 9, 1000])
def test_the_chunks_of_a_sample_are_spread_and_the_same_for_one_index(count: int) -> None:
    chosen = choose_chunks("uuid", count)
    assert chosen == choose_chunks("uuid", count) == sorted(set(chosen))
    assert (len(chosen), chosen[0] >= 0, chosen[-1] < count) == (min(count, 4), True, True)
    gaps = {after - before for before, after in itertools.pairwise(chosen)}
    assert gaps <= {count // 4, count // 4 + 1, 1}
    if count == 1000:
        assert chosen != choose_chunks("another uuid", count)
