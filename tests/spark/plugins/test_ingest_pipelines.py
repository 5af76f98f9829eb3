"""Documents that go through an ingest pipeline, on nodes whose processors are OpenSearch's own.

Where the node knows users, that of the pipeline has the documented role: naming an ingest pipeline
takes no other right.
"""

from typing import Any

import pytest

from icdc_api.job.modes import RunMode
from icdc_testing.tables.fields import derive, take
from icdc_testing.target.secure.site import TOO_LONG, PluginSite

# Of each test one line of OpenSearch, where a share is run: both take part.
pytestmark = [pytest.mark.spark, pytest.mark.sampled]

NAME = "measure"
ADDS = {"length": {"type": "long"}, "vector": {"type": "float"}}
ADDING = "ctx.length = ctx.name == null ? 0 : ctx.name.length(); ctx.vector = [0.5, ctx.id]"


def put(site: PluginSite, *processors: dict[str, Any]) -> None:
    """Create or replace the ingest pipeline, and have the spec name it."""
    answer = site.node.call("PUT", f"/_ingest/pipeline/{NAME}", {"processors": processors})
    assert answer.status == 200, answer.body
    name_it(site)


def name_it(site: PluginSite) -> None:
    """Have the spec name the ingest pipeline."""
    sink = site.harness.resource["spec"]["sink"]["opensearch"]
    sink["pipeline"] = {"name": NAME, "adds": ADDS}


def make_script(source: str) -> dict[str, Any]:
    """Return a processor."""
    return {"script": {"source": source}}


def read_sources(site: PluginSite) -> dict[str, Any]:
    """Return the documents of the index by their ids."""
    site.node.call("POST", "/orders/_refresh")
    hits: Any = site.node.call("GET", "/orders/_search?size=100").json["hits"]
    return {hit["_id"]: hit["_source"] for hit in hits["hits"]}


def count_runs(site: PluginSite) -> int:
    """Return how many documents the ingest pipeline has seen, by OpenSearch's own statistics."""
    nodes: Any = site.node.call("GET", "/_nodes/stats/ingest").json["nodes"]
    return sum(node["ingest"]["pipelines"][NAME]["count"] for node in nodes.values())


def test_what_a_pipeline_adds_is_indexed_for_changed_rows_and_left_out_of_comparisons(
    site: PluginSite,
) -> None:
    put(site, make_script(ADDING))
    before = count_runs(site)
    site.sql("alter table {} add columns (price double, total decimal(20, 4))")
    site.sql(
        f"insert into {{}} values (1, 'one', 1e10, 1.5), (2, 'two', 0.1e0, -2), "
        f"(3, {TOO_LONG}, 1, 1), (4, null, double('NaN'), null)"
    )
    site.run_ok()
    assert site.count_dead_letters() == 1, site.reports[-1].tables
    sources = read_sources(site)
    assert sources["1"] | {"price": 0} == {
        "id": 1,
        "name": "one",
        "price": 0,
        "total": "1.5000",
        "length": 3,
        "vector": [0.5, 1],
    }
    assert sorted(sources) == ["1", "2", "4"]
    assert site.run_ok(RunMode.VERIFY)["equal"]
    assert count_runs(site) == before + 4

    site.sql("update {} set name = 'three' where id = 2")
    site.run_ok()
    assert read_sources(site)["2"]["length"] == 5
    assert count_runs(site) == before + 5, "documents that did not change were not sent"

    site.repair()
    assert read_sources(site)["2"]["vector"] == [0.5, 2]
    site.replay()
    assert read_sources(site)["3"]["length"] == 33000
    assert site.run_ok(RunMode.VERIFY)["equal"]


def test_a_pipeline_is_run_for_documents_that_changed_and_not_for_rows_that_a_commit_rewrote(
    site: PluginSite,
) -> None:
    put(site, make_script(ADDING))
    site.sql("alter table {} add columns (notes string)")
    fields = [take("id", "id"), derive("name", "upper(name)")]
    site.harness.resource["spec"]["tables"][0] |= {"routing": ["id"], "fields": fields}
    site.sql("insert into {} select cast(id as int), concat('n', id), '' from range(50)")
    before = count_runs(site)
    site.run_ok()
    assert count_runs(site) == before + 50
    site.sql("update {} set notes = 'no field reads it'")
    site.sql("update {} set name = 'other' where id = 3")
    site.lake.compact(site.table)
    site.run_ok()
    assert count_runs(site) == before + 51
    assert read_sources(site)["3"] == {"id": 3, "name": "OTHER", "length": 5, "vector": [0.5, 3]}
    assert site.run_ok(RunMode.VERIFY)["equal"]


