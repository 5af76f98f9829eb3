"""SIGSTOP of a driver between two of its requests, while another run exports all tables anew.

Where a driver can stop is read off runs that nobody disturbs: after the answer to each request, and
before each request that changes something reaches OpenSearch. At once every table of a run is at a
point of its own. The other run exports each of them once, after which the index that the stopped
one wrote is still there, or twice, after which it is gone. Then the stopped one goes on, believing
that no time has passed. A sample of the points by the seed; all of them where ICDC_SOAK is set.
"""

import itertools
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import FailureClass
from icdc_testing.network.faultproxy import FaultProxy, Seen
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import BULK_BYTES, BatchKind, Plot, create_plot
from icdc_testing.runs.processes import END_SECONDS, ChildRun, ChildRuns
from icdc_testing.target import oracle
from icdc_testing.waiting.seeds import choose_seed
from icdc_testing.waiting.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

SOAK = bool(os.environ.get("ICDC_SOAK"))
AT_ONCE = 6
"""Tables of a run, each at a point of its own."""
ROWS = 400
"""Three bulk requests of the least size."""
_READS = ("GET", "HEAD")


class StoppedWork(StrEnum):
    """What the stopped run was doing to a table."""

    FIRST = "first export"
    AGAIN = "export again"
    CHANGES = "changelog"


@dataclass(frozen=True)
class Point:
    """A request of a table's work, and on which side of it the run stops."""

    work: StoppedWork
    method: str
    path: str
    """Without the query; ALIAS and NUMBER stand for those of the table."""
    nth: int
    """So many requests of that kind come before it."""
    after: bool
    """True if OpenSearch has answered it."""

    def __str__(self) -> str:
        side = "after" if self.after else "before"
        return f"{self.work}, {side} {self.method} {self.path} no. {self.nth + 1}"

    @property
    def in_a_task(self) -> bool:
        """Return whether it keeps a core of Spark from the other tables."""
        return self.path.endswith("_bulk")

    def build_rule(self, alias: str) -> dict[str, Any]:
        """Return what the proxy holds."""
        path = re.escape(self.path).replace("ALIAS", re.escape(alias)).replace("NUMBER", r"\d{6}")
        # The tasks of a slow machine ask for the owner alone, and others more than once.
        match = {"path": rf"^{path}(\?(?!_source_includes)|$)", "method": self.method}
        body = {"body": f'"{alias}"'} if "ALIAS" not in self.path else {}
        return {**match, **body, "skip": self.nth, "after": self.after}


def iterate_points(seen: list[Seen], alias: str, work: StoppedWork) -> Iterator[Point]:
    """Yield every point of an undisturbed run, by what the proxy saw of it."""
    counted: Counter[tuple[str, str]] = Counter()
    for request in seen:
        path = request.target.partition("?")[0]
        of_table = alias in path or (path == "/_aliases" and f'"{alias}"'.encode() in request.body)
        if not of_table or "_source_includes" in request.target:
            continue
        shape = re.sub(r"-\d{6}", "-NUMBER", path.replace(alias, "ALIAS"))
        nth = counted[request.method, shape]
        counted[request.method, shape] += 1
        yield Point(work, request.method, shape, nth, after=True)
        if request.method not in _READS:
            yield Point(work, request.method, shape, nth, after=False)


