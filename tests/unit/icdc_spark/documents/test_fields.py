"""What `fields` make of a table's columns, and when documents of two versions would differ."""

import json
from typing import Any

import pytest

from icdc_api.errors import FieldInvalid
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.fields import Analysis
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.documents.schema import Primitive, Schema, parse_schema
from icdc_spark.documents.wishes import DocumentWishes
from icdc_testing.tables.fields import derive, parse_fields, take

pytestmark = pytest.mark.unit

ADDRESS: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 11, "name": "zip", "type": "string", "required": False},
        {"id": 12, "name": "no", "type": "int", "required": False},
    ],
}
COLUMNS: dict[str, tuple[int, Any]] = {
    "id": (1, "long"),
    "name": (2, "string"),
    "price": (3, "int"),
    "address": (4, ADDRESS),
    "dotted.name": (5, "string"),
}


def analyse(schema: Schema, field: str, text: str) -> Analysis:
    """Stand for Spark: an expression is text, reads each column that it names, and has its type."""
    read = [column for column in schema.fields if column.name in text]
    kind = read[0].type if read else Primitive("string")
    return Analysis(kind, frozenset(column.name for column in read))


def resolve_entries(
    *entries: Any, columns: dict[str, tuple[int, Any]] = COLUMNS, **wishes: Any
) -> DocumentSpec:
    """Return the spec of a table with these columns, by name with id and type."""
    given = [
        {"id": number, "name": name, "type": kind, "required": False}
        for name, (number, kind) in columns.items()
    ]
    raw = {"type": "struct", "fields": given, "schema-id": 3, "identifier-field-ids": [1]}
    chosen = DocumentWishes(fields=parse_fields(*entries), **wishes)
    return resolve_spec("db.t", parse_schema(json.dumps(raw)), chosen, analyse)


ALL = ("*", {"exclude": "dotted.name"})


def list_names(made: DocumentSpec) -> list[str]:
    return [field.entry.name for field in made.fields]


def list_read(made: DocumentSpec) -> list[str]:
    return [column.name for column in made.columns]


def test_the_star_takes_what_no_other_entry_names() -> None:
    made = resolve_entries(
        *ALL, take("customer.name", "name"), derive("price", "price"), take("zip", "address.zip")
    )
    assert list_names(made) == ["id", "address", "customer.name", "price", "zip"]
    assert list_read(made) == ["id", "name", "price", "address"]


def test_only_columns_of_fields_are_read() -> None:
    assert list_read(resolve_entries(take("zip", "address.zip"), derive("p", "price"))) == [
        "price",
        "address",
    ]


def test_the_mapping_has_objects_for_dots_and_the_types_of_expressions() -> None:
    made = resolve_entries(
        take("customer.id", "id"),
        take("customer.zip.code", "address.zip", mapping={"type": "keyword"}),
        derive("place", "name", mapping={"type": "geo_point"}),
        derive("price", "price"),
    )
    mapping = build_index_mapping(made, table_uuid="u")
    assert mapping["properties"] == {
        "customer": {
            "properties": {
                "id": {"type": "long"},
                "zip": {
                    "properties": {
                        "code": {
                            "type": "keyword",
                            "ignore_above": 8191,
                            "fields": {"text": {"type": "text"}},
                        }
                    }
                },
            }
        },
        "place": {"type": "geo_point"},
        "price": {"type": "long"},
    }
    assert mapping["_meta"]["fieldIds"] == {"customer.id": 1, "customer.zip.code": 11}


REFUSED: list[tuple[tuple[Any, ...], str]] = [
    ((take("a", "nam"),), "`a` is from `nam`, which is not a column; did you mean `name`?"),
    ((take("a", "zzzz"),), "the columns are `id`, `name`, `price`"),
    ((take("a", "address.zipp"),), "which is not a column; did you mean `address.zip`"),
    ((*ALL, {"exclude": "adress"}), "exclude names `adress`, which is not a top-level column; did"),
    ((*ALL, {"exclude": "address.zip"}), "exclude names `address.zip`"),
    (("*",), "`dotted.name` cannot be a field: its name holds a dot; exclude it, or give it"),
    ((*ALL, take("address.zip", "name")), "`address.zip` cannot be a field, with the columns"),
    ((derive("a", "constant"),), "no field reads a column"),
]


