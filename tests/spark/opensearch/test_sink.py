"""The driver's side through Spark: DataFrame in, BatchResult out."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import DataFrame, SparkSession

from icdc_api.errors import DeadLetterLimit, Fenced, Gap, TargetInvalid, TargetReadOnly
from icdc_api.spec.sink import DeadLetterPolicy, SinkLimits
from icdc_spark.iceberg.jvm.session import mark_jobs
from icdc_spark.iceberg.jvm.table_jobs import TableJobs
from icdc_spark.opensearch.bulk import sink as spark_sink
from icdc_spark.opensearch.bulk.sink import BatchResult
from icdc_spark.opensearch.bulk.target import BulkTarget
from icdc_spark.opensearch.client import scan
from icdc_spark.opensearch.client.connection import Client
from icdc_spark.opensearch.stores import indices
from icdc_spark.opensearch.stores.indices import PhysicalIndex
from icdc_spark.protocol.state_document import compute_base_version
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Hold
from icdc_testing.target import sink_cases as sink
from icdc_testing.target.node_calls import call, read_documents
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark


def write(lines: DataFrame, target: BulkTarget, *, newer_run: bool = False) -> BatchResult:
    return spark_sink.write(lines, target, is_superseded=lambda: newer_run)


def make_documents(spark: SparkSession, count: int, ordinal: int, expect: str = "c") -> DataFrame:
    """Lines built in the JVM, as the diff builds them: k0 … with `v` = the number."""
    action = (
        '{"index":{"_id":"k',
        "id",
        f'","version":{compute_base_version(ordinal)},"version_type":"external"}}}}\\n{{"v":',
        "id",
        "}\\n",
    )
    parts = ", ".join(part if part == "id" else f"'{part}'" for part in action)
    expression = f"cast(concat({parts}) as binary) as line"
    return spark.range(count).selectExpr(expression, f"'{expect}' as expect", "id as more")


def test_a_dataframe_is_written_whole_and_again_without_effect(
    spark: SparkSession, clean_indices: str, admin: Client, index: PhysicalIndex
) -> None:
    lines = make_documents(spark, 6_000, 1).repartition(3)
    target = sink.make_target(clean_indices, max_bytes=40_000)
    result = write(lines, target)
    assert (result.upserted, result.already_applied, result.ambiguous) == (6_000, 0, False)
    assert result.created_unexpectedly_updated.count == 0
    assert indices.refresh_and_count(admin, index.name) == 6_000
    again = write(lines, target)
    assert (again.upserted, again.already_applied) == (0, 6_000)
    opened = scan.open_scan(admin, index.name, 6_000)
    stored = {
        document.id: json.loads(document.text)["v"]
        for n in range(opened.slices)
        for document in scan.read_slice(opened, n)
    }
    scan.close_scan(admin, opened)
    assert stored == {f"k{n}": n for n in range(6_000)}


@pytest.mark.usefixtures("index")
def test_the_driver_sees_what_a_task_has_sent_before_the_task_ends(
    spark: SparkSession, proxy: FaultProxy
) -> None:
    """By Spark's metrics, which know only what has left the Python worker."""
    held = Hold(after=False)
    proxy.add(held, path="_bulk", skip=1)
    target = sink.make_target(proxy.url, max_bytes=100, max_in_flight=1, progress_seconds=0.1)

    def run() -> BatchResult:
        mark_jobs(spark, "db.orders", tag="orders")
        return write(make_documents(spark, 3, 1).coalesce(1), target)

    jobs = TableJobs(spark)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            # Of what pushes a result out of the worker: the rows are some hundred bytes.
            wait_until(lambda: "KiB" in "".join(jobs.read("orders").metrics), "a result is seen")
            assert not running.done()
        finally:
            held.release()
        assert running.result(WAIT_SECONDS).upserted == 3


def test_an_empty_dataframe_is_a_batch_of_nothing(
    spark: SparkSession, clean_indices: str, index: PhysicalIndex
) -> None:
    result = write(make_documents(spark, 0, 1), sink.make_target(clean_indices))
    assert (result.upserted, result.requests) == (0, 0)


@pytest.mark.usefixtures("index")
def test_tasks_together_send_no_more_in_a_second_than_allowed(
    spark: SparkSession, proxy: FaultProxy
) -> None:
    """Each of four tasks has one request, which it would send at once by itself."""
    lines = make_documents(spark, 400, 1).repartition(4)
    target = sink.make_target(proxy.url, limits=SinkLimits(documents_per_second=200))
    result = write(lines, target)
    arrived = sorted(seen.arrived for seen in proxy.list_requests("_bulk"))
    assert len(arrived) == 4
    # The last request is sent when the time of those before it has passed. Between the requests:
    # Spark's start takes as long. The first one may be late by what its connection takes.
    assert arrived[-1] - arrived[0] >= 300 / 200 - 0.3
    assert (result.upserted, result.ambiguous) == (400, False)
    # 0.5, 1 and 1.5 s, were it not for the time at which each task comes.
    assert result.limited_seconds > 0


def test_suspects_of_all_partitions_are_counted_and_sampled(
    spark: SparkSession, clean_indices: str, index: PhysicalIndex
) -> None:
    write(make_documents(spark, 100, 1), sink.make_target(clean_indices))
    lines = make_documents(spark, 120, 2).repartition(4)
    suspects = write(lines, sink.make_target(clean_indices, 2)).created_unexpectedly_updated
    assert (suspects.count, len(suspects.ids)) == (100, 20)


