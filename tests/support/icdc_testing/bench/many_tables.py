"""Many small tables that one run follows, and what its processes take of the machine."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from icdc_api.job.run_files import RunReport, RunRequest
from icdc_api.spec.spark import Spark
from icdc_api.status.pipeline_status import TableState
from icdc_cli.embedded.lake import LakeProcess, build_jdbc_catalog
from icdc_cli.local import processes
from icdc_cli.local.application import find_installed
from icdc_cli.local.runs import LocalRuns
from icdc_testing.waiting.jvm import QUERY, SESSION, list_files, read_heap
from icdc_testing.waiting.process_cpu import sum_cpu_seconds
from icdc_testing.waiting.processes import read_command, read_name
from icdc_testing.waiting.wait import wait_until

MB = 1 << 20
RUN = "run-1"
CAUGHT_UP_SECONDS = 1800.0
"""Until all tables must be caught up."""


def make_tables(folder: Path, count: int, *, rows: int) -> dict[str, str]:
    """Create `shop.t0` and so on in a JDBC catalog (SQLite); return the catalog's properties."""
    (folder / "warehouse").mkdir(parents=True)
    properties = build_jdbc_catalog(folder / "catalog.db", folder / "warehouse")
    with LakeProcess(properties, folder=folder) as lake:
        lake.run_sql("create namespace lake.shop")
        for number in range(count):
            lake.run_sql(
                f"create table lake.shop.t{number} using iceberg as "
                f"select id, concat('name ', id) as name from range(0, {rows}, 1, 1)"
            )
    return properties


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What the processes of a run take at one moment."""

    processes: int
    """Live processes: the driver's Python, its JVM, pyspark's daemon and the workers."""
    driver_mb: float
    """Resident set of the driver's Python."""
    driver_peak_mb: float
    """The most that it was until now."""
    jvm_mb: float
    """Resident set of the JVM, which is driver and executor in a local run."""
    jvm_peak_mb: float
    """The most that it was until now."""
    heap_mb: float
    """Live objects in the JVM after a full collection."""
    sessions: int
    """Sessions of Spark among them."""
    queries: int
    """Queries that Spark remembers, among them."""
    workers_mb: float
    """Proportional set of daemon and workers: pages that they share count once."""
    threads: int
    """Of all processes."""
    files: int
    """Open files and sockets of driver and JVM."""


class FollowedTables:
    """A context manager around one Continuous run over tables of a catalog."""

    def __init__(
        self,
        folder: Path,
        url: str,
        catalog: Mapping[str, str],
        count: int,
        *,
        heap: str,
        epoch: int = 1,
        poll_seconds: int = 10,
        entry: Mapping[str, Any] | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        """`entry` is what the spec says of each table, beside its name and key; `conf` of Spark."""
        self._runs = LocalRuns(folder, find_installed())
        self._spark = Spark.model_validate(
            {
                "driver": {"memory": heap},
                "executor": {"instances": 1, "cores": 2},
                "conf": dict(conf or {}),
            }
        )
        self._request = RunRequest(
            run_id=RUN,
            pipeline=_make_pipeline(url, catalog, count, entry or {}),
            owner="default/many",
            epoch=epoch,
            continuous=True,
            poll_seconds=poll_seconds,
            end_with_stdin=True,
            report_path=str(self._runs.build_report_path(RUN)),
        )
        self._folder = folder

    def __enter__(self) -> Self:
        self._runs.create(RUN, self._request, self._spark)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._runs.close()

    def await_session(self) -> None:
        """Return once a table has a session: the JVM has started."""

        def is_open() -> bool:
            path = Path(self._request.report_path)
            return path.exists() and bool(RunReport.read(path).open_sessions)

        wait_until(is_open, "a table has a session", seconds=CAUGHT_UP_SECONDS)

    def catch_up(self) -> tuple[float, float]:
        """Return the seconds until the first table was caught up, and until all were."""
        since, first = time.monotonic(), 0.0

        def count_caught_up() -> int:
            nonlocal first
            try:
                tables = RunReport.read(Path(self._request.report_path)).tables
            except FileNotFoundError:
                return 0
            streaming = [t for t in tables if t.state is TableState.STREAMING]
            done = sum(table.snapshots_behind == 0 for table in streaming)
            first = first or (time.monotonic() - since if done else 0.0)
            return done

        wanted = len(self._request.pipeline["spec"]["tables"])
        wait_until(
            lambda: count_caught_up() == wanted, "all are caught up", seconds=CAUGHT_UP_SECONDS
        )
        return first, time.monotonic() - since

    def measure_idle_cpu(self, seconds: float) -> float:
        """Return the seconds of the processor that all processes use in a minute without work."""
        before, since = sum_cpu_seconds(self.find_driver()), time.monotonic()
        deadline = since + seconds
        wait_until(lambda: time.monotonic() >= deadline, "time passes", seconds=seconds + 10)
        return (sum_cpu_seconds(self.find_driver()) - before) * 60 / (time.monotonic() - since)

    def take(self) -> Taken:
        """Measure the processes as they are now."""
        pids = self._list_pids()
        driver, jvm = self.find_driver(), next(pid for pid in pids if read_name(pid) == "java")
        workers = [pid for pid in pids if pid not in (driver, jvm)]
        heap = read_heap(jvm)
        return Taken(
            processes=len(pids),
            driver_mb=read_number(driver, "status", "VmRSS") / 1024,
            driver_peak_mb=read_number(driver, "status", "VmHWM") / 1024,
            jvm_mb=read_number(jvm, "status", "VmRSS") / 1024,
            jvm_peak_mb=read_number(jvm, "status", "VmHWM") / 1024,
            heap_mb=heap.bytes / MB,
            sessions=heap.objects.get(SESSION, 0),
            queries=heap.objects.get(QUERY, 0),
            workers_mb=sum(read_number(pid, "smaps_rollup", "Pss") for pid in workers) / 1024,
            threads=sum(read_number(pid, "status", "Threads") for pid in pids),
            files=sum(len(list_files(pid)) for pid in (driver, jvm)),
        )

    def _list_pids(self) -> list[int]:
        return processes.list_members(f"{self._folder / RUN}@{self._request.epoch}")

    def find_driver(self) -> int:
        """Return the driver's Python, below which all other processes of the run are."""
        request = str(self._folder / RUN / "request.json")
        return next(pid for pid in self._list_pids() if request in read_command(pid))


def _make_pipeline(
    url: str, catalog: Mapping[str, str], count: int, entry: Mapping[str, Any]
) -> dict[str, Any]:
    tables = [{"name": f"shop.t{n}", "identifierColumns": ["id"], **entry} for n in range(count)]
    # A node takes 1,000 shards by default, and is not what is measured.
    sink = {"hosts": [url], "indexSettings": {"number_of_shards": 1, "number_of_replicas": 0}}
    return {
        "apiVersion": "icebergcdc.dev/v1alpha1",
        "kind": "IcebergCDCPipeline",
        "metadata": {"name": "many"},
        "spec": {
            "catalog": {"name": "lake", "properties": dict(catalog)},
            "tables": tables,
            "sink": {"opensearch": sink},
        },
    }


def read_number(pid: int, file: str, name: str) -> int:
    """Return the number in a line `name: 123` of a file of /proc; 0 of an ended process."""
    try:
        lines = (Path("/proc") / str(pid) / file).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    match = re.search(rf"^{name}:\s+(\d+)", lines, re.MULTILINE)
    return int(match[1]) if match else 0
