"""What a change of the mode makes of a table that has an index already."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("mode", ["ExportAndStream", "ExportOnly"])
def test_a_table_that_began_without_an_export_is_exported_in_another_mode(
    spark: SparkSession, lake: Lake, clean_indices: str, tmp_path: Path, mode: str
) -> None:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int")
    lake.sql(f"insert into lake.{name} values 1, 2")
    entry = {"name": name, "identifierColumns": ["id"], "index": "things"}
    harness = Harness(spark, clean_indices, tmp_path, [entry], mode="StreamOnly")
    harness.sync()
    lake.sql(f"insert into lake.{name} values 3")
    harness.sync()
    assert set(oracle.read_index(clean_indices, "things")) == {"3"}
    for now in (mode, "StreamOnly", mode):
        harness.resource["spec"]["mode"] = now
        # Nothing was committed since.
        harness.sync()
        assert set(oracle.read_index(clean_indices, "things")) == {"1", "2", "3"}
        state = oracle.request(f"{clean_indices}/icdc-state/_doc/things")["_source"]
        assert state["index"] == "things-000002"