def make_conditional(condition: str, source: str) -> dict[str, Any]:
    """Return a processor for some of the documents."""
    return {"script": {"if": condition, "source": source}}


FAULTS: list[tuple[dict[str, Any] | None, str]] = [
    (make_script("ctx.name = ctx.name + 'x'"), "it changed the field `name` of a document"),
    ({"remove": {"field": "name"}}, "it changed the field `name` of a document"),
    (make_script("ctx._routing = 'x'"), "it changed _routing of a document"),
    (make_script("ctx[ctx.name] = 1"), "it added a field that has no mapping. "),
    # One document of many suffices, in what the answer to a request says of each.
    (
        make_conditional("ctx.id == 7", "ctx._index = 'orders-other'"),
        "it changed _index of a document",
    ),
    (
        make_conditional("ctx.id == 7", "ctx._version = ctx._version + 1"),
        "it changed _version of a document",
    ),
    (make_conditional("ctx.id == 7", "ctx._id = 'x'"), "it changed _id of a document"),
    ({"drop": {"if": "ctx.id == 7"}}, "dropped by an ingest pipeline"),
    ({"pipeline": {"name": "nowhere"}}, "configured for non-existent pipeline [nowhere]"),
    (None, f"pipeline with id [{NAME}] does not exist"),
]


@pytest.mark.parametrize(("processor", "message"), FAULTS)
def test_a_pipeline_that_does_more_than_to_add_stalls_the_table_until_it_is_mended(
    site: PluginSite, processor: dict[str, Any] | None, message: str
) -> None:
    name_it(site)
    # So that a document with another routing lies where a request for it does not find it.
    sink = site.harness.resource["spec"]["sink"]["opensearch"]
    sink["indexSettings"] = {"number_of_shards": 5, "number_of_replicas": 0}
    if processor is None:
        site.node.call("DELETE", f"/_ingest/pipeline/{NAME}")
    else:
        put(site, processor)
    site.sql("insert into {} select cast(id as int), concat('secret', id) from range(9)")
    for _ in range(2):
        # A repetition finds what it wrote itself, and must not take that for right.
        (table,) = site.run().tables
        assert table.reason == "TargetInvalid", table
        assert message in (table.message or ""), table.message
        assert "secret" not in (table.message or "")
    put(site, make_script(ADDING))
    site.run_ok()
    assert site.run_ok(RunMode.VERIFY)["equal"]


def test_a_change_that_a_pipeline_spoils_is_followed_by_a_new_index(site: PluginSite) -> None:
    put(site, make_script(ADDING))
    site.sql("insert into {} values (1, 'one'), (2, 'two')")
    site.run_ok()
    put(site, make_script("ctx.name = 'other'"))
    site.sql("update {} set name = 'three' where id = 2")
    (table,) = site.run().tables
    assert table.reason == "TargetInvalid", table
    put(site, make_script(ADDING))
    site.run_ok()
    assert read_sources(site)["2"] == {"id": 2, "name": "three", "length": 5, "vector": [0.5, 2]}
    assert site.run_ok(RunMode.VERIFY)["equal"]


def test_rows_that_a_processor_refuses_are_dead_letters_unless_most_are(site: PluginSite) -> None:
    failing = {"if": "ctx.name == 'bad'", "message": "no"}
    put(site, {"fail": failing}, make_script(ADDING))
    site.sql("insert into {} values (1, 'one'), (2, 'bad'), (3, 'three')")
    site.run_ok()
    assert site.count_dead_letters() == 1
    assert sorted(read_sources(site)) == ["1", "3"]
    # The model behind a processor is away, say: documents must not go for that.
    put(site, make_script("throw new IllegalArgumentException('away')"))
    site.sql("update {} set name = concat(name, '!')")
    (table,) = site.run().tables
    assert table.reason == "TargetInvalid", table
    assert "Nothing was removed" in (table.message or "")
    assert sorted(read_sources(site)) == ["1", "3"]


def test_what_others_do_and_keys_that_are_there_twice_are_no_fault_of_the_pipeline(
    site: PluginSite,
) -> None:
    put(site, make_script(ADDING))
    site.sql("insert into {} values (1, 'one'), (1, 'uno'), (2, 'two'), (3, 'three')")
    site.run_ok()
    assert site.run_ok(RunMode.VERIFY)["equal"]
    site.sql("insert into {} values (2, 'due'), (4, 'four')")
    site.run_ok()
    site.spoil()
    site.sql("update {} set name = 'tre' where id = 3")
    site.run_ok()
    site.run_ok(RunMode.REPAIR)
    assert site.run_ok(RunMode.VERIFY)["equal"]
