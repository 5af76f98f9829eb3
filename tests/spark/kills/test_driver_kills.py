"""SIGKILL of the driver at every step of the protocol, again and again on one pipeline.

Each run first repeats what the one before left open and then becomes the next victim, while three
of its tables are each at an exact step of a new batch: one exports, one follows a copy-on-write
table, one a merge-on-read table. Tables change between two runs, so a run that did not repeat the
open batch exactly before anything newer would leave wrong documents behind.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import FailureClass
from icdc_api.job.modes import RunMode
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Hold
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import (
    BULK_BYTES,
    AwaitedBatch,
    BatchKind,
    KillList,
    KillPoint,
    Plot,
    assert_written_once,
    create_plot,
    end_holds,
    hold,
)
from icdc_testing.runs.processes import END_SECONDS, ChildRun, ChildRuns, KilledProcess
from icdc_testing.waiting.seeds import choose_seed
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Round:
    """Where the three tables are when their run is killed; one at most holds a slot of Spark."""

    export: KillPoint
    copy_on_write: KillPoint
    merge_on_read: KillPoint
    again: int | None = None
    """The round whose exported table is exported again; None: one never exported before."""
    large: bool = False
    """Whether the export takes more than one Spark job."""

    @property
    def steps(self) -> tuple[KillPoint, KillPoint, KillPoint]:
        """In the order of the kinds."""
        return self.export, self.copy_on_write, self.merge_on_read


CHAINS = {
    "early steps": (
        Round(KillPoint.BEFORE_INTENT, KillPoint.SOME_BULK, KillPoint.AFTER_ADVANCE),
        Round(KillPoint.AFTER_INTENT, KillPoint.BEFORE_INTENT, KillPoint.SOME_BULK_LOST),
        Round(KillPoint.SOME_BULK, KillPoint.AFTER_INTENT, KillPoint.BEFORE_INTENT),
        Round(
            KillPoint.FIRST_CHUNKS, KillPoint.ALL_BULK, KillPoint.AFTER_INTENT, again=0, large=True
        ),
        Round(KillPoint.BEFORE_ALIAS, KillPoint.SOME_BULK_LOST, KillPoint.ALL_BULK),
    ),
    "late steps": (
        Round(KillPoint.ALL_BULK, KillPoint.AFTER_ADVANCE, KillPoint.SOME_BULK),
        Round(KillPoint.AFTER_ALIAS, KillPoint.AFTER_INTENT, KillPoint.AFTER_ADVANCE),
        Round(KillPoint.BEFORE_SWAPPING, KillPoint.SOME_BULK, KillPoint.BEFORE_INTENT, again=0),
        Round(KillPoint.AFTER_ADVANCE, KillPoint.ALL_BULK, KillPoint.SOME_BULK_LOST, again=1),
        Round(KillPoint.SOME_BULK_LOST, KillPoint.BEFORE_INTENT, KillPoint.AFTER_INTENT, again=2),
    ),
}
PROOFS = {"early steps": "Sample", "late steps": "All"}
"""What each chain has compared before the alias moves."""
LARGE_FILES, LARGE_ROWS, LARGE_HASHES = 3, 900, 64
"""Files each larger than half a chunk, and more of them than one Spark job takes."""
TIMEOUT_SECONDS = 1800
"""A chain starts five JVMs after each other, on a machine that may have more to do."""


Key = tuple[str, str, int | None]


@dataclass
class Chain:
    """The pipeline, its tables, and the run that is alive."""

    spark: SparkSession
    proxy: FaultProxy
    url: str
    harness: Harness
    runs: ChildRuns
    kills: KillList
    seed: int
    chance: random.Random
    copy_on_write: Plot
    merge_on_read: Plot
    exported: list[Plot] = field(default_factory=list)
    recovering: tuple[Plot, int] | None = None
    recorded: list[Key] = field(default_factory=list)
    """Documents of chunks that were recorded as done: nobody may send them again."""

    def play_round(self, number: int, now: Round, victim: KilledProcess) -> None:
        """Start a run, lets it recover, stops it at three steps, kills it, checks the rest."""
        export = self._choose_export(now)
        followed = (export, self.copy_on_write, self.merge_on_read)
        tables = [*followed, *([self.recovering[0]] if self.recovering else [])]
        self._ask(tables, export)
        gates = [self.proxy.hold("^/icdc-state/_settings", method="GET") for _ in tables]
        run = self.runs.start(self.harness.make_request())
        batches = self._change(number, now, export)
        held = [
            hold(self.proxy, batch, step, skip=self._skip(step))
            for batch, step in zip(batches, now.steps, strict=True)
        ]
        for gate in gates:
            gate.wait(END_SECONDS)
            gate.release()
        self._wait(run, held)
        self._check_recovered()
        late = self.chance.random() < 0.5
        if now.export is KillPoint.FIRST_CHUNKS:
            self.recorded = self._list_operations(export)
            intent = export.read_state()["intent"]
            assert intent["chunksDone"] < intent["chunksTotal"], "the export fits into one job"
        positions = [(batch.kind, step) for batch, step in zip(batches, now.steps, strict=True)]
        self.kills.add(self.seed, victim.value, *positions)
        run.kill(victim)
        end_holds(self.proxy, held, late=late)
        self._check_end(run, victim)
        self.recovering = (export, batches[0].head)

    def finish(self) -> None:
        """Let the last run come through; index and table are equal, by two comparisons."""
        plots = [*dict.fromkeys(self.exported), self.copy_on_write, self.merge_on_read]
        self._ask(plots)
        report = self.harness.run()
        assert report.outcome is None, report.outcome
        assert [table.message for table in report.tables if table.reason] == []
        for subject in plots:
            subject.check()
        assert assert_written_once(self.proxy, self.url, plots) > 0, "no batch was repeated"
        sent = Counter(key for plot in plots for key in self._list_operations(plot))
        assert [key for key in self.recorded if sent[key] != 1] == []
        verified = self.harness.run(RunMode.VERIFY).result
        assert verified is not None
        assert [entry["equal"] for entry in verified["tables"]] == [True] * len(plots)

    def _list_operations(self, table: Plot) -> list[Key]:
        """Return every operation on the table's newest index so far."""
        writes = [w for w in self.proxy.list_writes() if w.index.startswith(f"{table.alias}-0")]
        newest = max((write.index for write in writes), default="")
        return [(w.index, w.id, w.version) for w in writes if w.index == newest]

    def _choose_export(self, now: Round) -> Plot:
        if now.again is None:
            self.exported.append(create_plot(self.spark, self.url, BatchKind.EXPORT, "export"))
        else:
            self.exported.append(self.exported[now.again])
        return self.exported[-1]

    def _ask(self, tables: list[Plot], export: Plot | None = None) -> None:
        spec = self.harness.resource["spec"]
        spec["tables"] = [table.entry for table in tables]
        if export is not None:
            nonce = len(self.exported)
            spec["resync"] = {"nonce": nonce, "tables": [export.entry["name"]]}
        else:
            del spec["resync"]

    def _change(self, number: int, now: Round, export: Plot) -> list[AwaitedBatch]:
        """New content for the three, while the run starts; no run may write meanwhile."""
        if now.large:
            export.append(2_000_000, LARGE_ROWS, files=LARGE_FILES, hashes=LARGE_HASHES)
        else:
            export.append(1_000_000 + number, 1)
        self.copy_on_write.change(number + 1)
        self.merge_on_read.change(number + 1)
        return [
            export.predict_batch(BatchKind.EXPORT),
            self.copy_on_write.predict_batch(BatchKind.COPY_ON_WRITE),
            self.merge_on_read.predict_batch(BatchKind.MERGE_ON_READ),
        ]

    def _skip(self, step: KillPoint) -> int:
        return self.chance.randint(1, 3) if step.in_a_task else 0

    def _wait(self, run: ChildRun, held: list[Hold]) -> None:
        """Return when all three are at their step and the table of the last round is complete."""

        def is_ready() -> bool:
            assert run.alive, f"the run ended by itself:\n{run.log[-4000:]}"
            if not all(plot.held.is_set() for plot in held):
                return False
            return self.recovering is None or self.recovering[0].is_applied(self.recovering[1])

        wait_until(is_ready, "three tables at their steps", seconds=END_SECONDS)

    def _check_recovered(self) -> None:
        if self.recovering is None:
            return
        self.recovering[0].check(self.recovering[1])

    def _check_end(self, run: ChildRun, victim: KilledProcess) -> None:
        """Nothing of a killed run goes on, and the reconcile core is told what happened."""
        if victim is KilledProcess.DRIVER_JVM:
            outcome = run.wait_for_end().outcome
            assert outcome is not None
            assert outcome.failure_class is FailureClass.NODE_LOST, f"{outcome}\n{run.log[-4000:]}"
            return
        run.wait_dead()
        failure = run.await_end_seen().failure
        assert failure is not None, run.log[-4000:]
        assert failure.failure_class is FailureClass.NODE_LOST, failure