@pytest.mark.parametrize(("entries", "words"), REFUSED)
def test_what_does_not_fit_the_table_is_refused_with_the_name(
    entries: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(FieldInvalid) as caught:
        resolve_entries(*entries)
    assert caught.value.message.startswith("db.t: fields: ")
    assert words in caught.value.message


def test_a_column_whose_type_does_not_fit_is_refused() -> None:
    tags = {"type": "list", "element-id": 21, "element": ADDRESS}
    columns = {"id": (1, "long"), "at": (2, "geometry"), "tags": (3, tags)}
    with pytest.raises(FieldInvalid, match="`x` cannot be made of `at`, which has the type geom"):
        resolve_entries(derive("x", "at"), columns=columns)
    with pytest.raises(FieldInvalid, match="`tags` is a list: parts of it are taken by an expr"):
        resolve_entries(take("x", "tags.zip"), columns=columns)


def test_fields_that_are_plain_columns_are_stored_as_columns_are() -> None:
    columns = {name: COLUMNS[name] for name in ("id", "name")}
    assert resolve_entries("*", columns=columns).stored == resolve_entries(columns=columns).stored


BASE = (take("i", "id"), derive("p", "price"))

CHANGED: list[tuple[tuple[Any, ...], tuple[Any, ...], str | None]] = [
    (BASE, BASE[::-1], None),
    (BASE, (*BASE, take("n", "name")), "`n` was added to the documents by the spec"),
    (BASE, (BASE[1],), "column `i` no longer exists"),
    (BASE, (take("k", "id"), BASE[1]), "column `i` is now called `k`"),
    (BASE, (*BASE, take("j", "id")), "`j` was added to the documents by the spec"),
    (BASE, (BASE[0], derive("p", "price+1")), "the expression of field `p` changed"),
    (BASE, (BASE[0], derive("q", "price")), "field `p` is no longer made by an expression"),
    (BASE, (*BASE, derive("q", "price")), "field `q` is made by an expression now"),
    (BASE, (BASE[0], take("p", "price")), "field `p` is no longer made by an expression"),
    (
        BASE,
        (BASE[0], derive("p", "price", mapping={"type": "long"})),
        "the mapping overrides changed",
    ),
    ((*BASE[:1], take("n", "name")), (take("n", "name"), *BASE[:1]), None),
    (ALL, ALL[::-1], None),
    # The entry leaves no room for the column of that name, which then gets another one.
    (
        (*ALL, take("price", "id")),
        (*ALL, take("price", "id"), take("cost", "price")),
        "`cost` was added to the documents by the spec",
    ),
    (ALL, (*ALL, {"exclude": "name"}), "column `name` no longer exists"),
    ((*ALL, {"exclude": "name"}), ALL, "`name` was added to the documents by the spec"),
    (
        (*ALL, {"exclude": "address"}),
        (*ALL, {"exclude": "address"}, take("zip", "address.zip")),
        "`zip` was added to the documents by the spec",
    ),
    ((take("id", "id"),), ALL, "was added to the documents by the spec"),
]


@pytest.mark.parametrize(("before", "after", "reason"), CHANGED)
def test_which_fields_make_documents_differ(
    before: tuple[Any, ...], after: tuple[Any, ...], reason: str | None
) -> None:
    stored = json.loads(json.dumps(resolve_entries(*before).stored))
    wanted = resolve_entries(*after)
    verdict = wanted.compare_with_stored(stored)
    assert (reason or "") in (verdict.reason or "")
    assert (verdict.reason is None) == (reason is None)
    assert (wanted.hash == resolve_entries(*before).hash) == (reason is None)
    assert not verdict.is_meta_old


def change(**columns: tuple[int, Any] | None) -> dict[str, tuple[int, Any]]:
    """Return the columns with some of them added, changed or, for None, dropped."""
    return {name: of for name, of in {**COLUMNS, **columns}.items() if of is not None}


INNER = (take("a", "address"),)
MORE = {
    **ADDRESS,
    "fields": [*ADDRESS["fields"], {"id": 13, "name": "x", "type": "int", "required": False}],
}

EVOLVED: list[tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any], str | None]] = [
    # Renamed: the spec follows with another name, and the column is the same.
    (BASE, (take("i", "key"), BASE[1]), change(id=None, key=(1, "long")), None),
    (BASE, BASE, change(id=(1, "int")), None),
    (BASE, BASE, change(price=(3, "long")), "a column that the expression of field `p` reads"),
    (BASE, BASE, change(price=(9, "int")), "a column that the expression of field `p` reads"),
    # Moved to another place in the table.
    (
        (derive("p", "id + price"),),
        (derive("p", "id + price"),),
        dict([*COLUMNS.items()][::-1]),
        None,
    ),
    (BASE, BASE, change(added=(9, "int")), None),
    (ALL, ALL, change(added=(9, "int")), None),
    (INNER, INNER, change(address=(4, MORE)), None),
    (ALL, ALL, change(name=None), "column `name` no longer exists"),
]


