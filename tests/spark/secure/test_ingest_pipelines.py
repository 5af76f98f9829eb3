"""Documents that go through an ingest pipeline, on a node whose processors are OpenSearch's own.

The user of the pipeline has the documented role: naming an ingest pipeline takes no other right.
"""

from typing import Any

import pytest

from icdc_api.job.modes import RunMode
from icdc_testing.target.secure.site import TOO_LONG, SecureSite

pytestmark = pytest.mark.spark

NAME = "measure"
ADDS = {"length": {"type": "long"}, "vector": {"type": "float"}}
ADDING = "ctx.length = ctx.name == null ? 0 : ctx.name.length(); ctx.vector = [0.5, ctx.id]"


def put(site: SecureSite, *processors: dict[str, Any]) -> None:
    """Create or replace the ingest pipeline, and have the spec name it."""
    answer = site.node.call("PUT", f"/_ingest/pipeline/{NAME}", {"processors": processors})
    assert answer.status == 200, answer.body
    name_it(site)


def name_it(site: SecureSite) -> None:
    """Have the spec name the ingest pipeline."""
    sink = site.harness.resource["spec"]["sink"]["opensearch"]
    sink["pipeline"] = {"name": NAME, "adds": ADDS}


def script(source: str) -> dict[str, Any]:
    """Return a processor."""
    return {"script": {"source": source}}


def sources(site: SecureSite) -> dict[str, Any]:
    """Return the documents of the index by their ids."""
    site.node.call("POST", "/orders/_refresh")
    hits: Any = site.node.call("GET", "/orders/_search?size=100").json["hits"]
    return {hit["_id"]: hit["_source"] for hit in hits["hits"]}


def count_runs(site: SecureSite) -> int:
    """Return how many documents the ingest pipeline has seen, by OpenSearch's own statistics."""
    nodes: Any = site.node.call("GET", "/_nodes/stats/ingest").json["nodes"]
    return sum(node["ingest"]["pipelines"][NAME]["count"] for node in nodes.values())


def test_what_a_pipeline_adds_is_indexed_for_changed_rows_and_left_out_of_comparisons(
    site: SecureSite,
) -> None:
    put(site, script(ADDING))
    before = count_runs(site)
    site.sql("alter table {} add columns (price double, total decimal(20, 4))")
    site.sql(
        f"insert into {{}} values (1, 'one', 1e10, 1.5), (2, 'two', 0.1e0, -2), "
        f"(3, {TOO_LONG}, 1, 1), (4, null, double('NaN'), null)"
    )
    site.ok()
    assert site.count_dead_letters() == 1, site.reports[-1].tables
    found = sources(site)
    assert found["1"] | {"price": 0} == {
        "id": 1,
        "name": "one",
        "price": 0,
        "total": "1.5000",
        "length": 3,
        "vector": [0.5, 1],
    }
    assert sorted(found) == ["1", "2", "4"]
    assert site.ok(RunMode.VERIFY)["equal"]
    assert count_runs(site) == before + 4

    site.sql("update {} set name = 'three' where id = 2")
    site.ok()
    assert sources(site)["2"]["length"] == 5
    assert count_runs(site) == before + 5, "documents that did not change were not sent"

    site.repair()
    assert sources(site)["2"]["vector"] == [0.5, 2]
    site.replay()
    assert sources(site)["3"]["length"] == 33000
    assert site.ok(RunMode.VERIFY)["equal"]


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (script("ctx.name = ctx.name.toUpperCase()"), "The field `name` of a document is not as"),
        (script("ctx.more = 1"), None),
        ({"remove": {"field": "name"}}, "The field `name` of a document is not as it was written"),
        ({"drop": {}}, "dropped by an ingest pipeline"),
        (script("ctx._index = 'orders-elsewhere'"), "A document is not in the index as it was"),
        (script("ctx._version = 1"), "A document is not in the index as it was written"),
        (None, f"pipeline with id [{NAME}] does not exist"),
    ],
)
def test_a_pipeline_that_does_more_than_to_add_stalls_the_table(
    site: SecureSite, processor: dict[str, Any] | None, message: str | None
) -> None:
    name_it(site)
    if processor is None:
        site.node.call("DELETE", f"/_ingest/pipeline/{NAME}")
    else:
        put(site, processor)
    site.sql("insert into {} values (1, 'one')")
    (table,) = site.run().tables
    if message is None:
        # Refused by the mapping, which is strict.
        message = "mapping set to strict"
    assert table.reason == "TargetInvalid", table
    assert message in (table.message or ""), table.message
