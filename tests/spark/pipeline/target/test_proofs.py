"""What readers get is proved first: an index of which documents differ is never switched to.

`test_miscounts` is about their number. Here the number is right.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.long_values import LONG, UNLIMITED
from icdc_testing.target import oracle
from icdc_testing.target.disturbing import edit_first, list_aliased, run_disturbed
from icdc_testing.target.node_calls import call

pytestmark = pytest.mark.spark

ALIAS = "things"
FIRST, SECOND, THIRD = (f"{ALIAS}-{number:06d}" for number in (1, 2, 3))


@pytest.fixture
def table(lake: Lake) -> str:
    """Four rows, of which the index refuses one."""
    lake.sql("create namespace if not exists lake.db")
    name = lake.create("id int, name string")
    lake.sql(f"insert into lake.{name} values (1,'a'), (2,'b'), (3,'c'), (4,'{LONG}')")
    return name


@pytest.fixture
def pipeline(spark: SparkSession, proxy: FaultProxy, table: str, tmp_path: Path) -> Harness:
    entry = {"name": table, "identifierColumns": ["id"], "index": ALIAS}
    return Harness(spark, proxy.url, tmp_path, [entry | {"mapping": {"name": UNLIMITED}}])


def prove(pipeline: Harness, proof: str) -> None:
    """Have new indices proved that way."""
    pipeline.resource["spec"]["changelog"] = {"proveBeforeSwitch": proof}


def replace_and_expire(lake: Lake, table: str) -> None:
    """Write other rows, and remove all files of those before."""
    lake.sql(f"insert overwrite lake.{table} values (1, 'z'), (4, '{LONG}')")
    spent = "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1"
    lake.sql(f"call lake.system.expire_snapshots(table => '{table}', {spent})")


def request_export(pipeline: Harness, nonce: int) -> None:
    """Ask for a re-export."""
    pipeline.resource["spec"]["resync"] = {"nonce": nonce}


def assert_exported(spark: SparkSession, url: str, table: str) -> None:
    """Assert that readers see the rows that are not refused."""
    wanted = oracle.read_expected(spark, f"lake.{table}", ["id"])
    del wanted["4"]
    oracle.assert_equal(oracle.read_index(url, ALIAS), wanted)


@pytest.mark.parametrize("proof", ["Sample", "All"])
def test_a_document_that_somebody_replaced_is_found_before_readers_see_it(
    pipeline: Harness,
    proxy: FaultProxy,
    clean_indices: str,
    spark: SparkSession,
    table: str,
    proof: str,
) -> None:
    prove(pipeline, proof)
    # The first export too: there is no alias before the proof. The dead letter is no difference.
    status = run_disturbed(pipeline, proxy, clean_indices, edit_first, [FIRST])
    assert (status.reason, status.dead_letters) == (None, 1)
    assert list_aliased(clean_indices, ALIAS) == [SECOND]
    assert call(clean_indices, "GET", f"/{FIRST}").status == 404
    assert_exported(spark, clean_indices, table)

    request_export(pipeline, 1)
    fourth = f"{ALIAS}-000004"
    status = run_disturbed(pipeline, proxy, clean_indices, edit_first, [THIRD, fourth])
    assert status.reason == "TargetInvalid"
    found = "(of 4 rows that were compared with their documents: 1 different (document ids: 1))"
    assert found in str(status.message)
    assert list_aliased(clean_indices, ALIAS) == [SECOND]
    # The message stays, and nothing is exported until somebody asks again.
    proxy.clear()
    assert found in str(pipeline.run_to_stall().message)
    assert proxy.list_writes(fourth) == []
    request_export(pipeline, 2)
    pipeline.sync()
    assert list_aliased(clean_indices, ALIAS) == [f"{ALIAS}-000005"]
    assert_exported(spark, clean_indices, table)


@pytest.mark.parametrize("proof", ["Sample", "All"])
def test_of_a_key_in_several_rows_the_document_is_compared_with_the_row_that_it_is_made_of(
    pipeline: Harness, clean_indices: str, lake: Lake, table: str, proof: str
) -> None:
    lake.sql(f"insert into lake.{table} values (3,'twin'), (3,'triplet'), (5,'e'), (5,'twin')")
    prove(pipeline, proof)
    status = pipeline.sync()
    assert status.duplicates is not None
    assert status.duplicates.count == 2
    assert list_aliased(clean_indices, ALIAS) == [FIRST]


@pytest.mark.parametrize("proof", ["Count", "Sample", "All"])
@pytest.mark.parametrize(
    ("refused", "count", "documents"),
    [(f"{LONG}?", 2, ["1", "2"]), (LONG, 1, ["1", "2", "3"])],
    ids=["the-refused-one-counts", "the-accepted-one-counts"],
)
def test_a_key_of_which_one_row_is_refused_and_another_accepted_is_seen_as_a_duplicate(
    pipeline: Harness,
    clean_indices: str,
    lake: Lake,
    table: str,
    refused: str,
    count: int,
    documents: list[str],
    proof: str,
) -> None:
    """Not by number: there are five rows, three documents and two dead letters."""
    lake.sql(f"insert into lake.{table} values (3,'{refused}')")
    prove(pipeline, proof)
    status = pipeline.sync()
    assert (status.duplicates and status.duplicates.samples) == ("3",)
    assert list_aliased(clean_indices, ALIAS) == [FIRST]
    # Of its rows the one of the greatest number counts.
    assert status.dead_letters == count
    assert sorted(oracle.read_index(clean_indices, ALIAS)) == documents
    assert pipeline.inspect(RunMode.VERIFY)["equal"]


def test_a_document_beside_the_right_one_on_another_shard_is_found_by_a_sample(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str
) -> None:
    """Not by the number of documents: another one is deleted."""

    def add_and_delete(url: str, index: str) -> None:
        def find_shard(routing: str) -> int:
            answer = oracle.request(f"{url}/{index}/_search_shards?routing={routing}")
            return int(answer["shards"][0][0]["shard"])

        other = next(one for one in "abcdefgh" if find_shard(one) != find_shard("1"))
        document = f"/{index}/_doc/1?routing={other}"
        assert call(url, "PUT", document, {"id": 1, "name": "a"}).status == 201
        assert call(url, "DELETE", f"/{index}/_doc/2").status == 200

    prove(pipeline, "Sample")
    opensearch = pipeline.resource["spec"]["sink"]["opensearch"]
    # With room for one document and the other one in each answer.
    opensearch["indexSettings"] |= {"number_of_shards": 3, "max_result_window": 2}
    status = run_disturbed(pipeline, proxy, clean_indices, add_and_delete, [FIRST, SECOND])
    found = "of 4 rows that were compared with their documents: 1 missing, 1 extra (document ids:"
    assert found in str(status.message)
    assert list_aliased(clean_indices, ALIAS) == []
    # A way out, if somebody wants the index as it is.
    prove(pipeline, "Count")
    request_export(pipeline, 1)
    status = run_disturbed(pipeline, proxy, clean_indices, add_and_delete, [THIRD])
    assert (status.reason, list_aliased(clean_indices, ALIAS)) == (None, [THIRD])


@pytest.mark.parametrize("proof", ["Sample", "All"])
def test_files_that_are_gone_before_they_are_compared_are_no_difference(
    pipeline: Harness,
    proxy: FaultProxy,
    clean_indices: str,
    spark: SparkSession,
    lake: Lake,
    table: str,
    proof: str,
) -> None:
    """Of a snapshot without a tag that expires meanwhile; it is told apart from another writer."""

    def expire(url: str, index: str) -> None:
        replace_and_expire(lake, table)

    prove(pipeline, proof)
    pipeline.resource["spec"]["changelog"]["pinSnapshots"] = "Never"
    status = run_disturbed(pipeline, proxy, clean_indices, expire, [FIRST])
    assert status.reason == "DataFileMissing"
    assert list_aliased(clean_indices, ALIAS) == []
    # Nobody has to act: what is there now is exported when the table is tried again.
    proxy.clear()
    pipeline.sync()
    assert list_aliased(clean_indices, ALIAS) == [SECOND]
    assert_exported(spark, clean_indices, table)


def test_a_sample_that_nobody_asked_for_is_left_out_where_its_files_are_gone(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str, lake: Lake, table: str
) -> None:
    def expire(url: str, index: str) -> None:
        replace_and_expire(lake, table)

    pipeline.resource["spec"]["changelog"] = {"pinSnapshots": "Never"}
    status = run_disturbed(pipeline, proxy, clean_indices, expire, [FIRST])
    # Readers got the first one; then the run found that the changes since are unknown.
    assert (status.reason, list_aliased(clean_indices, ALIAS)) == (None, [SECOND])


def test_by_the_number_of_documents_alone_such_a_document_is_not_found(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str
) -> None:
    prove(pipeline, "Count")
    run_disturbed(pipeline, proxy, clean_indices, edit_first, [FIRST])
    assert list_aliased(clean_indices, ALIAS) == [FIRST]
    assert oracle.read_index(clean_indices, ALIAS)["1"]["name"] == "edited"


def test_a_run_that_is_to_end_leaves_the_comparison_of_everything_to_the_next_one(
    pipeline: Harness, proxy: FaultProxy, clean_indices: str, spark: SparkSession, table: str
) -> None:
    prove(pipeline, "All")
    held = proxy.hold(f"^/icdc-state/_doc/{ALIAS}", method="PUT", body='"chunksDone":1')
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(PipelineRun(pipeline.make_request(), spark, stop).run)
        held.wait()
        stop.set()
        held.release()
        running.result(120)
    assert list_aliased(clean_indices, ALIAS) == []
    writes = len(proxy.list_writes(FIRST))
    pipeline.sync()
    assert list_aliased(clean_indices, ALIAS) == [FIRST]
    assert len(proxy.list_writes(FIRST)) == writes
    assert_exported(spark, clean_indices, table)
