"""A table whose documents are shaped by `fields`, through the life of its index."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.fields import by, taken
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "shaped"
FIELDS: list[Any] = [
    "*",
    taken("customer.name", "name"),
    by("each", "price / n"),
    by(
        "place",
        "named_struct('lat', lat, 'lon', lon)",
        mapping={"type": "geo_point"},
    ),
    by("lines", "transform(tags, t -> named_struct('tag', t))", mapping={"type": "nested"}),
    *({"exclude": name} for name in ("price", "n", "lat", "lon", "tags", "notes")),
]
COLUMNS = "id int, name string, price int, n int, lat double, lon double, tags array<string>"
NEAR = {"geo_distance": {"distance": "10km", "place": {"lat": 52.4, "lon": 4.9}}}
INSIDE = {"nested": {"path": "lines", "query": {"term": {"lines.tag": "x"}}}}


def document(number: int, name: str, each: float) -> dict[str, Any]:
    """Return the document of a row, worked out by hand."""
    return {
        "id": number,
        "customer": {"name": name},
        "each": each,
        "place": {"lat": 52.37, "lon": 4.89},
        "lines": [{"tag": "x"}, {"tag": "y"}],
    }


@pytest.fixture
def table(lake: Lake) -> str:
    name = lake.create(f"{COLUMNS}, notes string")
    lake.sql(
        f"insert into lake.{name} select id, concat('c', id), 6, id, 52.37, 4.89, "
        "array('x', 'y'), '' from range(3)"
    )
    return name


@pytest.fixture
def harness(spark: SparkSession, table: str, clean_indices: str, tmp_path: Path) -> Harness:
    entry = {"name": table, "index": ALIAS, "identifierColumns": ["id"], "fields": FIELDS}
    return Harness(spark, clean_indices, tmp_path, [entry])


def reshape(harness: Harness, *fields: Any) -> None:
    harness.resource["spec"]["tables"][0]["fields"] = list(fields)


def read_serving(url: str) -> str:
    """Return the physical index that readers use."""
    (name,) = oracle.request(f"{url}/_alias/{ALIAS}")
    return name


def test_a_shaped_index_is_exported_followed_refused_proven_repaired_and_replayed(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    (previewed,) = ask(harness, RunMode.PREVIEW)
    # Row 0 has no `each`: 6 / 0 fails, and the others go on.
    assert harness.sync().dead_letters == 1
    expected = {"1": document(1, "c1", 6.0), "2": document(2, "c2", 3.0)}
    oracle.assert_equal(oracle.read_index(clean_indices, ALIAS), expected)
    for query in (NEAR, INSIDE):
        found = oracle.request(f"{clean_indices}/{ALIAS}/_search", "POST", {"query": query})
        assert found["hits"]["total"]["value"] == 2, query
    shown = {one["_id"]: one for one in previewed["documents"]}
    assert {key: shown[key]["_source"] for key in expected} == expected
    assert (shown["0"]["failed"], shown["0"]["_source"]["price"]) == ("each", 6)

    (letter,) = ask(harness, RunMode.DEAD_LETTERS)[0]["letters"]
    assert letter["id"] == "0"
    assert letter["errorType"] == "field_expression_failed"
    assert letter["reason"] == "the expression of the field `each` fails on this row"
    verdict = harness.inspect(RunMode.VERIFY)
    assert (verdict["equal"], verdict["refused"]) == (True, 1)

    # A document that has become impossible is removed, and one that is possible again is written.
    lake.sql(f"update lake.{table} set n = case id when 0 then 2 else 0 end where id < 2")
    assert harness.sync().dead_letters == 1
    expected = {"0": document(0, "c0", 3.0), "2": document(2, "c2", 3.0)}
    oracle.assert_equal(oracle.read_index(clean_indices, ALIAS), expected)
    assert ask(harness, RunMode.REPLAY)[0]["left"] == 1
    oracle.request(f"{clean_indices}/{ALIAS}-000001/_doc/2", "PUT", document(2, "edited", 3.0))
    assert harness.inspect(RunMode.VERIFY)["different"] == {"count": 1, "samples": ["2"]}
    harness.inspect(RunMode.REPAIR)
    oracle.assert_equal(oracle.read_index(clean_indices, ALIAS), expected)
    lake.sql(f"delete from lake.{table} where id = 1")
    assert harness.sync().dead_letters == 0
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_a_change_of_fields_is_a_new_index_and_another_order_or_a_new_column_is_none(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    lake.sql(f"delete from lake.{table} where id = 0")
    harness.sync()
    reshape(harness, *reversed(FIELDS))
    harness.sync()
    assert read_serving(clean_indices) == f"{ALIAS}-000001"
    lake.sql(f"alter table lake.{table} add column extra int")
    # Renamed, which the entry follows.
    lake.sql(f"alter table lake.{table} rename column name to label")
    reshape(harness, taken("customer.name", "label"), *(one for one in FIELDS if one != FIELDS[1]))
    lake.sql(f"update lake.{table} set extra = 7 where id = 1")
    harness.sync()
    assert read_serving(clean_indices) == f"{ALIAS}-000001"
    documents = oracle.read_index(clean_indices, ALIAS)
    assert documents == {"1": {**document(1, "c1", 6.0), "extra": 7}, "2": document(2, "c2", 3.0)}
    # The same columns by name: documents are the same, but a new column is no longer taken ...
    label = taken("customer.name", "label")
    rest = [one for one in FIELDS[2:] if one.get("exclude") is None]
    reshape(harness, taken("id", "id"), taken("extra", "extra"), label, *rest)
    lake.sql(f"alter table lake.{table} add column more int")
    lake.sql(f"update lake.{table} set more = 8 where id = 1")
    harness.sync()
    assert read_serving(clean_indices) == f"{ALIAS}-000001"
    assert oracle.read_index(clean_indices, ALIAS) == documents
    # ... so that all documents lack it where the star is back.
    reshape(harness, label, *(one for one in FIELDS if one != FIELDS[1]))
    harness.sync()
    assert read_serving(clean_indices) == f"{ALIAS}-000002"
    assert oracle.read_index(clean_indices, ALIAS)["1"] == {**documents["1"], "more": 8}
    reshape(harness, taken("id", "id"), by("each", "try_divide(price, n)"))
    harness.sync()
    assert read_serving(clean_indices) == f"{ALIAS}-000003"
    assert oracle.read_index(clean_indices, ALIAS)["2"] == {"id": 2, "each": 3.0}
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_fields_that_do_not_fit_stall_their_table_alone(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    wrong = harness.resource["spec"]["tables"][0]
    good = {**wrong, "fields": [taken("id", "id")], "name": lake.create("id int"), "index": "good"}
    lake.sql(f"insert into lake.{good['name']} values (1)")
    # More rows than can be bad rows: the fault is in the expression, and nothing is removed.
    many = {**wrong, "fields": [by("x", "1 / (id - id)")], "name": lake.create("id int")}
    many["index"] = "many"
    lake.sql(f"insert into lake.{many['name']} select id from range(200)")
    wrong["fields"] = [by("total", "prise * n")]
    harness.resource["spec"]["tables"] = [wrong, good, many]
    first, second, third = harness.run().tables
    assert [first.reason, second.reason, third.reason] == ["FieldInvalid", None, "FieldInvalid"]
    assert "the expression `prise * n` of field `total` cannot be evaluated" in str(first.message)
    assert "`price`" in str(first.message)
    assert "an expression in fields fails on 200 of 200 rows" in str(third.message)
    assert oracle.read_index(clean_indices, "good") == {"1": {"id": 1}}
    assert ask(harness, RunMode.PLAN)[0]["reason"] == "FieldInvalid"


def ask(harness: Harness, mode: RunMode) -> list[dict[str, Any]]:
    """Return the entries of all tables."""
    report = harness.run(mode)
    assert report.outcome is None, report.outcome
    assert report.result is not None
    tables: list[dict[str, Any]] = report.result["tables"]
    return tables
