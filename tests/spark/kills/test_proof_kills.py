"""SIGKILL of a driver while it proves a new index: the next run proves it again, or another one."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.processes import ChildRuns, KilledProcess
from icdc_testing.target import oracle
from icdc_testing.target.disturbing import edit_first, list_aliased

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ALIAS = "things"
FIRST, SECOND = f"{ALIAS}-000001", f"{ALIAS}-000002"


@pytest.mark.parametrize(
    ("proof", "path", "body"),
    [
        # Each page of the scan is asked for by a task; its point in time says of which index.
        ("All", r"^/_search\?", '"pit"'),
        ("Sample", f"^/icdc-state/_doc/{ALIAS}", '"phase":"Swapping"'),
    ],
    ids=["while it compares", "when it has compared"],
)
def test_a_proof_in_which_the_driver_was_killed_is_repeated_by_the_next_run(
    spark: SparkSession,
    lake: Lake,
    proxy: FaultProxy,
    clean_indices: str,
    tmp_path: Path,
    runs: ChildRuns,
    proof: str,
    path: str,
    body: str,
) -> None:
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1, 'a'), (2, 'b')")
    entry = {"name": name, "identifierColumns": ["id"], "index": ALIAS}
    pipeline = Harness(spark, proxy.url, tmp_path, [entry], changelog={"proveBeforeSwitch": proof})
    held = proxy.hold(path, body=body)
    driver = runs.start(pipeline.make_request())
    held.wait(300)
    driver.kill(KilledProcess.DRIVER_PYTHON)
    driver.wait_dead()
    held.drop()
    assert list_aliased(clean_indices, ALIAS) == []
    # Nothing of the first proof counts.
    edit_first(clean_indices, FIRST)
    pipeline.sync()
    assert list_aliased(clean_indices, ALIAS) == [SECOND]
    oracle.assert_equal(
        oracle.read_index(clean_indices, ALIAS), oracle.read_expected(spark, f"lake.{name}", ["id"])
    )
