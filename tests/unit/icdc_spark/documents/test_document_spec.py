"""What a pipeline may ask of a table's columns, and when documents would differ."""

import json
from typing import Any

import pytest

from icdc_api.errors import ColumnNotFound, FieldInvalid, IcdcError, NoIdentifier, UnsupportedType
from icdc_api.spec.indices.ingest_pipeline import IngestPipeline
from icdc_api.spec.sink import Strings
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.documents.schema import Schema, parse_schema
from icdc_spark.documents.wishes import DocumentWishes

pytestmark = pytest.mark.unit


def make_column(number: int, name: str, kind: object, **more: Any) -> dict[str, Any]:
    """Return one field as Iceberg's JSON has it."""
    return {"id": number, "name": name, "type": kind, "required": False, **more}


def make_struct(*fields: dict[str, Any]) -> dict[str, Any]:
    """Return a struct type."""
    return {"type": "struct", "fields": list(fields)}


def make_list(number: int, kind: object) -> dict[str, Any]:
    """Return a list type."""
    return {"type": "list", "element-id": number, "element": kind, "element-required": False}


def make_schema(*fields: dict[str, Any], identifiers: tuple[int, ...] = (1,)) -> Schema:
    """Return a schema whose key is the first column."""
    raw = {**make_struct(*fields), "schema-id": 3, "identifier-field-ids": list(identifiers)}
    return parse_schema(json.dumps(raw))


ID = make_column(1, "id", "long")


def resolve_columns(*fields: dict[str, Any], **wishes: Any) -> DocumentSpec:
    """Return the spec of a table with a key and these columns."""
    return resolve_spec("db.t", make_schema(ID, *fields), DocumentWishes(**wishes))


REFUSED_NAMES = [
    ("a.b", "its name holds a dot"),
    ("", "its name is empty"),
    (" ", "its name is empty"),
    ("_id", "OpenSearch reserves the name"),
    ("_source", "OpenSearch reserves the name"),
    ("_routing", "OpenSearch reserves the name"),
    ("_index", "OpenSearch reserves the name"),
    ("_meta", "OpenSearch reserves the name"),
]


@pytest.mark.parametrize(("name", "why"), REFUSED_NAMES)
def test_a_name_that_opensearch_refuses_is_refused_unless_projected_away(
    name: str, why: str
) -> None:
    bad = make_column(2, name, "int")
    with pytest.raises(UnsupportedType) as caught:
        resolve_columns(bad)
    assert f"`{name}`" in str(caught.value)
    assert why in str(caught.value)
    assert "leave it out" in str(caught.value)
    assert [entry.name for entry in resolve_columns(bad, columns=("id",)).columns] == ["id"]


@pytest.mark.parametrize("name", ["a.b", ""])
def test_nested_names_are_checked_too_also_inside_lists(name: str) -> None:
    inner = make_struct(make_column(3, name, "int"))
    with pytest.raises(UnsupportedType, match=r"column `s\."):
        resolve_columns(make_column(2, "s", inner))
    with pytest.raises(UnsupportedType, match=r"column `s\."):
        resolve_columns(make_column(2, "s", make_list(4, inner)))


def test_names_reserved_at_the_top_are_fine_inside_objects() -> None:
    assert (
        resolve_columns(make_column(2, "s", make_struct(make_column(3, "_id", "int"))))
        .columns[1]
        .name
        == "s"
    )


@pytest.mark.parametrize(
    "kind",
    ["geometry(srid:4326)", "geography", "unknown"],
)
def test_types_without_a_document_form_are_refused_with_their_path(kind: str) -> None:
    with pytest.raises(UnsupportedType, match=r"column `s\.x` has the type"):
        resolve_columns(make_column(2, "s", make_struct(make_column(3, "x", kind))))
    with pytest.raises(UnsupportedType, match="column `x` has the type"):
        resolve_columns(make_column(2, "x", kind))


IDENTIFIERS: list[tuple[object, bool]] = [
    ("boolean", True), ("int", True), ("long", True), ("decimal(9, 2)", True), ("date", True),
    ("timestamp", True), ("timestamptz", True), ("time", True), ("timestamp_ns", True),
    ("timestamptz_ns", True), ("string", True), ("uuid", True),
    ("binary", True), ("fixed[4]", True), ("float", False), ("double", False),
    ("variant", False), (make_struct(make_column(9, "x", "int")), False),
    (make_list(9, "int"), False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "allowed"), IDENTIFIERS)
