"""One key in hundreds of commits: a batch writes it once, and nothing that is stored grows."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.naming import STATE_INDEX
from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.scenarios import select_writes
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

HOT = 1
INDEX = "hot"
DIGITS = 16
"""Bytes by which the state may grow: those of ordinals and sequence numbers."""


@pytest.mark.parametrize(
    ("commits", "files_per_batch", "batches"),
    [
        pytest.param(200, 1_000_000, (1, 1), id="at once"),
        pytest.param(20, 8, (3, 20), id="in parts"),
    ],
)
def test_a_key_of_hundreds_of_commits_is_written_once_by_each_batch(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    rng: random.Random,
    tmp_path: Path,
    commits: int,
    files_per_batch: int,
    batches: tuple[int, int],
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values ({HOT}, 'first'), (2, 'cold')")
    file_bytes = int(lake.sql(f"select max(file_size_in_bytes) from lake.{name}.files")[0][0])
    entry = {"name": name, "index": INDEX, "identifierColumns": ["id"]}
    changelog = {"maxBytesPerBatch": file_bytes * files_per_batch}
    pipeline = Harness(spark, proxy.url, tmp_path, [entry], changelog=changelog)
    pipeline.sync()
    before = read_state(clean_indices)
    commit(lake, name, commits, rng)
    proxy.clear()
    status = pipeline.sync()
    assert status.applied_snapshot_id == str(lake.read_head(name))
    writes = list(select_writes(proxy.list_writes(), INDEX))
    assert {write.id for write in writes} <= {str(HOT)}
    by_batch = Counter(write.version for write in writes)
    assert set(by_batch.values()) <= {1}
    after = read_state(clean_indices)
    fewest, most = batches
    assert fewest <= after["lastOrdinal"] - before["lastOrdinal"] <= most
    assert len(json.dumps(after)) - len(json.dumps(before)) <= DIGITS
    oracle.assert_equal(
        oracle.read_index(clean_indices, INDEX), oracle.read_expected(spark, f"lake.{name}", ["id"])
    )


def commit(lake: Lake, name: str, commits: int, rng: random.Random) -> None:
    """Write the hot key anew in each commit as a stream does, or delete it."""
    for number in range(commits):
        writer = JavaWriter(lake.load_table(name))
        if rng.random() < 0.2:
            writer.delete_equal([{"id": HOT}])
        else:
            writer.upsert([{"id": HOT, "name": f"name {number}"}], "id")


def read_state(url: str) -> dict[str, Any]:
    source: dict[str, Any] = oracle.request(f"{url}/{STATE_INDEX}/_doc/{INDEX}")["_source"]
    return source