@dataclass
class PausedStage:
    """What all rounds share."""

    spark: SparkSession
    proxy: FaultProxy
    url: str
    runs: ChildRuns
    harness: Harness

    def create(self, name: str) -> Plot:
        """Create a table with its first rows."""
        return create_plot(self.spark, self.url, BatchKind.COPY_ON_WRITE, name, rows=ROWS)

    def ask(self, tables: list[Plot], nonce: int = 0, again: list[Plot] | None = None) -> None:
        """Let the pipeline have these tables, and a re-export of all or of `again`."""
        spec = self.harness.resource["spec"]
        spec["tables"] = [table.entry for table in tables]
        spec["resync"] = {"nonce": nonce}
        if again is not None:
            spec["resync"]["tables"] = [table.entry["name"] for table in again]

    def run(self) -> None:
        """Run to the end, which must be a good one for all tables."""
        report = self.harness.run()
        assert report.outcome is None, report.outcome
        assert [table.message for table in report.tables if table.reason] == []

    def list_points(self) -> list[Point]:
        """Play each kind of work once, and return where it can be stopped."""
        table = self.create("model")
        points: list[Point] = []
        for work in StoppedWork:
            if work is StoppedWork.CHANGES:
                table.change(1)
            # With the third index the first one is deleted.
            for nonce in (1, 2) if work is StoppedWork.AGAIN else (0,):
                self.ask([table], nonce)
                self.proxy.clear()
                self.run()
            points += iterate_points(self.proxy.list_requests(), table.alias, work)
        return points

    def play(self, points: list[Point], exports: int) -> None:
        """Play a run with a table at each of the points, and check what must hold after it.

        `exports`: how often the other run exports each table.
        """
        tables = [self.create("paused") for _ in points]
        again = self._prepare(tables, points)
        self.ask(tables, 3, again)
        self.proxy.clear()
        held = [
            self.proxy.hold(**point.build_rule(table.alias))
            for table, point in zip(tables, points, strict=True)
        ]
        run = self.runs.start(self.harness.make_request())
        self._wait(run, points, [request.held.is_set for request in held])
        run.pause()
        try:
            for nonce in range(4, 4 + exports):
                for table in tables:
                    table.change(nonce)
                self.ask(tables, nonce)
                self.run()
            for table in tables:
                table.check()
            left = {table: self._read_outcome(table) for table in tables}
            indices = {table: self._read_uuids(table) for table in tables}
        finally:
            run.resume()
            for held_request in held:
                held_request.release()
        outcome = run.wait_for_end().outcome
        assert outcome is not None, run.log[-4000:]
        assert outcome.failure_class is FailureClass.FENCED, f"{outcome}\n{run.log[-4000:]}"
        for table, point in zip(tables, points, strict=True):
            assert self._read_outcome(table) == left[table], f"{point}\n{run.log[-4000:]}"
            now = self._read_uuids(table)
            assert indices[table].items() <= now.items(), f"{point}: an index was deleted"
            for extra in now.keys() - indices[table].keys():
                # One that it had just made, when it found that it was too late.
                assert oracle.request(f"{self.url}/{extra}/_count")["count"] == 0, point
        self._go_on(tables)

    def _prepare(self, tables: list[Plot], points: list[Point]) -> list[Plot]:
        """Export what is to be exported already; return the tables to be exported again."""
        of = {
            work: [t for t, p in zip(tables, points, strict=True) if p.work is work]
            for work in StoppedWork
        }
        exported = of[StoppedWork.AGAIN] + of[StoppedWork.CHANGES]
        if exported:
            for nonce in (1, 2):
                self.ask(exported, nonce, of[StoppedWork.AGAIN] or exported[:1])
                self.run()
        for table in of[StoppedWork.CHANGES]:
            table.change(1)
        return of[StoppedWork.AGAIN] or of[StoppedWork.FIRST] or tables[:0]

    def _wait(self, run: ChildRun, points: list[Point], at: list[Callable[[], bool]]) -> None:
        def is_ready() -> bool:
            assert run.alive, f"the run ended by itself:\n{run.log[-4000:]}"
            return all(held() for held in at)

        try:
            wait_until(is_ready, "every table is at its point", seconds=END_SECONDS)
        except AssertionError as error:
            missed = [str(point) for point, held in zip(points, at, strict=True) if not held()]
            raise AssertionError(f"{error}; not at: {missed}\n{run.log[-4000:]}") from error

    def _read_outcome(self, table: Plot) -> dict[str, Any]:
        """Return the alias, state and documents, which readers and the next run meet."""
        return {
            "alias": oracle.request(f"{self.url}/_alias/{table.alias}"),
            "state": table.read_state(),
            "documents": sorted(
                (hit["_index"], hit["_id"], hit["_version"], str(hit["_source"]))
                for hit in oracle.read_hits(self.url, table.alias)
            ),
        }

    def _read_uuids(self, table: Plot) -> dict[str, str]:
        """Return the UUIDs of its physical indices by name."""
        settings = oracle.request(f"{self.url}/{table.alias}-0*/_settings?flat_settings=true")
        return {name: body["settings"]["index.uuid"] for name, body in settings.items()}

    def _go_on(self, tables: list[Plot]) -> None:
        """Let the next run follow the tables: it keeps the applied snapshots and no others."""
        for table in tables:
            table.change(6)
        self.run()
        for table in tables:
            table.check()
            refs = self.spark.sql(f"SELECT snapshot_id FROM {table.table}.refs WHERE type = 'TAG'")
            assert [row[0] for row in refs.collect()] == [table.read_head()], table.name


def draw_rounds(chance: random.Random, points: list[Point]) -> Iterator[list[Point]]:
    """Point in groups, of which at most one holds a core of Spark."""
    tasks = [point for point in points if point.in_a_task]
    others = [point for point in points if not point.in_a_task]
    chance.shuffle(tasks)
    chance.shuffle(others)
    while tasks or others:
        number = AT_ONCE - bool(tasks)
        yield tasks[:1] + others[:number]
        del tasks[:1], others[:number]


def test_a_driver_stopped_at_any_point_fences_itself_when_it_goes_on(
    spark: SparkSession,
    proxy: FaultProxy,
    clean_indices: str,
    runs: ChildRuns,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    seed, chance = choose_seed("paused")
    harness = Harness(spark, proxy.url, tmp_path, [])
    harness.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
    stage = PausedStage(spark, proxy, clean_indices, runs, harness)
    everything = stage.list_points()
    groups = draw_rounds(chance, everything)
    for points in groups if SOAK else itertools.islice(groups, 1):
        for exports in (1, 2) if SOAK else (chance.randint(1, 2),):
            where = "; ".join(map(str, points))
            record_property("tried", f"seed {seed}: {exports} exports meanwhile, paused {where}")
            stage.play(points, exports)
