"""Two documents are equal for verify exactly where their JSON texts mean the same."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_spark.matching.digests import build_line_task, digest

pytestmark = pytest.mark.unit

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":1.0}'),
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":0.0}', '{"a":-0.0}'),
        ('{"a":true}', '{"a":1}'),
        ('{"a":null}', "{}"),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":123456789012345678}', '{"a":123456789012345679}'),
        ('{"a":1.10}', '{"a":1.1}'),
    ],
)
def test_documents_that_differ_have_different_digests(one: str, other: str) -> None:
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1 }'),
        ('{"a":"\\u00e9"}', '{"a":"é"}'),
        ('{"a":"\\u001F"}', '{"a":"\\u001f"}'),
    ],
)
def test_the_same_document_written_differently_has_one_digest(one: str, other: str) -> None:
    assert digest(one) == digest(other)


@given(JSON_VALUES, JSON_VALUES)
def test_digests_are_equal_only_for_equal_values(one: object, other: object) -> None:
    texts = [json.dumps(value, sort_keys=True) for value in (one, other)]
    assert (digest(texts[0]) == digest(texts[1])) == (texts[0] == texts[1])


def test_no_document_equals_a_row_on_which_an_expression_fails() -> None:
    lines = [
        b'{"index":{"version":1,"_id":"1"}}\n{"a":1}\n',
        b'{"index":{"version":1,"_id":"2","routing":"r","failed":"total"}}\n{"a":1}\n',
    ]
    (made,) = build_line_task(None)([pa.record_batch({"line": pa.array(lines, pa.binary())})])
    assert (made.to_pydict()["id"], made.to_pydict()["routing"]) == (["1", "2"], ["", "r"])
    first, second = made.to_pydict()["digest"]
    assert first == digest('{"a":1}')
    assert second != first


@pytest.mark.parametrize(
    ("sent", "stored", "equal"),
    [
        ('{"a":1}', '{"vector":[0.1],"a":1}', True),
        ('{"a":1.50}', '{"a":1.5}', True),
        ('{"a":1E10}', '{"a":1.0E10}', True),
        ('{"a":1}', '{"a":2,"vector":[0.1]}', False),
        ('{"a":1}', '{"a":1,"more":1}', False),
        ('{"a":1}', '{"vector":1}', False),
        ('{"a":1}', '{"a":1.0}', False),
        ('{"a":{"vector":1}}', '{"a":{"vector":2}}', False),
        ('{"a":123456789012345678}', '{"a":123456789012345679}', False),
    ],
)
def test_what_an_ingest_pipeline_adds_makes_no_difference_and_all_else_does(
    sent: str, stored: str, *, equal: bool
) -> None:
    added = frozenset({"vector"})
    assert (digest(sent, added) == digest(stored, added)) == equal
    assert digest(sent) != digest(stored)
