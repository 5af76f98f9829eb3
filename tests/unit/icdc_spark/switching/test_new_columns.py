"""Columns that are new to the documents of a table with a name mapping."""

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.schema import Field, ListOf, MapOf, Primitive, Schema, Struct
from icdc_spark.documents.wishes import DocumentWishes
from icdc_spark.iceberg.table.name_mapping import NAME_MAPPING
from icdc_spark.protocol.state_document import StateDocument
from icdc_spark.replication.checks import spec_check
from icdc_spark.replication.checks.index_check import IndexCheck
from icdc_spark.replication.checks.spec_check import PresentDocuments, compare_spec
from icdc_spark.replication.context import TableContext
from icdc_testing.simulation.model.target import ModelTarget
from icdc_testing.target.replaced_indices import FIRST, SECOND, begin_export
from icdc_testing.target.state_documents import (
    NOW,
    make_applied,
    make_empty,
    make_export,
    make_exporting,
    make_state_after_export,
)

pytestmark = pytest.mark.unit

TEXT = Primitive("string")
ID, LATER = Field(1, "id", Primitive("int"), required=True), Field(2, "later", TEXT)
TAGS = Field(3, "tags", ListOf(Field(4, "element", Struct((Field(5, "a", TEXT),)))))
NAMES = Field(7, "names", MapOf(Field(8, "key", TEXT), Field(9, "value", TEXT)))
MORE = Field(
    3, "tags", ListOf(Field(4, "element", Struct((Field(5, "a", TEXT), Field(6, "b", TEXT)))))
)
MAPPING = json.dumps([{"field-id": number, "names": [str(number)]} for number in range(1, 10)])
BEGINS = {"chunks_total": 0, "cut": None}
READABLE = {
    77: SimpleNamespace(id=77, sequence_number=1),
    78: SimpleNamespace(id=78, sequence_number=9),
    80: SimpleNamespace(id=80, sequence_number=5),
}


def make_documents(*columns: Field) -> DocumentSpec:
    schema = Schema(id=0, fields=(ID, *columns))
    return resolve_spec("shop.orders", schema, DocumentWishes(identifier_columns=("id",)))


def make_present(
    documents: DocumentSpec, snapshots: dict[int, Any], mapping: str = MAPPING
) -> PresentDocuments:
    """Return the documents at snapshot 78 of a table with these snapshots."""
    table = SimpleNamespace(
        name="shop.orders",
        properties={NAME_MAPPING: mapping},
        find_snapshot=snapshots.get,
        is_ancestor=lambda *_: False,
    )
    current = READABLE[78]
    return PresentDocuments(
        session=cast("Any", None),
        table=cast("Any", table),
        current=cast("Any", current),
        documents=documents,
        reads_rows=True,
        found={},
    )


@pytest.fixture(autouse=True)
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the ids of the snapshots that are read; none has a file."""
    read: list[int] = []

    def scan(_: Any, snapshot_id: int) -> Any:
        read.append(snapshot_id)
        return SimpleNamespace(iterate_groups=lambda: iter(()))

    monkeypatch.setattr(spec_check, "OrderedScan", scan)
    monkeypatch.setattr(spec_check, "open_reader", lambda *_: nullcontext())
    return read


@pytest.mark.parametrize(
    ("before", "now", "is_known"),
    [
        ((), (LATER,), True),
        ((), (TAGS,), True),
        ((), (NAMES, LATER), True),
        # Of a field inside a list of which rows have values it is not known.
        ((TAGS,), (MORE,), False),
    ],
)
def test_inside_a_new_list_or_map_no_values_are_looked_for(
    before: tuple[Field, ...], now: tuple[Field, ...], *, is_known: bool
) -> None:
    present = make_present(make_documents(*now), READABLE)
    verdict = present.compare(make_documents(*before).stored, make_applied())
    assert (verdict.reason is None) == is_known


@pytest.mark.parametrize("before", [(), (TAGS,)])
def test_an_expired_snapshot_is_no_difference_of_documents(before: tuple[Field, ...]) -> None:
    present = make_present(make_documents(MORE), {78: READABLE[78]})
    assert present.compare(make_documents(*before).stored, make_applied()).reason is None


@pytest.mark.parametrize(
    ("state", "read"),
    [
        (make_state_after_export(), [77]),
        (make_exporting(), [77]),
        (begin_export(make_state_after_export(), 2), [80]),
        (make_empty().with_intent(make_export(to=None), now=NOW), []),
        # A start of StreamOnly, which has no row of its snapshot.
        (make_empty().with_intent(make_export().model_copy(update=BEGINS), now=NOW), []),
    ],
)
def test_the_rows_of_an_open_export_are_those_that_it_writes(
    context: TableContext,
    target: ModelTarget,
    scanned: list[int],
    state: StateDocument,
    read: list[int],
) -> None:
    for index in (FIRST, SECOND):
        target.indices[index].mapping = {"_meta": {"documentSpec": make_documents().stored}}
    present = make_present(make_documents(LATER), READABLE)
    verdict = compare_spec(context, state, IndexCheck(loss=None), present)
    assert (verdict.reason, verdict.added) == (None, ("later",))
    assert scanned == read
    # A table that waits for its export is observed again and again.
    compare_spec(context, state, IndexCheck(loss=None), present)
    assert scanned == read


def test_only_new_columns_that_the_table_finds_by_name_are_looked_for(scanned: list[int]) -> None:
    for mapped, read in (([LATER.id], [77]), ([ID.id], [])):
        scanned.clear()
        mapping = json.dumps([{"field-id": number, "names": ["x"]} for number in mapped])
        present = make_present(make_documents(LATER), READABLE, mapping)
        assert present.compare(make_documents().stored, make_applied()).reason is None
        assert scanned == read
