"""Faults of three OpenSearch nodes and of runs, one after the other, judged. `make soak-world`.

Two tables are followed by runs that never cease, while rows are committed. Each fault happens at a
random moment of a batch and is mended at another one; then the index must equal the table at the
snapshot that the state document records, by an oracle that shares no code with the product.
Prints a line for each fault, and a summary; ends after `--minutes`, by 1 if anything differed.
Tables are made anew after every 25 faults, so that exports are hit as well.
"""

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from following import Runs
from icdc_api.errors import FailureClass
from icdc_cli.embedded.lake import QUICK_START
from icdc_testing.bench.changelog import start_session
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.network.faults import Reset, Status
from icdc_testing.runs.kill_points import BatchKind
from icdc_testing.runs.spark_conf import UNCOMPILED
from icdc_testing.target import node_calls
from icdc_testing.target.nodes.faults import LOSING, PASSING
from icdc_testing.target.nodes.followed import FollowedOnNodes
from icdc_testing.target.nodes.three_nodes import ThreeNodes
from icdc_testing.waiting.wait import wait_until

LIFE = 25
"""Faults that a pair of tables lives through."""
SETTLE_SECONDS = 240.0
CONF = {
    **UNCOMPILED,
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.shuffle.partitions": "2",
}
MASTER = "local[12]"
"""Tasks that wait for a target that is away hold a slot, and commits need some as well."""
ROWS = 400


@dataclass
class Tally:
    """What has happened until now."""

    faults: int = 0
    differences: int = 0
    runs: int = 0
    by_fault: Counter[str] = field(default_factory=Counter)
    failures: Counter[FailureClass] = field(default_factory=Counter)
    resident: list[tuple[int, int]] = field(default_factory=list)
    """Of driver's Python and JVM after each fault, in MB."""


class SoakWorld:
    """Two tables, their runs, and the faults that hit them."""

    def __init__(
        self,
        spark: SparkSession,
        nodes: ThreeNodes,
        front: FaultProxy,
        folder: Path,
        chance: random.Random,
        tally: Tally,
    ) -> None:
        self.nodes, self.front, self.chance, self.tally = nodes, front, chance, tally
        kinds = {"cow": BatchKind.COPY_ON_WRITE, "mor": BatchKind.MERGE_ON_READ}
        self.followed = [
            FollowedOnNodes.make(spark, nodes, front, folder, kind, rows=ROWS, name=name)
            for name, kind in kinds.items()
        ]
        first = self.followed[0].pipeline
        first.resource["spec"]["tables"] = [one.table.entry for one in self.followed]
        self.runs = Runs(first, chance)
        self._turns = itertools.count(1)
        self.faults: dict[str, Callable[[FollowedOnNodes], None]] = {
            **PASSING,
            **{name: self._build_loss(name) for name in LOSING},
            "answers of bulk requests lost": self._lose_answers,
            "every request refused for a while": self._refuse,
            "run replaced amid its writes": lambda _: self.runs.replace(),
            "old run's bulk request arrives late": self._hold_old_run,
            "run stopped": lambda _: self.runs.stop_newest(),
        }

    def begin(self) -> None:
        """Wait until both tables are exported."""
        self._await_applied()

    def hit(self, name: str) -> float:
        """Play one fault and wait until all is well again; return the seconds until then."""
        self.front.clear()
        self.commit()
        self._wait(1.5)
        followed = self.chance.choice(self.followed)
        self.faults[name](followed)
        self.commit()
        self._wait(4.0)
        self.nodes.restart()
        begun = time.monotonic()
        self._await_applied()
        return time.monotonic() - begun

    def commit(self) -> None:
        """Update, delete and append rows of both tables."""
        turn = next(self._turns)
        for followed in self.followed:
            followed.table.change(turn)

    def judge(self) -> str:
        """Return how an index differs from its table; empty if none does."""
        try:
            for followed in self.followed:
                followed.table.check(followed.table.read_head())
        except AssertionError as error:
            return str(error)
        return ""

    def _wait(self, at_most: float) -> None:
        # By chance: the protocol is at another step each time.
        time.sleep(self.chance.uniform(0, at_most))

    def _await_applied(self) -> None:
        for followed in self.followed:
            head = followed.table.read_head()
            wait_until(
                lambda followed=followed, head=head: followed.table.is_applied(head),  # type: ignore[misc]
                f"{followed.table.alias} is applied",
                seconds=SETTLE_SECONDS,
                pause=0.2,
            )
        assert not self.runs.stalled, self.runs.stalled

    def _build_loss(self, name: str) -> Callable[[FollowedOnNodes], None]:
        def play(followed: FollowedOnNodes) -> None:
            def write() -> None:
                self.commit()
                self._await_applied()

            LOSING[name](followed, write)

        return play

    def _lose_answers(self, _: FollowedOnNodes) -> None:
        self.front.add(Reset(after=True), path="_bulk", times=self.chance.randint(1, 4))

    def _refuse(self, _: FollowedOnNodes) -> None:
        self.front.add(Status(503, kind="cluster_block_exception"), times=20)

    def _hold_old_run(self, followed: FollowedOnNodes) -> None:
        """Keep a request back until a newer run has applied what comes after it."""
        held = self.front.hold(f"^/{followed.table.alias}-.*/_bulk", method="POST")
        self.commit()
        held.wait(SETTLE_SECONDS)
        self.runs.replace()
        self.commit()
        self._await_applied()
        held.release()


