"""Stop a run at a point to kill it there, and check what must hold afterwards.

A point is one request of the protocol, recognised by its content; so a kill hits the same step
however fast the machine is. It must not know processes.
"""

import itertools
import re
import urllib.error
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict

from pyspark.sql import SparkSession

from icdc_testing.lake.lake import CATALOG, COPY_ON_WRITE, MERGE_ON_READ
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Hold
from icdc_testing.runs import shaped_rows
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import wait_until

VERSIONS_PER_ORDINAL = 1 << 20
BULK_BYTES = 65536
"""The smallest that a pipeline may ask for: a batch of some hundred rows is several requests."""


class BatchKind(StrEnum):
    """The kind of a batch."""

    EXPORT = "export"
    COPY_ON_WRITE = "copy-on-write changelog"
    MERGE_ON_READ = "merge-on-read changelog"


class KillPoint(StrEnum):
    """A point in a batch."""

    BEFORE_INTENT = "before the intent"
    AFTER_INTENT = "after the intent, unanswered"
    SOME_BULK = "before a bulk request in the middle"
    SOME_BULK_LOST = "after a bulk request in the middle, unanswered"
    ALL_BULK = "after all bulk requests, nothing recorded"
    FIRST_CHUNKS = "after the first chunks were recorded"
    BEFORE_SWAPPING = "before the alias move is announced"
    BEFORE_ALIAS = "before the alias moves"
    AFTER_ALIAS = "after the alias moved, unanswered"
    AFTER_ADVANCE = "after the state advanced, unanswered"

    @property
    def in_a_task(self) -> bool:
        """True if a Python worker is writing: its task holds a core of Spark."""
        return self in (KillPoint.SOME_BULK, KillPoint.SOME_BULK_LOST)


@dataclass(frozen=True)
class AwaitedBatch:
    """The next new batch of an alias."""

    kind: BatchKind
    alias: str
    head: int
    """The snapshot that the batch ends at."""
    ordinal: int
    """The number of the batch."""


class RequestRule(TypedDict):
    """The requests that a rule of the proxy applies to, as regular expressions."""

    path: str
    method: str
    body: str


def match_requests(batch: AwaitedBatch, step: KillPoint) -> RequestRule:
    """Return the requests of the step."""
    if step.in_a_task:
        version = f'"version":{batch.ordinal * VERSIONS_PER_ORDINAL}\\b'
        return RequestRule(
            path=rf"^/{re.escape(batch.alias)}-\d+/_bulk", method="POST", body=version
        )
    if step in (KillPoint.BEFORE_ALIAS, KillPoint.AFTER_ALIAS):
        moved = f'"add":.*"{re.escape(batch.alias)}"'
        return RequestRule(path="^/_aliases", method="POST", body=moved)
    path = rf"^/icdc-state/_doc/{re.escape(batch.alias)}\b"
    return RequestRule(path=path, method="PUT", body=_match_record(batch, step))


def hold(proxy: FaultProxy, batch: AwaitedBatch, step: KillPoint, *, skip: int = 0) -> Hold:
    """Stop the batch at the step; `skip` lets so many of its bulk requests pass."""
    return proxy.hold(**match_requests(batch, step), after=step in _APPLIED, skip=skip)


_APPLIED = frozenset(
    {
        KillPoint.AFTER_INTENT,
        KillPoint.SOME_BULK_LOST,
        KillPoint.FIRST_CHUNKS,
        KillPoint.AFTER_ALIAS,
        KillPoint.AFTER_ADVANCE,
    }
)
_FIRST_RECORD = '"phase":"Writing","chunksTotal":[0-9]+,"cut":[^}]*"chunksDone":0'


