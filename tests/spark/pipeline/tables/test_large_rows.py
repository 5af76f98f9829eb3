"""A row that is larger than a request may be is sent alone, and all others go on."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

LARGE = 50_000_000 if os.environ.get("ICDC_SOAK") else 20_000_000
"""Bytes of the text of a large row; a request of ours holds 8 MiB by default."""
ENTRY: dict[str, Any] = {"index": "some", "identifierColumns": ["id"]}


def test_a_row_larger_than_a_request_is_a_document_and_the_others_are_too(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
) -> None:
    name = lake.create("id int, body string")
    lake.sql(f"insert into lake.{name} values (1, 'a'), (2, 'b')")
    harness = Harness(spark, proxy.url, tmp_path, [ENTRY | {"name": name}])
    harness.sync()
    lake.sql(
        f"insert into lake.{name} select id, if(id = 4, repeat('x', {LARGE}), 'c') from range(3, 6)"
    )
    status = harness.sync()
    assert status.applied_snapshot_id == str(lake.read_head(name))
    assert status.dead_letters == 0
    ids = sorted(oracle.read_index(proxy.upstream, "some"))
    assert ids == ["1", "2", "3", "4", "5"]
