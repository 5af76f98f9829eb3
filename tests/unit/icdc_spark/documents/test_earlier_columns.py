"""Columns by which earlier documents differ although the spec is the same."""

import json
from typing import Any

import pytest

from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.fields import Analysis
from icdc_spark.documents.schema import Field, Primitive, Schema, Struct
from icdc_spark.documents.wishes import DocumentWishes
from icdc_testing.tables.fields import derive, parse_fields

pytestmark = pytest.mark.unit

FILTER = "country = 'NL'"
ID, NAME = Field(1, "id", Primitive("long")), Field(2, "name", Primitive("string"))
COUNTRY = Field(3, "country", Primitive("string"))
NEW_COUNTRY = Field(4, "country", Primitive("string"))


def resolve(*columns: Field, **wishes: Any) -> DocumentSpec:
    """Return the spec of a table with a key and these columns."""
    schema = Schema(id=3, fields=(ID, *columns), identifier_ids=(1,))
    return resolve_spec("db.t", schema, DocumentWishes(**wishes))


def store(spec: DocumentSpec) -> dict[str, Any]:
    """Return what the index of the spec has in its mapping."""
    stored: dict[str, Any] = json.loads(json.dumps(spec.stored))
    return stored


def test_what_an_expression_reads_is_compared_in_no_order_as_earlier_versions_stored_it() -> None:
    schema = Schema(id=3, fields=(ID, NAME), identifier_ids=(1,))
    wishes = DocumentWishes(fields=parse_fields(derive("both", "concat(id, name)")))
    analysis = Analysis(Primitive("string"), frozenset({"id", "name"}))
    now = resolve_spec("db.t", schema, wishes, lambda *_: analysis)
    before = store(now)
    before["expressions"][0][3].reverse()
    assert before != store(now)
    assert now.compare_with_stored(before).reason is None


@pytest.mark.parametrize(
    ("columns", "is_same"),
    [
        ((NAME, COUNTRY), True),
        ((NAME, COUNTRY, Field(5, "NL", Primitive("int"))), True),
        ((NAME, Field(3, "country", Primitive("binary"))), False),
        ((NAME, NEW_COUNTRY), False),
        ((NAME, Field(3, "old_country", Primitive("string")), NEW_COUNTRY), False),
    ],
)
def test_a_filter_of_the_same_text_must_read_the_same_columns(
    columns: tuple[Field, ...], *, is_same: bool
) -> None:
    wishes: dict[str, Any] = {"columns": ("id", "name"), "row_filter": FILTER}
    before, now = store(resolve(NAME, COUNTRY, **wishes)), resolve(*columns, **wishes)
    reason = None if is_same else "column `country`, which rowFilter names, changed"
    assert now.compare_with_stored(before).reason == reason
    # Earlier versions did not store it.
    del before["filterReads"]
    assert now.compare_with_stored(before).reason is None


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (Primitive("int"), Primitive("long"), False),
        (Primitive("long"), Primitive("long"), True),
        (Primitive("decimal", 9, 2), Primitive("decimal", 15, 2), True),
        (Primitive("decimal", 16, 2), Primitive("decimal", 20, 2), False),
    ],
)
def test_a_filter_may_let_other_rows_pass_once_a_column_is_widened(
    before: Primitive, after: Primitive, *, is_same: bool
) -> None:
    specs = [resolve(Field(2, "n", kind), row_filter="hash(n) % 9 = 0") for kind in (before, after)]
    assert (specs[0].hash == specs[1].hash) == is_same
    reason = None if is_same else "column `n`, which rowFilter names, changed"
    assert specs[1].compare_with_stored(store(specs[0])).reason == reason


@pytest.mark.parametrize(
    ("stored", "kind", "is_same"),
    [
        # What the version before this one stored: the forms of types.
        ("long", Primitive("int"), True),
        ("long decimal:2", Primitive("decimal", 20, 2), True),
        ("decimal:2", Primitive("decimal", 20, 2), False),
        # Rolled back: rows are read with the widest type that the column has had.
        ("decimal(20,2)", Primitive("decimal", 16, 2), True),
        ("decimal(20,2)", Primitive("decimal", 9, 2), True),
        ("int", Primitive("long"), False),
        ("string", Primitive("decimal", 9, 2), False),
    ],
)
def test_a_narrower_type_and_an_older_name_of_it_let_the_same_rows_pass(
    stored: str, kind: Primitive, *, is_same: bool
) -> None:
    now = resolve(Field(2, "n", kind), row_filter="hash(n) % 9 = 0", columns=("id",))
    before = store(now)
    before["filterReads"] = [[2, "n", stored]]
    reason = None if is_same else "column `n`, which rowFilter names, changed"
    assert now.compare_with_stored(before).reason == reason


