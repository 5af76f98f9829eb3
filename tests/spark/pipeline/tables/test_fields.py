"""A table whose documents are shaped by `fields`, through the life of its index."""

from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.fields import derive, take
from icdc_testing.tables.long_values import LONG, UNLIMITED, mend
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "shaped"
FIELDS: list[Any] = [
    "*",
    take("customer.name", "name"),
    derive("each", "price / n"),
    derive(
        "place",
        "named_struct('lat', lat, 'lon', lon)",
        mapping={"type": "geo_point"},
    ),
    derive("lines", "transform(tags, t -> named_struct('tag', t))", mapping={"type": "nested"}),
    *({"exclude": name} for name in ("price", "n", "lat", "lon", "tags", "notes")),
]
COLUMNS = "id int, name string, price int, n int, lat double, lon double, tags array<string>"
NEAR = {"geo_distance": {"distance": "10km", "place": {"lat": 52.4, "lon": 4.9}}}
INSIDE = {"nested": {"path": "lines", "query": {"term": {"lines.tag": "x"}}}}


def make_document(number: int, name: str, unit_price: float) -> dict[str, Any]:
    """Return the document of a row, worked out by hand."""
    return {
        "id": number,
        "customer": {"name": name},
        "each": unit_price,
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
    expected = {"1": make_document(1, "c1", 6.0), "2": make_document(2, "c2", 3.0)}
    oracle.assert_equal(oracle.read_index(clean_indices, ALIAS), expected)
    for query in (NEAR, INSIDE):
        answer = oracle.request(f"{clean_indices}/{ALIAS}/_search", "POST", {"query": query})
        assert answer["hits"]["total"]["value"] == 2, query
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
    expected = {"0": make_document(0, "c0", 3.0), "2": make_document(2, "c2", 3.0)}
    oracle.assert_equal(oracle.read_index(clean_indices, ALIAS), expected)
    assert ask(harness, RunMode.REPLAY)[0]["left"] == 1
    oracle.request(f"{clean_indices}/{ALIAS}-000001/_doc/2", "PUT", make_document(2, "edited", 3.0))
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
    reshape(harness, take("customer.name", "label"), *(one for one in FIELDS if one != FIELDS[1]))
    lake.sql(f"update lake.{table} set extra = 7 where id = 1")
    harness.sync()
    assert read_serving(clean_indices) == f"{ALIAS}-000001"
    documents = oracle.read_index(clean_indices, ALIAS)
    assert documents == {
        "1": {**make_document(1, "c1", 6.0), "extra": 7},
        "2": make_document(2, "c2", 3.0),
    }
    # The same columns by name: documents are the same, but a new column is no longer taken ...
    label = take("customer.name", "label")
    rest = [one for one in FIELDS[2:] if one.get("exclude") is None]
    reshape(harness, take("id", "id"), take("extra", "extra"), label, *rest)
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
    reshape(harness, take("id", "id"), derive("each", "try_divide(price, n)"))
    harness.sync()
    assert read_serving(clean_indices) == f"{ALIAS}-000003"
    assert oracle.read_index(clean_indices, ALIAS)["2"] == {"id": 2, "each": 3.0}
    assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_fields_that_do_not_fit_stall_their_table_alone(
    harness: Harness, table: str, lake: Lake, clean_indices: str
) -> None:
    wrong = harness.resource["spec"]["tables"][0]
    good = {**wrong, "fields": [take("id", "id")], "name": lake.create("id int"), "index": "good"}
    lake.sql(f"insert into lake.{good['name']} values (1)")
    # More rows than can be bad rows: the fault is in the expression, and nothing is removed.
    many = {**wrong, "fields": [derive("x", "1 / (id - id)")], "name": lake.create("id int")}
    many["index"] = "many"
    lake.sql(f"insert into lake.{many['name']} select id from range(200)")
    wrong["fields"] = [derive("total", "prise * n")]
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


TENANTS = ["acme", "a|b", "Zoë, Inc."]


def read_addresses(url: str, index: str) -> list[tuple[str, str]]:
    """Return id and routing of every document of all shards; each is found by them."""
    addresses = []
    for hit in oracle.request(f"{url}/{index}/_search?size=1000")["hits"]["hits"]:
        addresses.append((hit["_id"], hit["_routing"]))
        one = f"{url}/{index}/_doc/{quote(hit['_id'])}?routing={quote(hit['_routing'])}"
        assert oracle.request(one)["_source"] == hit["_source"]
    return sorted(addresses)


def find_other_routing(url: str, index: str, routing: str, *, same_shard: bool) -> str:
    """Return another routing, to the same shard or to another one."""

    def find_shard(one: str) -> int:
        asked = f"{url}/{index}/_search_shards?routing={one}"
        return int(oracle.request(asked)["shards"][0][0]["shard"])

    return next(
        f"other{n}"
        for n in range(100)
        if (find_shard(f"other{n}") == find_shard(routing)) is same_shard
    )


@pytest.fixture
def routed(spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path) -> Harness:
    """A pipeline of ten rows of each tenant: one is too long, and the expression fails on one."""
    name = lake.create("id int, tenant string, name string, n int")
    lake.sql(
        f"insert into lake.{name} select id, tenant, if(id = 8, '{LONG}', null), int(id != 9) "
        f"from range(10) cross join (select explode(array{(*TENANTS,)}) tenant)"
    )
    entry = {
        "name": name,
        "index": ALIAS,
        "identifierColumns": ["tenant", "id"],
        "routing": ["tenant"],
        "fields": ["*", derive("each", "1 / n")],
        "mapping": {"name": UNLIMITED},
    }
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    harness.resource["spec"]["sink"]["opensearch"]["indexSettings"] |= {
        "number_of_shards": 5,
        "routing_partition_size": 2,
    }
    return harness


def check_addresses(url: str, *ids: int) -> None:
    """Assert that each document is there once, where its tenant says."""
    index = f"{ALIAS}-000001"
    oracle.request(f"{url}/{index}/_refresh", "POST")
    escaped = [tenant.replace("|", r"\|") for tenant in TENANTS]
    expected = sorted((f"{tenant}|{one}", tenant) for tenant in escaped for one in ids)
    assert read_addresses(url, index) == expected


def test_a_routed_document_lies_on_one_shard_whatever_happens_to_it(
    routed: Harness, lake: Lake, clean_indices: str
) -> None:
    name = routed.resource["spec"]["tables"][0]["name"]
    (previewed,) = ask(routed, RunMode.PREVIEW)
    assert {one["_routing"] for one in previewed["documents"]} <= {"acme", r"a\|b", "Zoë, Inc."}
    assert previewed["mapping"]["_routing"] == {"required": True}
    assert routed.sync().dead_letters == 6
    check_addresses(clean_indices, *range(8))

    # What is refused now is removed where it was, and the mapping of a routed index is extended.
    lake.sql(f"alter table lake.{name} add column more string")
    lake.sql(f"delete from lake.{name} where id = 0")
    lake.sql(f"update lake.{name} set n = 0 where id = 1")
    lake.sql(f"update lake.{name} set name = '{LONG}' where id = 2")
    lake.sql(f"update lake.{name} set more = 'x' where id = 3")
    assert routed.sync().dead_letters == 12
    check_addresses(clean_indices, *range(3, 8))
    mend(clean_indices, f"{ALIAS}-000001")
    assert ask(routed, RunMode.REPLAY)[0]["left"] == 6
    check_addresses(clean_indices, *range(2, 9))
    assert routed.inspect(RunMode.VERIFY)["equal"] is True

    routed.resource["spec"]["tables"][0]["routing"] = ["id"]
    assert "the routing changed" in ask(routed, RunMode.PLAN)[0]["why"]
    routed.sync()
    assert read_serving(clean_indices) == f"{ALIAS}-000002"
    # Its mapping is not mended.
    assert {route for _, route in read_addresses(clean_indices, ALIAS)} == set("34567")


def test_a_document_that_somebody_wrote_with_another_routing_is_found_and_deleted(
    routed: Harness, clean_indices: str
) -> None:
    routed.sync()
    index = f"{ALIAS}-000001"
    url = f"{clean_indices}/{index}/_doc"
    near = find_other_routing(clean_indices, index, "acme", same_shard=True)
    far = find_other_routing(clean_indices, index, "acme", same_shard=False)
    oracle.request(f"{url}/acme%7C3?routing={near}", "PUT", {"n": 7})
    oracle.request(f"{url}/acme%7C4?routing={far}", "PUT", {"n": 7})
    oracle.request(f"{url}/acme%7C99?routing={far}", "PUT", {"n": 7})
    oracle.request(f"{url}/acme%7C5?routing=acme", "DELETE")
    repaired = routed.inspect(RunMode.REPAIR)
    assert repaired["extra"]["samples"] == ["acme|3", "acme|4", "acme|99"]
    # The first has replaced ours, the second lies beside it.
    assert repaired["missing"]["samples"] == ["acme|3", "acme|5"]
    check_addresses(clean_indices, *range(8))
    assert routed.inspect(RunMode.VERIFY)["equal"] is True
    with pytest.raises(HTTPError, match="400"):
        oracle.request(f"{url}/acme%7C3")
