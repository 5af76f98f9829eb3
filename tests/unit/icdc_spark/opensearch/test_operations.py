"""Requests cut out of Arrow buffers: no byte lost, none doubled, whatever the batches look like."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icdc_spark.opensearch.wire.operations import (
    Assembler,
    Operations,
    build_delete_entry,
    build_index_entry,
    build_operations,
)

pytestmark = pytest.mark.unit

rows = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from("cud")), max_size=40)


def make_batch(lines: list[tuple[bytes, str]], *, wide: bool = False) -> pa.RecordBatch:
    binary, text = (pa.large_binary(), pa.large_string()) if wide else (pa.binary(), pa.string())
    return pa.record_batch(
        {
            "line": pa.array([line for line, _ in lines], binary),
            "expect": pa.array([expect for _, expect in lines], text),
        }
    )


def list_entries(made: list[Operations]) -> list[tuple[bytes, str]]:
    return [
        (bulk.get_entry(n), bulk.expects[n : n + 1].decode())
        for bulk in made
        for n in range(len(bulk))
    ]


@settings(max_examples=200)
@given(
    batches=st.lists(rows, max_size=5),
    max_bytes=st.integers(1, 120),
    max_operations=st.integers(1, 10),
    wide=st.booleans(),
    cut=st.integers(0, 5),
)
def test_requests_hold_every_row_once_and_in_order_within_their_bounds(
    batches: list[list[tuple[bytes, str]]],
    max_bytes: int,
    max_operations: int,
    wide: bool,
    cut: int,
) -> None:
    assembler = Assembler(max_bytes, max_operations)
    made: list[Operations] = []
    for lines in batches:
        # A slice shares the buffers of its parent: its offsets do not start at 0.
        made += assembler.add(make_batch(lines, wide=wide).slice(cut))
    made += assembler.take_rest()
    assert list_entries(made) == [line for lines in batches for line in lines[cut:]]
    assert all(0 < len(bulk) <= max_operations for bulk in made)
    assert all(len(bulk.body) <= max_bytes or len(bulk) == 1 for bulk in made)
    assert all(bulk.body == b"".join(line for line, _ in list_entries([bulk])) for bulk in made)
    assert list(assembler.take_rest()) == []


@given(lines=rows.filter(lambda lines: len(lines) > 1), start=st.integers(0, 39))
def test_parts_halves_and_picks_are_the_rows_they_name(
    lines: list[tuple[bytes, str]], start: int
) -> None:
    whole = _assemble(lines)
    start %= len(lines)
    assert list_entries([whole.pick_range(start, len(lines))]) == lines[start:]
    assert list_entries(list(whole.split_in_half())) == lines
    assert list_entries([whole.pick_range(start, len(lines)).pick([0])]) == [lines[start]]
    assert list_entries([whole.pick_range(start, len(lines)).pick_range(0, 1)]) == [lines[start]]


def _assemble(lines: list[tuple[bytes, str]]) -> Operations:
    assembler = Assembler(10_000)
    assert list(assembler.add(make_batch(lines))) == []
    (whole,) = assembler.take_rest()
    return whole


def test_rows_without_a_value_are_refused() -> None:
    nulls = pa.record_batch({"line": pa.array([None], pa.binary()), "expect": pa.array(["c"])})
    with pytest.raises(ValueError, match="no nulls"):
        list(Assembler(100).add(nulls))


@pytest.mark.parametrize("key", ["a", 'quote " and \\ and | and é', "line\nbreak", "\U0001f600"])
def test_ids_and_documents_are_read_back(key: str) -> None:
    made = build_operations(
        [build_delete_entry(key, 7), build_index_entry(key, 7, b'{"v":1}')], b"dc"
    )
    assert [made.get_document_id(n) for n in range(2)] == [key, key]
    assert [made.get_document(n) for n in range(2)] == [b"", b'{"v":1}']
    assert [made.get_routing(n) for n in range(2)] == [None, None]
    assert build_operations([build_delete_entry("a", 7, key)], b"d").get_routing(0) == key


def test_rows_that_are_refused_before_are_taken_out_with_their_fields() -> None:
    def write(number: int, more: str = "") -> bytes:
        return f'{{"index":{{"version":7,"_id":"{number}"{more}}}}}\n{{"n":{number}}}\n'.encode()

    lines = [write(1), write(2, ',"failed":"a.b"'), write(3), write(4, ',"failed":"c"')]
    requested = build_operations(lines, b"crur")
    sent, refused = requested.take_out_refused()
    assert (sent.body, sent.expects) == (lines[0] + lines[2], b"cu")
    assert [(one.get_document_id(0), one.get_failed_field(0)) for one in refused] == [
        ("2", "a.b"),
        ("4", "c"),
    ]
    assert refused[0].get_document(0) == b'{"n":2}'
    assert sent.take_out_refused() == (sent, ())
    assert len(build_operations(lines[1:2], b"r").take_out_refused()[0]) == 0