def test_types_that_ids_are_made_of(kind: object, *, allowed: bool) -> None:
    fields = (
        make_column(2, "k", kind),
        make_column(3, "s", make_struct(make_column(4, "k", kind))),
    )
    for name in ("k", "s.k"):
        wishes = DocumentWishes(identifier_columns=(name,))
        if allowed:
            path = resolve_spec("db.t", make_schema(*fields), wishes).identifiers[0]
            assert ".".join(entry.name for entry in path) == name
        else:
            with pytest.raises(UnsupportedType, match=f"column `{name}` of type"):
                resolve_spec("db.t", make_schema(*fields), wishes)


WRONG: list[tuple[dict[str, Any], type[IcdcError], str]] = [
    ({"columns": ("nope",)}, ColumnNotFound, "columns names `nope`"),
    ({"columns": ("s.x",)}, ColumnNotFound, "name the whole column `s`"),
    ({"identifier_columns": ("nope",)}, ColumnNotFound, "identifierColumns names `nope`"),
    ({"mapping": {"nope": {"type": "text"}}}, ColumnNotFound, "mapping names `nope`"),
    ({"mapping": {"s.nope": {"type": "text"}}}, ColumnNotFound, "mapping names `s.nope`"),
    (
        {"ingest_pipeline": IngestPipeline(name="embed", adds={"s": {"type": "float"}})},
        FieldInvalid,
        "sink.opensearch.pipeline.adds names `s`, which documents have from the table",
    ),
    ({"routing": ("s.x",)}, FieldInvalid, r"routing names `s.x`.* identifier columns \(`id`\)"),
    ({"routing": ("id",), "append_only": True}, FieldInvalid, r"identifier columns \(none\)"),
]


@pytest.mark.parametrize(("wishes", "kind", "words"), WRONG)
def test_columns_that_are_not_there_are_named(
    wishes: dict[str, Any], kind: type[IcdcError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        resolve_columns(make_column(2, "s", make_struct(make_column(3, "x", "int"))), **wishes)


def test_a_key_comes_from_the_pipeline_or_the_table_or_is_not_needed() -> None:
    keyless = make_schema(ID, identifiers=())
    with pytest.raises(NoIdentifier, match="identifierColumns"):
        resolve_spec("db.t", keyless, DocumentWishes())
    assert resolve_spec("db.t", keyless, DocumentWishes(append_only=True)).identifiers == ()
    assert resolve_columns().identifiers[0][0].id == 1


A = make_column(2, "a", "int")

CHANGES: list[tuple[str, tuple[dict[str, Any], ...], str | None, tuple[str, ...]]] = [
    ("nothing", (A,), None, ()),
    ("int to long", (make_column(2, "a", "long"),), None, ()),
    ("nullable column", (A, make_column(3, "b", "string")), None, ("b",)),
    (
        "default",
        (A, make_column(3, "b", "int", **{"initial-default": 7})),
        "added with a default",
        (),
    ),
    ("dropped", (), "`a` no longer exists", ()),
    ("renamed", (make_column(2, "z", "int"),), "`a` is now called `z`", ()),
    ("re-typed", (make_column(2, "a", "date"),), "from long to date", ()),
    ("dropped and added", (make_column(3, "a", "int"),), "`a` no longer exists", ()),
]


@pytest.mark.parametrize(("name", "after", "reason", "added"), CHANGES)
def test_which_schema_changes_make_documents_differ(
    name: str, after: tuple[dict[str, Any], ...], reason: str | None, added: tuple[str, ...]
) -> None:
    stored = json.loads(json.dumps(resolve_columns(A).stored))
    verdict = resolve_columns(*after).compare_with_stored(stored)
    assert (verdict.reason is None) == (reason is None), name
    assert (reason or "") in (verdict.reason or "")
    assert verdict.added == added


WIDENED = [
    ("decimal(5, 2)", "decimal(15, 2)", True),
    ("decimal(5, 2)", "decimal(16, 2)", False),
    ("decimal(16, 2)", "decimal(38, 2)", True),
    ("float", "double", False),
]


@pytest.mark.parametrize(("before", "after", "same"), WIDENED)
def test_widening_is_compatible_within_one_mapping(before: str, after: str, *, same: bool) -> None:
    one, other = (
        resolve_columns(make_column(2, "a", before)),
        resolve_columns(make_column(2, "a", after)),
    )
    assert (one.hash == other.hash) == same
    assert (other.compare_with_stored(one.stored).reason is None) == same


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        ({"row_filter": "a = 1"}, "rowFilter changed"),
        ({"append_only": True}, "appendOnly changed"),
        ({"identifier_columns": ("a",)}, "the identifier columns changed"),
        ({"mapping": {"a": {"type": "integer"}}}, "the mapping overrides changed"),
        ({"columns": ("id",)}, "`a` no longer exists"),
        ({"routing": ("id",)}, "the routing changed"),
    ],
)
def test_which_wishes_make_documents_differ(wishes: dict[str, Any], reason: str) -> None:
    before = resolve_columns(A)
    changed = resolve_columns(A, **wishes)
    assert changed.hash != before.hash
    assert reason in (changed.compare_with_stored(before.stored).reason or "")
    assert before.compare_with_stored(changed.stored).reason is not None
    assert changed.compare_with_stored(changed.stored).reason is None