def test_dead_letters_are_found_known_and_resolved_by_the_next_batch(
    spark: SparkSession, clean_indices: str, index: PhysicalIndex
) -> None:
    bad = make_documents(spark, 10, 1).selectExpr(
        'cast(replace(cast(line as string), \'"v":7}\', \'"v":"x"}\') as binary) as line',
        "expect",
    )
    first = write(bad, sink.make_target(clean_indices))
    assert (first.upserted, first.dead_letters, first.dead_letters_total) == (9, 1, 1)
    second = write(make_documents(spark, 10, 2, "u"), sink.make_target(clean_indices, 2))
    assert (second.upserted, second.resolved, second.dead_letters_total) == (10, 1, 0)
    assert read_documents(clean_indices, "orders-dead-letters") == {}


def test_the_limit_of_dead_letters_holds_over_all_partitions(
    spark: SparkSession, clean_indices: str, index: PhysicalIndex
) -> None:
    bad = make_documents(spark, 12, 1).selectExpr(
        'cast(replace(cast(line as string), \'"v":\', \'"v":"x\') as binary) as line', "expect"
    )
    target = sink.make_target(clean_indices, max_dead_letters=5)
    with pytest.raises(DeadLetterLimit, match=r"deadLetters.maxRows \(5\)"):
        write(bad.repartition(4), target)


def test_the_limit_has_no_effect_where_the_first_refused_row_stops_the_table(
    spark: SparkSession, clean_indices: str, index: PhysicalIndex
) -> None:
    """Rows that were refused before the policy was changed are no reason."""
    bad = make_documents(spark, 3, 1).selectExpr(
        'cast(replace(cast(line as string), \'"v":\', \'"v":"x\') as binary) as line', "expect"
    )
    assert write(bad, sink.make_target(clean_indices)).dead_letters_total == 3
    stops = {"dead_letter_policy": DeadLetterPolicy.STOP, "max_dead_letters": 0}
    later = make_documents(spark, 5, 2).where("more >= 3")
    assert write(later, sink.make_target(clean_indices, 2, **stops)).dead_letters_total == 3


@pytest.mark.parametrize("breakage", ["blocked", "deleted"])
def test_an_error_of_a_task_is_raised_as_ours(
    spark: SparkSession, clean_indices: str, index: PhysicalIndex, breakage: str
) -> None:
    lines = make_documents(spark, 5_000, 1).repartition(2)
    target = sink.make_target(clean_indices, max_bytes=20_000)
    if breakage == "deleted":
        call(clean_indices, "DELETE", f"/{index.name}")
        with pytest.raises(Gap, match="disappeared"):
            write(lines, target)
        return
    call(clean_indices, "PUT", f"/{index.name}/_settings", {"index.blocks.write": True})
    with pytest.raises(TargetReadOnly, match="remove the block"):
        write(lines, target)


@pytest.mark.parametrize("newer_run", [False, True])
def test_versions_above_ours_are_somebody_elses_unless_a_newer_run_wrote_them(
    spark: SparkSession, clean_indices: str, index: PhysicalIndex, newer_run: bool
) -> None:
    """As of a job that writes with its clock's milliseconds as external versions."""
    path = f"/{index.name}/_doc/k7?version=1800000000000&version_type=external"
    assert call(clean_indices, "PUT", path, {"v": -1}).status == 201
    lines, target = (
        make_documents(spark, 5_000, 1),
        sink.make_target(clean_indices, max_bytes=20_000),
    )
    if newer_run:
        with pytest.raises(Fenced, match="written by a newer batch"):
            write(lines, target, newer_run=True)
        return
    result = write(lines, target)
    assert (result.foreign_edits.count, result.foreign_edits.ids) == (1, ["k7"])
    assert result.upserted + result.already_applied == 4_999
    assert read_documents(clean_indices, index.name)["k7"] == (1800000000000, {"v": -1})


def test_a_batch_that_is_refused_for_the_most_part_removes_nothing(
    spark: SparkSession, clean_indices: str, index: PhysicalIndex
) -> None:
    """Also when each task has only a part of it, and the rows are refused in many requests."""
    count = 2_000
    write(make_documents(spark, count, 1), sink.make_target(clean_indices))
    before = read_documents(clean_indices, index.name)
    bad = make_documents(spark, count, 2, "u").selectExpr(
        'cast(replace(cast(line as string), \'"v":\', \'"v":"x\') as binary) as line', "expect"
    )
    target = sink.make_target(clean_indices, 2, max_bytes=4_000)
    with pytest.raises(TargetInvalid, match=r"refused 2000 of 2000 .* \(mapper_parsing_exc"):
        write(bad.repartition(4), target)
    assert read_documents(clean_indices, index.name) == before
    # The share counts, not the number alone.
    mixed = make_documents(spark, count, 3, "u").union(
        make_documents(spark, 150, 3).selectExpr(
            "cast(replace(replace(cast(line as string), '\"v\":', '\"v\":\"x'), 'k', 'bad') "
            "as binary) as line",
            "expect",
            "more",
        )
    )
    result = write(mixed, sink.make_target(clean_indices, 3))
    assert (result.upserted, result.dead_letters, result.dead_letters_total) == (count, 150, 150)