@pytest.mark.parametrize("new", ["country", "Country"])
def test_a_filter_differs_though_the_documents_follow_its_column_to_its_new_name(new: str) -> None:
    entries = parse_fields({"name": "id", "from": "id"}, {"name": "country", "from": "country"})
    before = store(resolve(NAME, COUNTRY, fields=entries, row_filter=FILTER))
    entries = parse_fields({"name": "id", "from": "id"}, {"name": "country", "from": "old_country"})
    old, another = (
        Field(number, name, Primitive("string")) for number, name in ((3, "old_country"), (4, new))
    )
    now = resolve(NAME, old, another, fields=entries, row_filter=FILTER)
    assert sorted(now.stored["columns"]) == sorted(before["columns"])
    reason = "column `country`, which rowFilter names, changed"
    assert now.compare_with_stored(before).reason == reason
    # From then on the column that the filter reads is known.
    assert now.compare_with_stored(store(now)).reason is None


@pytest.mark.parametrize(
    ("condition", "inside", "is_same"),
    [
        ("address.city = 'Delft'", ("city", "postcode"), True),
        ("`address` . `City` = 'Delft'", ("city",), True),
        ("address.city = 'Delft'", ("town", "zip"), False),
        ("address.city = address.zip", ("city",), False),
        ("address is null", ("city",), False),
        ("address.city = 'Delft' or to_json(address) = '{}'", ("city",), False),
        ("to_json(struct(address.*)) = '{}'", ("city",), False),
    ],
)
def test_of_a_struct_a_filter_reads_the_fields_that_it_names(
    condition: str, inside: tuple[str, ...], *, is_same: bool
) -> None:
    earlier, later = (
        Field(
            3,
            "address",
            Struct(tuple(Field(4 + n, name, Primitive("string")) for n, name in enumerate(names))),
        )
        for names in (("city", "zip"), inside)
    )
    wishes: dict[str, Any] = {"columns": ("id", "name"), "row_filter": condition}
    before, now = store(resolve(NAME, earlier, **wishes)), resolve(NAME, later, **wishes)
    assert (now.compare_with_stored(before).reason is None) == is_same


def test_a_filter_may_read_a_new_column_that_differs_by_case_alone() -> None:
    upper = Field(3, "Country", Primitive("string"))
    before = store(resolve(NAME, upper, row_filter=FILTER))
    now = resolve(NAME, upper, NEW_COUNTRY, row_filter=FILTER)
    reason = "column `country`, which rowFilter names, changed"
    assert now.compare_with_stored(before).reason == reason
    assert now.compare_with_stored(store(now)).reason is None


def test_documents_may_have_the_name_of_a_column_of_the_filter_for_another_one() -> None:
    entries = parse_fields({"name": "id", "from": "id"}, {"name": "country", "from": "name"})
    spec = resolve(NAME, COUNTRY, fields=entries, row_filter=FILTER)
    before = store(spec)
    assert before["filterReads"] == [[3, "country", "string"]]
    assert spec.compare_with_stored(before).reason is None


def test_a_column_with_the_name_of_a_field_in_a_struct_does_not_change_the_filter() -> None:
    city = Field(4, "city", Primitive("string"))
    address = Field(3, "address", Struct((city,)))
    wishes: dict[str, Any] = {"row_filter": "address.city = 'Delft'", "columns": ("id", "address")}
    before = store(resolve(address, **wishes))
    now = resolve(address, Field(5, "city", Primitive("string")), **wishes)
    assert now.compare_with_stored(before).reason is None


def test_a_new_column_that_earlier_rows_have_values_in_makes_documents_differ() -> None:
    before, now = store(resolve(NAME)), resolve(NAME, COUNTRY)
    verdict = now.compare_with_stored(before, {3: "was brought along"})
    assert verdict.reason == "column `country` was brought along"
    verdict = now.compare_with_stored(before, {2: "was there before"})
    assert (verdict.reason, verdict.added) == (None, ("country",))