def _match_record(batch: AwaitedBatch, step: KillPoint) -> str:
    """Return the state document that is stored at the step, as a regular expression."""
    kind = "Export" if batch.kind is BatchKind.EXPORT else "Changelog"
    open_intent = rf'"intent":\{{"kind":"{kind}","from":[^,]+,"to":"{batch.head}",[^}}]*'
    match step:
        case KillPoint.BEFORE_INTENT | KillPoint.AFTER_INTENT:
            return open_intent + _FIRST_RECORD
        case KillPoint.ALL_BULK if batch.kind is not BatchKind.EXPORT:
            return _match_advanced(batch)
        case KillPoint.ALL_BULK | KillPoint.FIRST_CHUNKS:
            return open_intent + '"phase":"Writing",[^}]*"chunksDone":[1-9]'
        case KillPoint.BEFORE_SWAPPING:
            return open_intent + '"phase":"Swapping"'
        case KillPoint.AFTER_ADVANCE:
            return _match_advanced(batch)
    raise AssertionError(f"{step} is not a state of the document")


def _match_advanced(batch: AwaitedBatch) -> str:
    return rf'"applied":\{{"snapshotId":"{batch.head}".*"ordinal":{batch.ordinal}\}},"intent":null'


@dataclass(frozen=True)
class Plot:
    """One table with an index of its own, whose content changes from batch to batch."""

    spark: SparkSession
    url: str
    name: str
    mode: str
    rows: int = 1600
    is_shaped: bool = False
    """Whether `shaped_rows` says what its documents are, and where they lie."""

    @property
    def alias(self) -> str:
        """The alias that follows the table."""
        return self.name

    @property
    def table(self) -> str:
        """The table's full name."""
        return f"{CATALOG}.kills.{self.name}"

    @property
    def entry(self) -> dict[str, Any]:
        """The table's entry in the pipeline."""
        shape = shaped_rows.ENTRY if self.is_shaped else {}
        entry = {"name": f"kills.{self.name}", "identifierColumns": ["id"], "index": self.alias}
        return {**entry, **shape}

    def create(self) -> "Plot":
        """Create the table, with its first rows in one file."""
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.kills")
        modes = ", ".join(f"'write.{verb}.mode'='{self.mode}'" for verb in ("update", "delete"))
        self.spark.sql(
            f"CREATE TABLE {self.table} (id INT, turn INT, pad STRING) USING iceberg "
            f"TBLPROPERTIES ('format-version'='2', 'write.distribution-mode'='none', {modes})"
        )
        self.append(0, self.rows)
        return self

    def append(self, first: int, count: int, *, files: int = 1, hashes: int = 2) -> None:
        """Append rows; `hashes` hashes of 128 characters make a row large."""
        pad = f"array_join(transform(sequence(1, {hashes}), j -> sha2(concat(id, j), 512)), '')"
        rows = self.spark.range(first, first + count, 1, files)
        frame = rows.selectExpr("cast(id as int) id", "0 turn").selectExpr("*", f"{pad} pad")
        frame.writeTo(self.table).append()

    def change(self, turn: int) -> None:
        """Update half of the rows, delete some, append some; every turn changes other rows."""
        self.spark.sql(f"UPDATE {self.table} SET turn = {turn} WHERE (id + {turn}) % 2 = 0")
        self.spark.sql(f"DELETE FROM {self.table} WHERE id % 23 = {turn % 23}")
        self.append(100_000 * turn, 40)

    def read_head(self) -> int:
        """Return the current snapshot."""
        query = f"SELECT snapshot_id FROM {self.table}.refs WHERE name = 'main'"
        return int(self.spark.sql(query).collect()[0][0])

    def read_state(self) -> dict[str, Any]:
        """Return the state document; empty if there is none."""
        try:
            answer = oracle.request(f"{self.url}/icdc-state/_doc/{self.alias}")
        except urllib.error.HTTPError as error:
            error.close()
            # 503: the index of the state documents was created a moment ago.
            if error.code not in (404, 503):
                raise
            return {}
        source: dict[str, Any] = answer["_source"]
        return source

    def predict_batch(self, kind: BatchKind) -> AwaitedBatch:
        """Return the batch that a run begins once it has repeated an open one."""
        return AwaitedBatch(
            kind, self.alias, self.read_head(), int(self.read_state().get("lastOrdinal", 0)) + 1
        )

    def is_applied(self, snapshot_id: int) -> bool:
        """Return whether the state document says so, without an open batch."""
        state = self.read_state()
        applied = (state.get("applied") or {}).get("snapshotId")
        return applied == str(snapshot_id) and state.get("intent") is None

    def check(self, snapshot_id: int | None = None) -> None:
        """Assert that the index equals the table, by the oracle."""
        wanted = oracle.read_expected(self.spark, self.table, ["id"], snapshot_id=snapshot_id)
        if self.is_shaped:
            wanted = shaped_rows.shape(wanted)
        oracle.assert_equal(oracle.read_index(self.url, self.alias), wanted)


