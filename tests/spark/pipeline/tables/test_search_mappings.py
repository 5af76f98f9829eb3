"""Documents are found by what their mappings say, and a changed row is found anew."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.tables import search_cases
from icdc_testing.tables.fields import derive, take
from icdc_testing.tables.search_cases import ANALYSIS, CASES, SUGGESTED, SearchCase
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "found"


def make_harness(spark: SparkSession, url: str, folder: Path, table: str, *entries: Any) -> Harness:
    """Return a pipeline whose documents have these fields."""
    entry = {"name": table, "index": ALIAS, "identifierColumns": ["id"], "fields": list(entries)}
    harness = Harness(spark, url, folder, [entry])
    harness.resource["spec"]["sink"]["opensearch"]["indexSettings"]["analysis"] = ANALYSIS
    return harness


def find(url: str, body: dict[str, Any]) -> Any:
    return oracle.request(f"{url}/{ALIAS}/_search", "POST", body)


def find_ids(url: str, case: SearchCase, word: str) -> list[str]:
    hits = find(url, {"query": case.search(word)})["hits"]["hits"]
    return [hit["_id"] for hit in hits]


def test_each_mapping_finds_the_document_by_a_real_search_and_again_when_its_row_has_changed(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path
) -> None:
    table = lake.create(search_cases.COLUMNS)
    lake.sql(f"insert into lake.{table} values (1, 'amber'), (2, 'green')")
    fields = ["*", SUGGESTED, *(case.field for case in CASES)]
    harness = make_harness(spark, clean_indices, tmp_path, table, *fields)
    for word in ("amber", "purple"):
        lake.sql(f"update lake.{table} set word = '{word}' where id = 1")
        status = harness.sync()
        assert (status.reason, status.dead_letters) == (None, 0), status
        oracle.request(f"{clean_indices}/{ALIAS}/_refresh", "POST")
        ids = {case.name: find_ids(clean_indices, case, word) for case in CASES}
        assert ids == {case.name: ["1"] for case in CASES}
        (suggestion,) = find(clean_indices, search_cases.suggest(word[:3]))["suggest"]["words"]
        assert [option["_id"] for option in suggestion["options"]] == ["1"]
        assert harness.inspect(RunMode.VERIFY)["equal"] is True


def test_a_mapping_of_some_fields_of_objects_leaves_the_others_theirs(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path
) -> None:
    table = lake.create(search_cases.COLUMNS)
    lake.sql(f"insert into lake.{table} values (1, 'Amber'), (2, 'green')")
    lines = "array(named_struct('sku', word, 'n', id))"
    words = {"type": "nested", "properties": {"sku": {"type": "text"}}}
    harness = make_harness(
        *(spark, clean_indices, tmp_path, table), derive("lines", lines, mapping=words)
    )
    assert harness.sync().dead_letters == 0
    found = [{"match": {"lines.sku": "amber"}}, {"term": {"lines.n": 1}}]
    query = {"nested": {"path": "lines", "query": {"bool": {"must": found}}}}
    oracle.request(f"{clean_indices}/{ALIAS}/_refresh", "POST")
    (hit,) = find(clean_indices, {"query": query})["hits"]["hits"]
    assert hit["_source"] == {"lines": [{"sku": "Amber", "n": 1}]}


UNFIT = [
    ("'nonsense'", {"type": "ip"}),
    ("'31/02/2026'", {"type": "date", "format": "dd/MM/yyyy"}),
    ("named_struct('gte', '2026-03-01', 'lt', '2026-01-01')", {"type": "date_range"}),
    ("named_struct('lat', 200.0d, 'lon', 0.0d)", {"type": "geo_point"}),
    ("-1.0d", {"type": "rank_feature"}),
    ("map('a', -1.0d)", {"type": "rank_features"}),
    ("'many'", {"type": "long"}),
    ("1.5d", {"type": "byte", "coerce": False}),
    ("repeat('x', 40000)", {"type": "keyword", "ignore_above": 50000}),
]
"""Values, each with a mapping that cannot hold it."""


def test_a_value_that_a_mapping_cannot_hold_is_a_dead_letter_and_the_other_rows_go_on(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path
) -> None:
    table = lake.create(search_cases.COLUMNS)
    lake.sql(f"insert into lake.{table} select id, 'w' from range({len(UNFIT) + 1})")
    fields = [
        derive(f"f{row}", f"if(id = {row}, {value}, null)", mapping=mapping)
        for row, (value, mapping) in enumerate(UNFIT)
    ]
    harness = make_harness(spark, clean_indices, tmp_path, table, take("id", "id"), *fields)
    assert harness.sync().dead_letters == len(UNFIT)
    good = str(len(UNFIT))
    assert oracle.read_index(clean_indices, ALIAS) == {good: {"id": len(UNFIT)}}
    verdict = harness.inspect(RunMode.VERIFY)
    assert (verdict["equal"], verdict["refused"]) == (True, len(UNFIT))


@pytest.mark.parametrize(
    ("expression", "mapping", "words"),
    [
        ("array(1f)", {"type": "knn_vector", "dimension": 1}, "No handler for type [knn_vector]"),
        ("'POINT (1 2)'", {"type": "geo_shape"}, "No handler for type [geo_shape]"),
        ("word", {"type": "text", "analyzer": "none"}, "analyzer [none] has not been configured"),
    ],
)
def test_what_the_cluster_does_not_have_is_named_and_stalls_the_table(
    spark: SparkSession,
    lake: Lake,
    clean_indices: str,
    tmp_path: Path,
    expression: str,
    mapping: dict[str, Any],
    words: str,
) -> None:
    table = lake.create(search_cases.COLUMNS)
    field = derive("special", expression, mapping=mapping)
    (status,) = make_harness(spark, clean_indices, tmp_path, table, "*", field).run().tables
    assert status.reason == "MappingInvalid"
    assert words in (status.message or ""), status.message
