"""Where a run can be stopped to be killed, tables to kill it over, and what must hold afterwards.

A point is one request of the protocol, told by what it says; so a kill hits the same step however
fast the machine is. Knows no process.
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
from icdc_testing.target import oracle
from icdc_testing.waiting.wait import until

VERSIONS_PER_ORDINAL = 1 << 20
BULK_BYTES = 65536
"""The smallest that a pipeline may ask for: a batch of some hundred rows is several requests."""


class Kind(StrEnum):
    """What a batch is."""

    EXPORT = "export"
    COPY_ON_WRITE = "copy-on-write changelog"
    MERGE_ON_READ = "merge-on-read changelog"


class Step(StrEnum):
    """Where in a batch."""

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
        """Whether a Python worker is at work: its task holds a slot of Spark."""
        return self in (Step.SOME_BULK, Step.SOME_BULK_LOST)


@dataclass(frozen=True)
class Batch:
    """The next new batch of an alias: which snapshot it goes to, and as which ordinal."""

    kind: Kind
    alias: str
    head: int
    ordinal: int


class Place(TypedDict):
    """Which requests a rule of the proxy is for."""

    path: str
    method: str
    body: str


def place(batch: Batch, step: Step) -> Place:
    """The requests that make the step."""
    if step.in_a_task:
        version = f'"version":{batch.ordinal * VERSIONS_PER_ORDINAL}\\b'
        return Place(path=rf"^/{re.escape(batch.alias)}-\d+/_bulk", method="POST", body=version)
    if step in (Step.BEFORE_ALIAS, Step.AFTER_ALIAS):
        moved = f'"add":.*"{re.escape(batch.alias)}"'
        return Place(path="^/_aliases", method="POST", body=moved)
    path = rf"^/icdc-state/_doc/{re.escape(batch.alias)}\b"
    return Place(path=path, method="PUT", body=_recorded(batch, step))


def hold(proxy: FaultProxy, batch: Batch, step: Step, *, skip: int = 0) -> Hold:
    """Stops the batch at the step; `skip` lets so many of its bulk requests pass."""
    return proxy.hold(**place(batch, step), after=step in _APPLIED, skip=skip)


_APPLIED = frozenset(
    {
        Step.AFTER_INTENT,
        Step.SOME_BULK_LOST,
        Step.FIRST_CHUNKS,
        Step.AFTER_ALIAS,
        Step.AFTER_ADVANCE,
    }
)
_FIRST_RECORD = '"phase":"Writing","chunksTotal":[0-9]+,"chunksDone":0'


def _recorded(batch: Batch, step: Step) -> str:
    """What the state document says that is stored at the step, as a regular expression."""
    kind = "Export" if batch.kind is Kind.EXPORT else "Changelog"
    open_intent = rf'"intent":\{{"kind":"{kind}","from":[^,]+,"to":"{batch.head}",[^}}]*'
    match step:
        case Step.BEFORE_INTENT | Step.AFTER_INTENT:
            return open_intent + _FIRST_RECORD
        case Step.ALL_BULK if batch.kind is not Kind.EXPORT:
            return _advanced(batch)
        case Step.ALL_BULK | Step.FIRST_CHUNKS:
            return open_intent + '"phase":"Writing",[^}]*"chunksDone":[1-9]'
        case Step.BEFORE_SWAPPING:
            return open_intent + '"phase":"Swapping"'
        case Step.AFTER_ADVANCE:
            return _advanced(batch)
    raise AssertionError(f"{step} is not a state of the document")


def _advanced(batch: Batch) -> str:
    return rf'"applied":\{{"snapshotId":"{batch.head}".*"ordinal":{batch.ordinal}\}},"intent":null'


@dataclass(frozen=True)
class Plot:
    """One table with an index of its own, whose content changes from batch to batch."""

    spark: SparkSession
    url: str
    name: str
    mode: str
    rows: int = 1600

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
        return {"name": f"kills.{self.name}", "identifierColumns": ["id"], "index": self.alias}

    def create(self) -> "Plot":
        """Makes the table, with its first rows in one file."""
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.kills")
        modes = ", ".join(f"'write.{verb}.mode'='{self.mode}'" for verb in ("update", "delete"))
        self.spark.sql(
            f"CREATE TABLE {self.table} (id INT, turn INT, pad STRING) USING iceberg "
            f"TBLPROPERTIES ('format-version'='2', 'write.distribution-mode'='none', {modes})"
        )
        self.append(0, self.rows)
        return self

    def append(self, first: int, count: int, *, files: int = 1, hashes: int = 2) -> None:
        """Adds rows; `hashes` hashes of 128 characters make a row large."""
        pad = f"array_join(transform(sequence(1, {hashes}), j -> sha2(concat(id, j), 512)), '')"
        rows = self.spark.range(first, first + count, 1, files)
        frame = rows.selectExpr("cast(id as int) id", "0 turn").selectExpr("*", f"{pad} pad")
        frame.writeTo(self.table).append()

    def change(self, turn: int) -> None:
        """Half of the rows change, some go, some come; every turn touches other rows."""
        self.spark.sql(f"UPDATE {self.table} SET turn = {turn} WHERE (id + {turn}) % 2 = 0")
        self.spark.sql(f"DELETE FROM {self.table} WHERE id % 23 = {turn % 23}")
        self.append(100_000 * turn, 40)

    def head(self) -> int:
        """The current snapshot."""
        query = f"SELECT snapshot_id FROM {self.table}.refs WHERE name = 'main'"
        return int(self.spark.sql(query).collect()[0][0])

    def state(self) -> dict[str, Any]:
        """The state document; empty when there is none."""
        try:
            found = oracle.request(f"{self.url}/icdc-state/_doc/{self.alias}")
        except urllib.error.HTTPError as error:
            error.close()
            # 503: the index of the state documents was created a moment ago.
            if error.code not in (404, 503):
                raise
            return {}
        source: dict[str, Any] = found["_source"]
        return source

    def next_batch(self, kind: Kind) -> Batch:
        """The batch that a run begins once it has repeated what was open."""
        return Batch(kind, self.alias, self.head(), int(self.state().get("lastOrdinal", 0)) + 1)

    def is_applied(self, snapshot_id: int) -> bool:
        """Whether the state document says so, with nothing open."""
        state = self.state()
        applied = (state.get("applied") or {}).get("snapshotId")
        return applied == str(snapshot_id) and state.get("intent") is None

    def check(self, snapshot_id: int | None = None) -> None:
        """The index equals the table, by the oracle."""
        wanted = oracle.expected(self.spark, self.table, ["id"], snapshot_id=snapshot_id)
        oracle.assert_equal(oracle.indexed(self.url, self.alias), wanted)


def plot(spark: SparkSession, url: str, kind: Kind, name: str, *, rows: int = 1600) -> Plot:
    """A new table for batches of that kind."""
    mode = MERGE_ON_READ if kind is Kind.MERGE_ON_READ else COPY_ON_WRITE
    return Plot(spark, url, f"{name}{next(_NUMBERS)}", mode, rows).create()


_NUMBERS = itertools.count(1)


def let_go(proxy: FaultProxy, holds: list[Hold], *, late: bool) -> None:
    """Ends what is held: for good, or to arrive `late`, after its sender has died.

    Returns when the proxy is done with it, so that the next look at the index sees the effect.
    """
    done = len(_held_requests(proxy))
    for each in holds:
        each.release() if late else each.drop()
    expected = done + len(holds)
    until(lambda: len(_held_requests(proxy)) >= expected, "held requests are done with")


def _held_requests(proxy: FaultProxy) -> list[object]:
    return [seen for seen in proxy.requests() if seen.fault == "Hold"]


def assert_written_once(proxy: FaultProxy, url: str, plots: Iterable[Plot]) -> int:
    """No version of a document was sent with two contents, and the newest is what remains.

    Returns how many operations were sent more than once.
    """
    repeated = 0
    for each in plots:
        newest: dict[tuple[str, str], int] = {}
        contents: dict[tuple[str, str, int], tuple[str, str]] = {}
        for write in proxy.writes():
            if not re.fullmatch(re.escape(each.alias) + r"-\d{6}", write.index):
                continue
            assert write.version is not None, f"a write without a version: {write}"
            key, content = (write.index, write.id, write.version), (write.op, write.digest)
            repeated += key in contents
            before = contents.setdefault(key, content)
            assert before == content, f"{key} was written as {before} and as {content}"
            newest[key[:2]] = max(newest.get(key[:2], 0), write.version)
        for hit in oracle.hits(url, each.alias):
            wanted = newest[hit["_index"], hit["_id"]]
            assert hit["_version"] == wanted, f"{hit['_id']}: {hit['_version']}, not {wanted}"
            assert contents[hit["_index"], hit["_id"], wanted][0] == "index", hit["_id"]
    return repeated


@dataclass(frozen=True)
class Kill:
    """One SIGKILL that was sent, for the list at the end of the test run."""

    seed: int
    victim: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.victim} at {'; '.join(self.places)}"


class KillList:
    """Notes the kills of one test; `record` takes each of them as text."""

    def __init__(self, record: Callable[[str], object]) -> None:
        self._record = record

    def add(self, seed: int, victim: str, *places: tuple[Kind, Step]) -> Kill:
        """Notes a kill, and the batches that it hit."""
        made = Kill(seed, victim, tuple(f"{kind} {step}" for kind, step in places))
        self._record(str(made))
        return made
