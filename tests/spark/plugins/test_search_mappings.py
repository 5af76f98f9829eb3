"""Searches on nodes that have what every distribution has: shapes, and of the line 2.19 also k-NN.

The same cases on the plain node, unrouted, are in `pipeline/tables`. Documents are routed here,
which searches do not notice.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from icdc_api.job.modes import RunMode
from icdc_testing import ROOT
from icdc_testing.tables import search_cases
from icdc_testing.tables.search_cases import ANALYSIS, CASES, IN_DISTRIBUTIONS, SUGGESTED
from icdc_testing.target.secure.node import SecureNode
from icdc_testing.target.secure.site import PluginSite

# Of each test one line of OpenSearch, where a share is run: both take part.
pytestmark = [pytest.mark.spark, pytest.mark.sampled]

PAGE = (ROOT / "docs" / "shaping-documents.md").read_text(encoding="utf-8")
RECIPES = re.findall(
    r"```yaml fields\n([^`]*)```\n```json\n[^`]*```\n```json search\n([^`]*)```", PAGE
)
VECTOR = {"type": "knn_vector", "dimension": 2, "method": {"name": "hnsw", "engine": "lucene"}}
OF_VECTORS = pytest.mark.parametrize("node", [SecureNode], ids=["2.19"], indirect=True)
"""Of a test that needs k-NN on its node."""


def has_vectors(site: PluginSite) -> bool:
    return "opensearch-knn" in site.node.release.plugins


def find_ids(site: PluginSite, query: Mapping[str, Any]) -> list[str]:
    answer = site.node.call("POST", "/orders/_search", {"query": query})
    assert answer.status == 200, answer.body
    hits: Any = answer.json["hits"]
    return [hit["_id"] for hit in hits["hits"]]


def set_table(site: PluginSite, name: str, **entry: Any) -> None:
    spec = site.harness.resource["spec"]
    spec["tables"] = [{"name": name, "index": "orders", "identifierColumns": ["id"], **entry}]
    settings: dict[str, Any] = {"number_of_replicas": 0, "analysis": ANALYSIS}
    if has_vectors(site):
        settings["knn"] = True
    spec["sink"]["opensearch"]["indexSettings"] = settings


def test_each_mapping_finds_a_routed_document_by_a_real_search_and_again_when_its_row_changed(
    site: PluginSite,
) -> None:
    table = site.lake.create(search_cases.COLUMNS)
    site.lake.sql(f"insert into lake.{table} values (1, 'amber'), (2, 'green')")
    every = (*CASES, *IN_DISTRIBUTIONS)
    cases = [case for case in every if has_vectors(site) or case.name != "vector"]
    fields = ["*", SUGGESTED, *(case.field for case in cases)]
    set_table(site, table, fields=fields, routing=["id"])
    for word in ("amber", "purple"):
        site.lake.sql(f"update lake.{table} set word = '{word}' where id = 1")
        site.run_ok()
        assert site.count_dead_letters() == 0
        site.node.call("POST", "/orders/_refresh")
        ids = {case.name: find_ids(site, case.search(word)) for case in cases}
        assert ids == {case.name: ["1"] for case in cases}
        suggest = site.node.call("POST", "/orders/_search", search_cases.suggest(word[:3])).json
        (suggestion,) = suggest["suggest"]["words"]  # type: ignore[index]
        found = [(option["_id"], option["_routing"]) for option in suggestion["options"]]
        assert found == [("1", "1")]
        assert site.run_ok(RunMode.VERIFY)["equal"]


def test_a_value_that_a_shape_or_a_vector_cannot_hold_is_a_dead_letter(site: PluginSite) -> None:
    table = site.lake.create("id int, shape string, vector array<float>")
    site.lake.sql(
        f"insert into lake.{table} values (1, 'POINT (1 2)', array(1f, 2f)), "
        "(2, 'POINT (east)', array(1f, 2f)), (3, 'POINT (1 2)', array(1f)), "
        "(4, 'POINT (1 2)', array(1f, null))"
    )
    vector = VECTOR if has_vectors(site) else {"type": "float"}
    set_table(site, table, mapping={"shape": {"type": "geo_shape"}, "vector": vector})
    site.run_ok()
    refused = 3 if has_vectors(site) else 1
    assert site.count_dead_letters() == refused
    site.node.call("POST", "/orders/_refresh")
    found = sorted(find_ids(site, {"match_all": {}}))
    assert found == (["1"] if has_vectors(site) else ["1", "3", "4"])
    verdict = site.run_ok(RunMode.VERIFY)
    assert (verdict["equal"], verdict["refused"]) == (True, refused)


@OF_VECTORS
def test_a_vector_stays_in_its_document_as_the_table_has_it(site: PluginSite) -> None:
    table = site.lake.create("id int, vector array<double>")
    # No number that a vector of OpenSearch can hold exactly.
    site.lake.sql(f"insert into lake.{table} values (1, array(0.1234567890123D, 7D))")
    set_table(site, table, mapping={"vector": VECTOR})
    site.run_ok()
    assert site.run_ok(RunMode.VERIFY)["equal"]
    (index,) = site.node.call("GET", "/orders/_settings?flat_settings=true").json.values()
    # From 3.0 on it is true by default: a vector would come back as the index has it.
    assert index["settings"]["index.knn.derived_source.enabled"] == "false"  # type: ignore[index]


@OF_VECTORS
def test_a_vector_stays_in_its_document_where_a_template_has_switched_the_plugin_on(
    site: PluginSite,
) -> None:
    table = site.lake.create("id int, vector array<float>")
    site.lake.sql(f"insert into lake.{table} values (1, array(1f, 2f))")
    set_table(site, table, mapping={"vector": VECTOR})
    del site.harness.resource["spec"]["sink"]["opensearch"]["indexSettings"]["knn"]
    template = {"index_patterns": ["orders-*"], "template": {"settings": {"index.knn": True}}}
    assert site.node.call("PUT", "/_index_template/vectors", template).status == 200
    try:
        site.run_ok()
    finally:
        site.node.call("DELETE", "/_index_template/vectors")
    (index,) = site.node.call("GET", "/orders/_settings?flat_settings=true").json.values()
    assert index["settings"]["index.knn.derived_source.enabled"] == "false"  # type: ignore[index]


def test_every_recipe_with_a_search_is_found_by_it(site: PluginSite) -> None:
    assert PAGE.count("```json search") == len(RECIPES) == 5
    create, insert = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    name = site.lake.choose_name()
    site.lake.sql(create.format(t=f"lake.{name}") + " using iceberg")
    site.lake.sql(insert.format(t=f"lake.{name}"))
    recipes = [one for one in RECIPES if has_vectors(site) or "knn_vector" not in one[0]]
    fields = [entry for entries, _ in recipes for entry in yaml.safe_load(entries)]
    set_table(site, name, fields=fields, identifierColumns=["order_id"])
    site.run_ok()
    site.node.call("POST", "/orders/_refresh")
    for _, search in recipes:
        assert find_ids(site, json.loads(search)) == ["7"], search
