"""Tables whose names need care somewhere between the spec, Spark and the index."""

from pathlib import Path
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "sql", "index"),
    [
        ("my-ns.my-table", "`my-ns`.`my-table`", "my-ns.my-table"),
        ("my-ns.`my-table`", "`my-ns`.`my-table`", "my-ns.my-table"),
        ("my-ns.2024", "`my-ns`.`2024`", "my-ns.2024"),
        ("my-ns.`a table`", "`my-ns`.`a table`", "my-ns.a-table"),
        ("my-ns.select", "`my-ns`.`select`", "my-ns.select"),
    ],
)
def test_only_a_dot_or_a_space_in_a_part_needs_backticks(
    spark: SparkSession,
    lake: Lake,
    clean_indices: str,
    tmp_path: Path,
    name: str,
    sql: str,
    index: str,
) -> None:
    lake.sql("create namespace if not exists lake.`my-ns`")
    lake.sql(f"create or replace table lake.{sql} (id int, name string) using iceberg")
    lake.sql(f"insert into lake.{sql} values (1, 'a'), (2, 'b')")
    entry = {"name": name, "identifierColumns": ["id"]}
    harness = Harness(spark, clean_indices, tmp_path, [entry])
    assert harness.sync().index == index
    lake.sql(f"update lake.{sql} set name = 'x' where id = 1")
    harness.sync()
    assert harness.inspect(RunMode.VERIFY)["equal"] is True
    documents = oracle.read_index(clean_indices, quote(index))
    assert {key: value["name"] for key, value in documents.items()} == {"1": "x", "2": "b"}