@pytest.mark.sampled
@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("name", CHAINS)
def test_a_driver_killed_at_any_step_is_followed_by_one_that_makes_the_index_right(
    name: str,
    spark: SparkSession,
    proxy: FaultProxy,
    clean_indices: str,
    runs: ChildRuns,
    kills: KillList,
    tmp_path: Path,
) -> None:
    seed, chance = choose_seed(name)
    followed = (BatchKind.COPY_ON_WRITE, "cow"), (BatchKind.MERGE_ON_READ, "mor")
    cow, mor = (create_plot(spark, clean_indices, kind, short) for kind, short in followed)
    # In one of the chains the documents of both have names of their own, expressions and routing.
    cow = replace(cow, is_shaped=name == "late steps")
    harness = Harness(spark, proxy.url, tmp_path, [cow.entry, mor.entry])
    harness.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
    harness.resource["spec"]["changelog"] = {"proveBeforeSwitch": PROOFS[name]}
    assert harness.run().outcome is None
    chain = Chain(spark, proxy, clean_indices, harness, runs, kills, seed, chance, cow, mor)
    victims = [
        *KilledProcess,
        *chance.sample([*KilledProcess], len(CHAINS[name]) - len(KilledProcess)),
    ]
    chance.shuffle(victims)
    for number, (now, victim) in enumerate(zip(CHAINS[name], victims, strict=True)):
        chain.play_round(number, now, victim)
    chain.finish()
