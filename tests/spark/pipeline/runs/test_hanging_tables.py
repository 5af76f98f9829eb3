"""Tables that hang in the middle of a step: they are cancelled and say so, and the others go on."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.job.run_files import RunReport
from icdc_api.status.pipeline_status import TableStatus
from icdc_spark.process.pipeline_run import PipelineRun, RunResult
from icdc_spark.process.step_watch import StepWatch
from icdc_testing.lake.damage import silence_file
from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.lake import Lake
from icdc_testing.lake.schemas import create_with_time
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Hang
from icdc_testing.runs.harness import Harness
from icdc_testing.target.node_calls import call, read_documents
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.spark

SECONDS = 4.0
"""How long a step may do nothing here."""
JOB = r"Spark job \d+, 0 of 1 tasks ended. The step is cancelled and retried; nothing is lost"
NO_JOB = r"outside of Spark jobs. The step is retried as soon as it ends; nothing is lost"


@pytest.fixture(autouse=True, scope="module")
def quick_waits() -> None:
    """Nothing: requests are abandoned here."""


@dataclass(frozen=True)
class Tables:
    """Two tables, each of one row, and the OpenSearch that they are followed into."""

    spark: SparkSession
    lake: Lake
    proxy: FaultProxy
    folder: Path
    hung: str
    """The one that hangs. Python reads it, because of its type: a process that waits for a file
    can be killed, where a thread of the JVM would go on waiting."""
    fine: str
    """The other one."""

    def append(self, table: str, key: int) -> None:
        """Append a row."""
        writer = JavaWriter(self.lake.load_table(table))
        writer.append([{"id": key, "t": writer.parse_value("time", "10:00")}])

    def list_indexed(self, index: str) -> set[str]:
        """Return the ids of the documents in an index."""
        name, url = f"{index}-000001", self.proxy.upstream
        return (
            set(read_documents(url, name)) if call(url, "HEAD", f"/{name}").status == 200 else set()
        )


@pytest.fixture
def tables(spark: SparkSession, lake: Lake, proxy: FaultProxy, tmp_path: Path) -> Tables:
    made = Tables(
        spark, lake, proxy, tmp_path, create_with_time(lake, {}), create_with_time(lake, {})
    )
    made.append(made.hung, 1)
    made.append(made.fine, 1)
    return made


@contextmanager
def silence_index(tables: Tables) -> Iterator[None]:
    """OpenSearch takes the bulk requests for one index, and answers none."""
    rule = tables.proxy.add(Hang(after=False), path="/hung-000001/_bulk", times=None)
    yield
    assert rule.hits > 0
    tables.proxy.clear()


def silence_data(tables: Tables) -> AbstractContextManager[None]:
    """Let a task open the data file of a table, from which nothing comes."""
    java = tables.lake.load_table(tables.hung).java
    tasks = java.newScan().planFiles()
    try:
        return silence_file(str(tasks.iterator().next().file().location()))
    finally:
        tasks.close()


def silence_manifest(tables: Tables) -> AbstractContextManager[None]:
    """Let the driver open the manifest of a table, from which nothing comes."""
    java = tables.lake.load_table(tables.hung).java
    return silence_file(str(java.currentSnapshot().allManifests(java.io()).get(0).path()))


class Run:
    """A run of both tables, in a thread of its own."""

    def __init__(self, tables: Tables, pool: ThreadPoolExecutor, *, continuous: bool) -> None:
        entries = [{"name": tables.hung, "index": "hung"}, {"name": tables.fine, "index": "fine"}]
        described = [{**entry, "identifierColumns": ["id"]} for entry in entries]
        harness = Harness(tables.spark, tables.proxy.url, tables.folder, described)
        request, self.stop = harness.make_request(continuous=continuous), threading.Event()
        self._report = Path(request.report_path)
        self._ending: Future[RunResult] = pool.submit(
            PipelineRun(
                request, tables.spark, self.stop, progress_seconds=SECONDS, recheck_seconds=1.0
            ).run
        )

    def read_statuses(self) -> list[TableStatus]:
        """Return the entries of the hung table and of the other one."""
        return list(RunReport.read(self._report).tables) if self._report.exists() else []

    def list_open_sessions(self) -> tuple[str, ...]:
        """Return the names of the tables that have a session open."""
        return RunReport.read(self._report).open_sessions

    def wait_for_report(self, message: str) -> None:
        """Wait until the hung table is reported as such, with a message of that form.

        On a busy host a step may take that long before it comes to what hangs: it is tried again.
        """
        reported: set[str] = set()

        def is_reported() -> bool:
            hung = self.read_statuses()[:1]
            reported.update(str(table.message) for table in hung if table.reason == "NoProgress")
            return any(re.search(message, text) for text in reported)

        try:
            wait_until(is_reported, "the hung table is reported")
        except AssertionError as error:
            raise AssertionError(f"{error}: {sorted(reported)}") from error

    def wait_for_end(self) -> RunResult:
        """Return the end of the run, which must come soon."""
        return self._ending.result(WAIT_SECONDS)


@contextmanager
def start_run(tables: Tables, *, continuous: bool = True) -> Iterator[Run]:
    """Start a run that is asked to stop at the end."""
    with ThreadPoolExecutor(1) as pool:
        run = Run(tables, pool, continuous=continuous)
        try:
            yield run
        finally:
            run.stop.set()


Fault = Callable[[Tables], AbstractContextManager[None]]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("fault", "words"),
    [(silence_index, JOB), (silence_data, JOB), (silence_manifest, NO_JOB)],
    ids=["sink", "reader", "planning"],
)
def test_a_hung_table_says_so_and_catches_up_when_the_fault_ends_and_the_other_goes_on(
    tables: Tables, fault: Fault, words: str
) -> None:
    faults = ExitStack()
    faults.enter_context(fault(tables))
    with faults, start_run(tables) as run:
        run.wait_for_report(rf"^{tables.hung}: no progress since 20\S+Z: {words}")
        tables.append(tables.fine, 2)
        wait_until(lambda: tables.list_indexed("fine") == {"1", "2"}, "the other table is followed")
        faults.close()
        wait_until(lambda: tables.list_indexed("hung") == {"1"}, "the hung table is exported")
        tables.append(tables.hung, 2)
        wait_until(lambda: tables.list_indexed("hung") == {"1", "2"}, "the hung table is followed")
        wait_until(
            lambda: {t.reason for t in run.read_statuses()} == {None}, "nothing is wrong any more"
        )
        assert run.list_open_sessions() == (tables.hung, tables.fine)
        run.stop.set()
        assert run.wait_for_end().outcome is None


@pytest.mark.sampled
@pytest.mark.parametrize("fault", [silence_index, silence_manifest], ids=["sink", "planning"])
def test_neither_the_end_of_a_run_nor_a_stop_waits_for_a_hung_table(
    tables: Tables, fault: Fault
) -> None:
    with fault(tables):
        with start_run(tables, continuous=False) as run:
            outcome = run.wait_for_end().outcome
            assert type(outcome).__name__ == "NoProgress", outcome
            assert tables.fine not in run.list_open_sessions()
        with start_run(tables) as run:
            wait_until(lambda: tables.list_indexed("fine") == {"1"}, "the other table is exported")
            run.stop.set()
            assert run.wait_for_end().outcome is None


def test_a_backlog_that_is_cut_into_batches_makes_progress_with_each_plan(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [{"name": tables.fine, "index": "fine", "identifierColumns": ["id"]}]
    changelog = {"maxBytesPerBatch": 1}
    harness = Harness(tables.spark, tables.proxy.url, tables.folder, entries, changelog=changelog)
    harness.sync()
    for key in range(2, 10):
        tables.append(tables.fine, key)
    noted: list[str] = []
    note = StepWatch.note

    def note_counted(watch: StepWatch, table: str) -> None:
        noted.append(table)
        note(watch, table)

    monkeypatch.setattr(StepWatch, "note", note_counted)
    assert harness.run().outcome is None
    # Of the first batch alone: one for all, and three to cut it.
    assert len(noted) >= 4
    assert tables.list_indexed("fine") == set(map(str, range(1, 10)))