def main() -> int:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    tally = Tally()
    deadline = time.monotonic() + options.minutes * 60
    _say(f"seed {options.seed}: repeat by ARGS='--minutes {options.minutes:g} --seed ...'")
    with (
        tempfile.TemporaryDirectory(prefix="icdc-soak-") as folder,
        ThreeNodes(Path(folder) / "nodes") as nodes,
        FaultProxy(nodes.members[0].url) as front,
    ):
        spark = start_session(Path(folder), memory="1500m", more=CONF, master=MASTER)
        try:
            chance = random.Random(options.seed)
            while time.monotonic() < deadline and not tally.differences:
                _live(SoakWorld(spark, nodes, front, Path(folder), chance, tally), deadline)
        finally:
            spark.stop()
    _say(_summarize(tally))
    return 1 if tally.differences else 0


def _live(world: SoakWorld, deadline: float) -> None:
    """Play LIFE faults, or as many as the time allows."""
    tally = world.tally
    with world.runs:
        world.begin()
        for _ in range(LIFE):
            if time.monotonic() > deadline:
                break
            name = world.chance.choice([*world.faults])
            try:
                seconds = world.hit(name)
                problem = world.judge()
            except AssertionError as error:
                seconds, problem = 0.0, str(error)
            tally.faults += 1
            tally.by_fault[name] += 1
            tally.resident.append(_measure_resident(world.followed[0].pipeline.spark))
            python, jvm = tally.resident[-1]
            verdict = f"DIFFERS: {problem}" if problem else f"equal after {seconds:.1f} s"
            runs = tally.runs + world.runs.started
            _say(f"{tally.faults:4} {name}: {verdict}; runs {runs}, RSS {python} + {jvm} MB")
            if problem:
                tally.differences += 1
                break
    tally.runs += world.runs.started
    tally.failures += world.runs.failures
    world.nodes.restart()
    node_calls.clean_indices(world.nodes.members[0].url)


def _summarize(tally: Tally) -> str:
    half = len(tally.resident) // 2
    halves = [tally.resident[:half], tally.resident[half:]]
    peaks = [tuple(max(column) for column in zip(*part, strict=True)) for part in halves if part]
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(tally.by_fault.items()))
    return (
        f"{tally.faults} faults ({kinds}); {tally.differences} differences; {tally.runs} runs, "
        f"of which failed {dict(tally.failures)}; most MB of Python and JVM, first half and "
        f"second: {peaks}"
    )


def _measure_resident(spark: SparkSession) -> tuple[int, int]:
    """Return the resident sets of this process and of Spark's JVM, in MB."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    sizes = []
    for pid in ("self", str(jvm)):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        sizes.append(int(status.split("VmRSS:")[1].split()[0]) // 1024)
    return sizes[0], sizes[1]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