@pytest.mark.parametrize(("before", "after", "columns", "reason"), EVOLVED)
def test_which_changes_of_the_table_make_documents_differ(
    before: tuple[Any, ...],
    after: tuple[Any, ...],
    columns: dict[str, tuple[int, Any]],
    reason: str | None,
) -> None:
    # By its own identifier: that is a field id, whatever the column is called.
    verdict = resolve_entries(*after, columns=columns).compare_with_stored(
        resolve_entries(*before).stored
    )
    assert (reason or "") in (verdict.reason or "")
    assert (verdict.reason is None) == (reason is None)
    if "added" in columns:
        assert verdict.added == (("added",) if before == ALL else ())
    if before == INNER:
        assert verdict.added == ("a.x",)
    assert verdict.is_meta_old == bool(verdict.added)


COLUMNS_OF_ALL = tuple(take(name, name) for name in ("id", "name", "price", "address"))


@pytest.mark.parametrize(
    ("before", "between", "columns", "after"),
    [
        (ALL, COLUMNS_OF_ALL, change(added=(9, "int")), ALL),
        (
            (*ALL, {"exclude": "address"}),
            (*ALL, {"exclude": "address"}),
            change(address=(4, MORE)),
            (*ALL, {"exclude": "address"}, take("x", "address.x")),
        ),
        (
            (*ALL, {"exclude": "price"}),
            (*ALL, {"exclude": "price"}),
            change(price=(9, "int")),
            ALL,
        ),
        # As earlier versions stored it: that only some columns were taken was not said.
        (None, (take("id", "id"),), COLUMNS, (take("id", "id"), take("name", "name"))),
    ],
)
def test_what_is_left_out_is_stored_before_more_rows_are_written(
    before: tuple[Any, ...] | None,
    between: tuple[Any, ...],
    columns: dict[str, tuple[int, Any]],
    after: tuple[Any, ...],
) -> None:
    made = resolve_entries(*between, columns=columns)
    older = {name: value for name, value in made.stored.items() if name != "allColumns"}
    verdict = made.compare_with_stored(resolve_entries(*before).stored if before else older)
    assert (verdict.reason, verdict.added, verdict.is_meta_old) == (None, (), True)
    assert resolve_entries(*after, columns=columns).compare_with_stored(made.stored).reason


def test_an_expression_on_a_dropped_column_names_it() -> None:
    with pytest.raises(FieldInvalid, match="`n` is from `name`, which is not a column"):
        resolve_entries(take("n", "name"), columns=change(name=None))


def test_widening_columns_is_a_change_too() -> None:
    wide = resolve_entries(columns=change(**{"dotted.name": None}))
    one, two = (
        resolve_spec("db.t", _make_schema(wide), DocumentWishes(columns=names))
        for names in (("id",), ("id", "name"))
    )
    assert "`name` was added" in (two.compare_with_stored(one.stored).reason or "")
    assert "was added" in (wide.compare_with_stored(one.stored).reason or "")
    assert one.compare_with_stored(one.stored).reason is None


def _make_schema(made: DocumentSpec) -> Schema:
    return Schema(id=3, fields=made.columns, identifier_ids=(1,))