def test_a_routing_is_stored_by_field_ids_in_its_order_and_required_of_every_request() -> None:
    fields = (
        make_column(2, "s", make_struct(make_column(3, "t", "string"))),
        make_column(4, "n", "int"),
    )
    key = ("n", "s.t", "id")
    routed = resolve_columns(*fields, identifier_columns=key, routing=("id", "s.t"))
    assert (routed.routing, routed.stored["routing"]) == ((2, 1), [1, 3])
    assert build_index_mapping(routed, table_uuid="u")["_routing"] == {"required": True}
    turned = resolve_columns(*fields, identifier_columns=key, routing=("s.t", "id"))
    assert turned.compare_with_stored(routed.stored).reason == "the routing changed"
    # What earlier versions wrote, who knew of none.
    plain = resolve_columns(*fields, identifier_columns=key)
    assert "routing" not in plain.stored
    assert "_routing" not in build_index_mapping(plain, table_uuid="u")


@pytest.mark.parametrize(
    ("kind", "mapping", "differs"),
    [
        ("string", {}, True),
        ({"type": "list", "element-id": 8, "element": "string"}, {}, True),
        ("long", {}, False),
        ("uuid", {}, False),
        # Nothing of what is said of all strings is left in it.
        ("string", {"a": {"type": "wildcard"}}, False),
        ("string", {"a": {"ignore_above": 10}}, True),
        ("string", {"a": {"type": "keyword"}}, True),
        (make_struct(make_column(8, "b", "string")), {}, True),
        (make_struct(make_column(8, "b", "string")), {"a.b": {"type": "wildcard"}}, False),
        (make_struct(make_column(8, "b", "string")), {"a": {"type": "flat_object"}}, False),
        (make_struct(make_column(8, "b", "string")), {"a": {"type": "nested"}}, True),
        (
            {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": "string"},
            *({}, False),
        ),
    ],
)
def test_another_form_of_strings_counts_only_where_there_are_strings(
    kind: object, mapping: dict[str, Any], differs: bool
) -> None:
    before = resolve_columns(make_column(2, "a", kind), mapping=mapping)
    changed = resolve_columns(make_column(2, "a", kind), mapping=mapping, strings=Strings.TEXT)
    assert (changed.compare_with_stored(before.stored).reason is not None) is differs
    assert (before.compare_with_stored(changed.stored).reason is not None) is differs


def test_the_default_of_strings_is_that_of_versions_which_knew_no_other() -> None:
    assert "strings" not in resolve_columns(A).stored
    assert "strings" in resolve_columns(A, strings=Strings.TEXT).stored


def test_another_ingest_pipeline_makes_other_documents_and_none_is_not_stored() -> None:
    pipelines = [
        None,
        IngestPipeline(name="embed"),
        IngestPipeline(name="embed", adds={"vector": {"type": "float"}}),
        IngestPipeline(name="other", adds={"vector": {"type": "float"}}),
    ]
    specs = [resolve_columns(ingest_pipeline=pipeline) for pipeline in pipelines]
    assert "pipeline" not in specs[0].stored
    assert [one.added for one in specs] == [None, set(), {"vector"}, {"vector"}]
    for now in specs:
        for before in specs:
            reason = now.compare_with_stored(before.stored).reason
            assert reason == (None if now is before else "sink.opensearch.pipeline changed")