def create_plot(
    spark: SparkSession, url: str, kind: BatchKind, name: str, *, rows: int = 1600
) -> Plot:
    """Create a table for batches of that kind: shaped where it is merge-on-read, or every other
    one of exports."""
    mode, number = (
        MERGE_ON_READ if kind is BatchKind.MERGE_ON_READ else COPY_ON_WRITE,
        next(_NUMBERS),
    )
    is_shaped = kind is not BatchKind.COPY_ON_WRITE and (mode == MERGE_ON_READ or number % 2 == 0)
    return Plot(spark, url, f"{name}{number}", mode, rows, is_shaped).create()


_NUMBERS = itertools.count(1)


def end_holds(proxy: FaultProxy, holds: list[Hold], *, late: bool) -> None:
    """End held requests: for good, or to arrive `late`, after their sender has died.

    Returns when the proxy is done with them, so that the next read of the index sees the effect.
    """
    done = len(_list_held_requests(proxy))
    for held in holds:
        held.release() if late else held.drop()
    expected = done + len(holds)
    wait_until(lambda: len(_list_held_requests(proxy)) >= expected, "held requests are done with")


def _list_held_requests(proxy: FaultProxy) -> list[object]:
    return [seen for seen in proxy.list_requests() if seen.fault == "Hold"]


def assert_written_once(proxy: FaultProxy, url: str, plots: Iterable[Plot]) -> int:
    """Assert that no version of a document had two contents, and that the newest remains.

    Returns how many operations were sent more than once.
    """
    repeated = 0
    for plot in plots:
        newest: dict[tuple[str, str], int] = {}
        contents: dict[tuple[str, str, int], tuple[str, str]] = {}
        for write in proxy.list_writes():
            if not re.fullmatch(re.escape(plot.alias) + r"-\d{6}", write.index):
                continue
            assert write.version is not None, f"a write without a version: {write}"
            key, content = (write.index, write.id, write.version), (write.op, write.digest)
            repeated += key in contents
            before = contents.setdefault(key, content)
            assert before == content, f"{key} was written as {before} and as {content}"
            newest[key[:2]] = max(newest.get(key[:2], 0), write.version)
        for hit in oracle.read_hits(url, plot.alias):
            wanted = newest[hit["_index"], hit["_id"]]
            assert hit["_version"] == wanted, f"{hit['_id']}: {hit['_version']}, not {wanted}"
            assert contents[hit["_index"], hit["_id"], wanted][0] == "index", hit["_id"]
    return repeated


@dataclass(frozen=True)
class Kill:
    """One SIGKILL that was sent, for the list at the end of the test run."""

    seed: int
    victim: str
    points: tuple[str, ...]

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.victim} at {'; '.join(self.points)}"


class KillList:
    """Record the kills of one test; `record` takes them as text."""

    def __init__(self, record: Callable[[str], object]) -> None:
        self._record = record

    def add(self, seed: int, victim: str, *points: tuple[BatchKind, KillPoint]) -> Kill:
        """Record a kill, and the batches that it hit."""
        kill = Kill(seed, victim, tuple(f"{kind} {step}" for kind, step in points))
        self._record(str(kill))
        return kill
