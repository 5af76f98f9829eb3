"""How strings can be searched is a choice: as whole values, by words, or both."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

TITLE = "Grand Hotel"
WHOLE = {"term": {"title": TITLE}}
WORD = {"match": {"title": "hotel"}}
SUBFIELD = {"match": {"title.text": "hotel"}}
# What finds the document, in the order above.
FOUND = {
    "KeywordAndText": (True, False, True),
    "Keyword": (True, False, False),
    "Text": (False, True, False),
}


def search(url: str, alias: str) -> tuple[bool, ...]:
    """Return which of the three queries find the document."""
    queries = (WHOLE, WORD, SUBFIELD)
    answers = [
        oracle.request(f"{url}/{alias}/_search", "POST", {"query": query})["hits"]["total"]["value"]
        for query in queries
    ]
    return tuple(count == 1 for count in answers)


@pytest.fixture
def tables(lake: Lake) -> list[str]:
    names = [lake.create("id int, title string") for _ in FOUND]
    for name in names:
        lake.sql(f"insert into lake.{name} values (1, '{TITLE}'), (2, 'Inn')")
    return names


@pytest.fixture
def pipeline(spark: SparkSession, proxy: FaultProxy, tables: list[str], tmp_path: Path) -> Harness:
    entries: list[dict[str, Any]] = [
        {"name": name, "index": form.lower(), "identifierColumns": ["id"], "strings": form}
        for name, form in zip(tables, FOUND, strict=True)
    ]
    # Of the table that says nothing, the sink says it.
    del entries[-1]["strings"]
    made = Harness(spark, proxy.url, tmp_path, entries)
    made.resource["spec"]["sink"]["opensearch"]["strings"] = list(FOUND)[-1]
    return made


def test_each_table_is_searched_as_it_was_asked_for(
    pipeline: Harness, clean_indices: str, spark: SparkSession, tables: list[str]
) -> None:
    for commit in (1, 2):
        report = pipeline.run()
        assert [table.reason for table in report.tables] == [None] * len(FOUND)
        for name, form in zip(tables, FOUND, strict=True):
            expected = oracle.read_expected(spark, f"lake.{name}", ["id"])
            oracle.assert_equal(oracle.read_index(clean_indices, form.lower()), expected)
            assert search(clean_indices, form.lower()) == FOUND[form], form
            spark.sql(f"update lake.{name} set title = 'Inn {commit}' where id = 2")
    answer = pipeline.run(RunMode.VERIFY).result
    assert answer is not None
    assert [entry["equal"] for entry in answer["tables"]] == [True] * len(FOUND)


def test_another_choice_is_another_index(pipeline: Harness, clean_indices: str) -> None:
    pipeline.run()
    del pipeline.resource["spec"]["tables"][1:]
    pipeline.sync()
    # As no version before knew it: what was the default stays as it is.
    pipeline.resource["spec"]["tables"][0].pop("strings")
    pipeline.resource["spec"]["sink"]["opensearch"].pop("strings")
    pipeline.sync()
    alias = next(iter(FOUND)).lower()
    assert list(oracle.request(f"{clean_indices}/_alias/{alias}")) == [f"{alias}-000001"]
    pipeline.resource["spec"]["tables"][0]["strings"] = "Keyword"
    pipeline.sync()
    assert search(clean_indices, alias) == FOUND["Keyword"]
    assert list(oracle.request(f"{clean_indices}/_alias/{alias}")) == [f"{alias}-000002"]
