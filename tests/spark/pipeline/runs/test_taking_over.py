"""A run that takes over from another one: nothing is written while an older request may arrive."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import TargetUnavailable
from icdc_api.spec.pipeline import Pipeline
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.iceberg.jvm import session as sessions
from icdc_spark.opensearch.bulk.target import OWNER_SECONDS
from icdc_spark.opensearch.client import tasks
from icdc_spark.opensearch.client.connection import from_spec
from icdc_spark.opensearch.client.tasks import build_opaque_id
from icdc_spark.opensearch.stores.state_store import StateStore
from icdc_spark.protocol.steps import StepKind
from icdc_spark.replication.context import TableContext
from icdc_spark.replication.table_run import TableRun
from icdc_spark.reporting.reporter import Reporter
from icdc_testing.lake.lake import Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Reset, RewrittenAnswer, Status
from icdc_testing.runs.harness import Harness
from icdc_testing.target import oracle

pytestmark = pytest.mark.spark

ALIAS = "taken"


@pytest.fixture(autouse=True, scope="module")
def quick_waits() -> None:
    """Wait as in production: these tests are about it."""


@pytest.fixture
def harness(spark: SparkSession, lake: Lake, proxy: FaultProxy, tmp_path: Path) -> Harness:
    """A pipeline whose first run has exported its table, and left a change to the next one."""
    table = lake.create("id int, name string")
    lake.sql(f"insert into lake.{table} values (1, 'a'), (2, 'b')")
    entry = {"name": table, "identifierColumns": ["id"], "index": ALIAS}
    made = Harness(spark, proxy.url, tmp_path, [entry])
    made.sync()
    lake.sql(f"delete from lake.{table} where id = 2")
    return made


@pytest.fixture
def batch_under_way(harness: Harness, proxy: FaultProxy) -> None:
    """A run has recorded its batch and written none of it."""
    proxy.add(Status(403, kind="cluster_block_exception"), path="_bulk")
    assert harness.run_to_stall().reason == "TargetReadOnly"


@pytest.fixture
def context(spark: SparkSession, harness: Harness) -> Iterator[TableContext]:
    """The table of the next run, in a process that does not ask long."""
    request = harness.make_request(continuous=True)
    spec = Pipeline.model_validate(harness.resource).spec
    (table,) = spec.tables
    catalog = spec.get_catalog(table)
    connection = from_spec(spec.sink.opensearch, None)
    store = StateStore(connection)
    status = TableStatus(name=table.name, index=table.index_name)
    made = TableContext(
        request=request,
        spec=spec,
        table=table,
        connection=connection,
        store=store,
        open_session=lambda: sessions.open_table_session(spark, catalog.name, catalog.properties),
        reporter=Reporter(request, [status]).get_table_reporter(table.name),
        stop=threading.Event(),
    )
    made.client.patience = 0.1
    yield made
    made.close()
    store.close()


def test_a_run_whose_first_wait_failed_waits_again_before_it_writes(
    harness: Harness, context: TableContext, proxy: FaultProxy, clean_indices: str
) -> None:
    """As a continuous run goes on after a passing fault: the same process, the table begun anew."""
    proxy.clear()
    unavailable = proxy.add(Status(503), path="_tasks", times=None)
    with pytest.raises(TargetUnavailable):
        TableRun(context).advance()
    stored = context.store.load(ALIAS)
    assert stored is not None
    assert stored.document.owner == context.owner, "the claim is stored before the wait"
    unavailable.times = unavailable.hits
    older = {
        "n:1": {"headers": {"X-Opaque-Id": build_opaque_id(ALIAS, context.request.epoch - 1, 1)}}
    }
    busy = json.dumps({"nodes": {"n": {"tasks": older}}}).encode()
    late = proxy.add(Status(200, body=busy), path="_tasks", times=3)
    assert TableRun(context).advance() is StepKind.CHANGELOG
    asked = [seen.target for seen in proxy.list_requests()]
    waited = max(n for n, target in enumerate(asked) if "_tasks" in target)
    written = min(n for n, target in enumerate(asked) if "_bulk" in target)
    assert (late.hits, waited < written) == (3, True)
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1"}


def test_a_process_waits_once(context: TableContext, proxy: FaultProxy) -> None:
    TableRun(context).advance()
    proxy.clear()
    TableRun(context).advance()
    assert proxy.list_requests("_tasks") == []


def test_a_run_that_finds_a_batch_under_way_waits_until_its_tasks_have_asked_who_owns_the_index(
    batch_under_way: None, context: TableContext, proxy: FaultProxy, clean_indices: str
) -> None:
    asked: list[float] = []

    def note(answer: dict[str, Any]) -> dict[str, Any]:
        asked.append(time.monotonic())
        return answer

    # From question to question: all else that a step does takes as long on a busy host.
    proxy.add(RewrittenAnswer(note), path="_tasks", times=None)
    assert TableRun(context).advance() is StepKind.REPLAY
    assert asked[-1] - asked[0] > OWNER_SECONDS
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1"}


def test_a_node_that_leaves_between_a_failed_step_and_its_repetition_is_remembered(
    context: TableContext, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is written, and then nobody knows where the primaries were when the batch began."""

    def add_another(answer: dict[str, Any]) -> dict[str, Any]:
        another = {"left": {"jvm": {"start_time_in_millis": 7}}}
        return answer | {"nodes": answer["nodes"] | another}

    monkeypatch.setattr(tasks, "ABSENT_SECONDS", 0.5)
    proxy.add(RewrittenAnswer(add_another), path="/_nodes/")
    unavailable = proxy.add(Status(503), path="_stats", skip=1, times=None)
    with pytest.raises(TargetUnavailable):
        TableRun(context).advance()
    unavailable.times = unavailable.hits
    # As after a minute of failures.
    context.nodes.listed_at = None
    assert TableRun(context).advance() is StepKind.REPLAY
    stored = context.store.load(ALIAS)
    assert stored is not None
    left = [(absent.node, absent.process) for absent in stored.document.absent_nodes]
    assert (stored.document.intent, left) == (None, [("left", 7)])


def test_a_batch_of_which_an_answer_was_lost_is_recorded_when_its_requests_have_ended(
    context: TableContext, proxy: FaultProxy, clean_indices: str
) -> None:
    lost = proxy.add(Reset(after=True), path="_bulk")
    assert TableRun(context).advance() is StepKind.CHANGELOG
    asked = [seen.target for seen in proxy.list_requests()]
    written = max(n for n, target in enumerate(asked) if "_bulk" in target)
    waited = max(n for n, target in enumerate(asked) if "_tasks" in target)
    recorded = max(n for n, target in enumerate(asked) if "if_seq_no" in target)
    assert (lost.hits, written < waited < recorded) == (1, True)
    assert set(oracle.read_index(clean_indices, ALIAS)) == {"1"}
