"""Tables of one application of which some misbehave: what is written for the others, and when.

Every table has two snapshots. An application exports the first one of each; then the second ones
become current, with the faults or without, and the application follows. As this goes back and forth
without a commit, each application meets the same rows, and must write the same documents with the
same versions.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icdc_api.job.run_files import RunReport
from icdc_api.status.table_parts import LastBatch
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.lake.java.writers import JavaWriter
from icdc_testing.lake.lake import Lake
from icdc_testing.lake.schemas import create_with_time
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.misbehaving import FAULTS, HANG, REMOVED, SCHEMA, MisbehavingTable
from icdc_testing.target import node_calls
from icdc_testing.waiting.wait import wait_until

_SECONDS = 300.0
"""How long a state is waited for."""
_FEW = 20
"""Rows of a table that is written one by one."""


@dataclass(frozen=True)
class SideTable:
    """One table with its two snapshots."""

    name: str
    index: str
    first: int
    second: int


@dataclass(frozen=True, kw_only=True)
class Played:
    """What one application did."""

    documents: Counter[tuple[str, str, str, int | None, str]]
    """Writes for the healthy tables: index, operation, id, version, and the digest of the
    document."""
    document_bytes: int
    """Bytes of these documents."""
    reported: dict[str, tuple[int, int, int]]
    """For each healthy table, by its index: documents, deletes and bytes sent, as its status
    reports them of the last batch."""
    seconds: float
    """From the moment at which the last table had its second snapshot until all healthy ones had
    it applied."""
    reasons: dict[str, set[str]]
    """For each table that may misbehave, by the way: the reasons that its status gave."""


class SideBySide:
    """Healthy tables and one for each way to misbehave, in the catalog of a session."""

    def __init__(
        self,
        lake: Lake,
        proxy: FaultProxy,
        folder: Path,
        *,
        healthy: int,
        faults: Sequence[str],
        rows: int,
        progress_seconds: float,
        slow_seconds: float,
    ) -> None:
        """`rows` are those that the second snapshot adds to a table.

        A step without progress is cancelled after `progress_seconds`; the slow index takes
        `slow_seconds` for each request.
        """
        self._lake, self._proxy, self._folder = lake, proxy, folder
        self._rows, self._faults = rows, faults
        self._progress_seconds, self._slow_seconds = progress_seconds, slow_seconds
        self._healthy = [self._make(f"healthy-{number}") for number in range(healthy)]
        self._victims = {fault: self._make_victim(fault) for fault in faults}

    def play(self, *, faults: bool) -> Played:
        """Let an application export and follow all tables, with the faults or without."""
        node_calls.clean_indices(self._proxy.upstream)
        self._proxy.clear()
        victims = [*self._victims.values()]
        for table in (*self._healthy, *victims):
            self._set_current(table, table.first)
        with _ContinuousRun(self, [*victims, *self._healthy]) as application, ExitStack() as begun:
            self._await_applied([*victims, *self._healthy], second=False)
            self._proxy.clear()
            self._advance(begun, self._faults if faults else ())
            since = time.monotonic()
            if faults and REMOVED in self._victims:
                self._await_first_write()
                application.replace_without(self._victims[REMOVED])
            self._await_applied(self._healthy, second=True)
            seconds = time.monotonic() - since
            stalled = [f for f in self._faults if faults and FAULTS[f].reason]
            wait_until(lambda: self._are_met(application, stalled), "all are met", seconds=_SECONDS)
            apart = {*stalled, REMOVED} if faults else set()
            follows = [t for fault, t in self._victims.items() if fault not in apart]
            self._await_applied(follows, second=True)
            reasons = {fault: application.reasons[t.name] for fault, t in self._victims.items()}
        reported = application.read_last_batches({table.index for table in self._healthy})
        if faults and SCHEMA in self._victims:
            self._victims[SCHEMA] = self._make_victim(SCHEMA)
        indices = [f"{table.index}-000001" for table in self._healthy]
        writes = [write for index in indices for write in self._proxy.list_writes(index)]
        return Played(
            documents=Counter((w.index, w.op, w.id, w.version, w.digest) for w in writes),
            document_bytes=sum(len(write.source) for write in writes),
            reported=reported,
            seconds=seconds,
            reasons=reasons,
        )

    def _make_victim(self, fault: str) -> SideTable:
        index = fault.replace(" ", "-")
        if fault != HANG:
            return self._make(index)
        # Python reads it, because of its type: a process that waits for a file can be killed, where
        # a thread of the JVM would go on waiting.
        name = create_with_time(self._lake, {})
        heads = []
        for start in (0, _FEW):
            writer = JavaWriter(self._lake.load_table(name))
            at = writer.parse_value("time", "10:00")
            writer.append([{"id": start + number, "t": at} for number in range(_FEW)])
            heads.append(self._lake.read_head(name))
        return SideTable(name, index, *heads)

    def _make(self, index: str) -> SideTable:
        """Return a table whose second snapshot deletes, updates and adds rows."""
        name = self._lake.create("id bigint, name string, price double")
        full = f"{self._lake.catalog}.{name}"
        made = "select id, concat('name of ', id) as name, id * 1.5D as price"
        base = max(10, self._rows // 10)
        self._lake.sql(f"insert into {full} {made} from range(0, {base}, 1, 1)")
        first = self._lake.read_head(name)
        self._lake.sql(
            f"merge into {full} t using ({made} from range(0, {base + self._rows}, 1, 1)) s "
            "on t.id = s.id when matched and t.id % 10 = 0 then delete "
            "when matched then update set price = -1D when not matched then insert *"
        )
        return SideTable(name, index, first, self._lake.read_head(name))

    def _set_current(self, table: SideTable, snapshot: int) -> None:
        java = self._lake.load_table(table.name).java
        java.manageSnapshots().setCurrentSnapshot(snapshot).commit()

    def _advance(self, begun: ExitStack, faults: Collection[str]) -> None:
        """Make the second snapshots current, those of tables that misbehave first."""
        for fault, table in self._victims.items():
            if fault in faults:
                begun.enter_context(FAULTS[fault].begin(self._describe_victim(table)))
            # One that changes its schema has advanced by that.
            if self._lake.read_head(table.name) == table.first:
                self._set_current(table, table.second)
        for table in self._healthy:
            self._set_current(table, table.second)

    def _describe_victim(self, table: SideTable) -> MisbehavingTable:
        return MisbehavingTable(
            lake=self._lake,
            proxy=self._proxy,
            table=table.name,
            index=table.index,
            snapshot=table.second,
            slow_seconds=self._slow_seconds,
        )

    def _await_first_write(self) -> None:
        def has_written() -> bool:
            return any(self._proxy.list_writes(f"{table.index}-000001") for table in self._healthy)

        wait_until(has_written, "a healthy table is written", seconds=_SECONDS)

    def _await_applied(self, tables: Sequence[SideTable], *, second: bool) -> None:
        wanted = {t.index: str(t.second if second else t.first) for t in tables}

        def are_applied() -> bool:
            answer = node_calls.call(
                self._proxy.upstream, "POST", "/icdc-state/_mget", {"ids": [*wanted]}
            ).json
            stored: Any = answer.get("docs", [])
            states = {one["_id"]: one.get("_source", {}).get("applied") for one in stored}
            return all(
                str((states.get(index) or {}).get("snapshotId")) == snapshot
                for index, snapshot in wanted.items()
            )

        wait_until(are_applied, f"applied: {sorted(wanted)}", seconds=_SECONDS)

    def _are_met(self, application: "_ContinuousRun", faults: Sequence[str]) -> bool:
        application.read()
        met = application.reasons
        return all(FAULTS[f].reason in met[self._victims[f].name] for f in faults)


class _ContinuousRun:
    """A context manager: a continuous run of all tables, one after the other where they change."""

    def __init__(self, site: SideBySide, tables: Sequence[SideTable]) -> None:
        entries = [{"name": t.name, "index": t.index, "identifierColumns": ["id"]} for t in tables]
        self._harness = Harness(
            site._lake.session,
            site._proxy.url,
            site._folder,
            entries,
            changelog={"onIncompatibleSchema": "Stop"},
        )
        self._progress_seconds = site._progress_seconds
        self._pool = ThreadPoolExecutor(1)
        self.reasons: dict[str, set[str]] = {table.name: set() for table in tables}
        """Of each table, by its name: all reasons that were read."""
        self._costs: dict[str, LastBatch] = {}

    def __enter__(self) -> "_ContinuousRun":
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._pool.shutdown()

    def replace_without(self, table: SideTable) -> None:
        """End the run, as the operator does when the spec changes; begin one without the table."""
        self._end()
        spec = self._harness.resource["spec"]
        spec["tables"] = [entry for entry in spec["tables"] if entry["name"] != table.name]
        self._begin()

    def read(self) -> None:
        """Remember what the run reports of its tables now."""
        tables = list(RunReport.read(self._report).tables) if self._report.exists() else []
        for table in tables:
            self.reasons[table.name] |= {str(table.reason)} if table.reason else set()
        # A run says nothing of the batches of the one before.
        self._costs |= {str(t.index): t.last_batch for t in tables if t.last_batch}

    def read_last_batches(self, indices: Collection[str]) -> dict[str, tuple[int, int, int]]:
        """Return documents, deletes and bytes of the last batch into each of these indices.

        The application has ended: its last report is written.
        """
        self.read()
        costs = {index: self._costs[index] for index in indices}
        return {i: (c.upserted, c.deleted, c.request_bytes) for i, c in costs.items()}

    def _begin(self) -> None:
        request, self._stop = self._harness.make_request(continuous=True), threading.Event()
        self._report = Path(request.report_path)
        run = PipelineRun(
            request,
            self._harness.spark,
            self._stop,
            progress_seconds=self._progress_seconds,
            recheck_seconds=1.0,
        )
        self._ending = self._pool.submit(run.run)

    def _end(self) -> None:
        self._stop.set()
        outcome = self._ending.result(_SECONDS).outcome
        self.read()
        assert outcome is None, outcome
