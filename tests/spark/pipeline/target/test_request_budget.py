"""What a run asks of OpenSearch: so few requests that thousands of pipelines burden no target."""

import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.target.upgrading import forget_shards

pytestmark = pytest.mark.spark

ALIAS = "budget"
START = Counter(
    {
        "GET /icdc-state/_settings/index.uuid": 1,
        f"GET /icdc-state/_doc/{ALIAS}": 1,
        f"PUT /icdc-state/_doc/{ALIAS}": 1,
    }
)
"""What a run asks once for each table, before it looks at anything: the claim."""
IDLE_POLL = 2
"""Whether index and shards are those that were written, and whether readers use them."""
BATCH = 9
"""The nodes of the cluster (once a minute), the intent and that it is stored, the dead letters, the
bulk request, the shards at the advance, the advance, and what is asked by the poll that follows."""

RECORDING = Counter({f"PUT /icdc-state/_doc/{ALIAS}": 1})
"""Once, after an upgrade from a version that knew no shards."""


def test_an_idle_look_asks_two_things_and_a_batch_of_ten_rows_nine(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} select id, 'a' from range(100)")
    table = {"name": name, "index": ALIAS, "identifierColumns": ["id"]}
    pipeline = Harness(spark, proxy.url, tmp_path, [table])
    pipeline.sync()

    def count_requests() -> Counter[str]:
        before = len(proxy.list_requests())
        pipeline.sync()
        shown = (f"{request.method} {request.target}" for request in proxy.list_requests()[before:])
        # How often it waits for requests of an earlier run depends on time.
        return Counter(re.sub(r"\?.*", "", line) for line in shown if "_tasks" not in line)

    idle = count_requests()
    lake.sql(f"insert into lake.{name} select id, 'b' from range(100, 110)")
    batch = count_requests() - idle
    assert (idle - START).total() <= IDLE_POLL, idle
    assert batch.total() <= BATCH, batch

    forget_shards(clean_indices, ALIAS)
    assert count_requests() - idle == RECORDING, "the first run after an upgrade records the shards"
    assert count_requests() - idle == Counter(), "and no later one does"


def test_a_table_that_is_followed_from_now_on_waits_for_no_request(
    spark: SparkSession, lake: Lake, proxy: FaultProxy, clean_indices: str, tmp_path: Path
) -> None:
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a')")
    table = {"name": name, "index": ALIAS, "identifierColumns": ["id"]}
    Harness(spark, proxy.url, tmp_path, [table], mode="StreamOnly").sync()
    assert proxy.list_requests("_doc"), "nothing was asked at all"
    assert proxy.list_requests("_tasks") == []
