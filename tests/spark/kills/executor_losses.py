"""Run batches on executors of their own that are decommissioned, and killed amid it.

A program, because its Spark has executors, and that of the other tests has none. For each loss it
prints a line of JSON: what was lost, what the run said, and whether the index equals the table.
"""

import json
import os
import random
import signal
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_api.spec.spark_defaults import DEFAULT_CONF
from icdc_api.status.pipeline_status import TableStatus
from icdc_cli.embedded.jars import fetch_jars
from icdc_cli.embedded.lake import QUICK_START
from icdc_operator.manifests.application import BASE_CONF
from icdc_spark.iceberg.jvm.session import APPLICATION_CONF
from icdc_testing.bench.session import start_bench_session
from icdc_testing.lake.lake import CATALOG
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import (
    BULK_BYTES,
    BatchKind,
    KillPoint,
    Plot,
    assert_written_once,
    create_plot,
    end_holds,
    hold,
)
from icdc_testing.runs.spark_conf import UNCOMPILED
from icdc_testing.waiting.processes import kill, list_descendants, read_command
from icdc_testing.waiting.wait import wait_until

EXECUTORS = 2
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
"""The program of an executor that is no pod."""
DECOMMISSION = ("spark.decommission.", "spark.storage.decommission.")


def begin_spark(folder: Path) -> SparkSession:
    """Return a Spark of two executors that hand over their blocks, as those of a cluster do."""
    handed_over = {key: BASE_CONF[key] for key in BASE_CONF if key.startswith(DECOMMISSION)}
    catalog = f"spark.sql.catalog.{CATALOG}"
    conf = {
        **APPLICATION_CONF,
        **DEFAULT_CONF,
        **UNCOMPILED,
        **handed_over,
        "spark.executor.extraClassPath": os.pathsep.join(map(str, fetch_jars("spark"))),
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "4",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(folder / "warehouse"),
        f"{catalog}.cache-enabled": "false",
    }
    master = f"local-cluster[{EXECUTORS},1,1024]"
    return start_bench_session("losses", folder, memory="1g", conf=conf, master=master)


def find_executors() -> list[int]:
    """Return the process ids of this program's executors."""
    return sorted(pid for pid in list_descendants(os.getpid()) if EXECUTOR in read_command(pid))


def lose(spark: SparkSession, chance: random.Random, running: "Future[TableStatus]") -> str:
    """Decommission an executor, or both, and kill them at once, soon or never."""
    executors = find_executors()
    victims = executors if chance.random() < 0.25 else [chance.choice(executors)]
    for victim in victims:
        os.kill(victim, signal.SIGPWR)
    wait_until(lambda: all(is_decommissioned(spark, pid) for pid in victims), "the driver knows it")
    seconds = chance.choice([0.0, 0.05, 0.3, 1.0, None])
    if seconds is not None:
        # The moment is by chance: what has been handed over cannot be seen from outside.
        with suppress(TimeoutError):
            running.exception(seconds)
        for victim in victims:
            kill(victim)
    killed = "not killed" if seconds is None else f"killed after {seconds} s"
    return f"{len(victims)} of {len(executors)} executors decommissioned, {killed}"


def is_decommissioned(spark: SparkSession, pid: int) -> bool:
    """Return whether the driver gives an executor no further tasks, or has seen it end."""
    words = read_command(pid)
    if EXECUTOR not in words:
        return True
    number = words[words.index("--executor-id") + 1]
    scheduler: Any = spark.sparkContext._jsc.sc().taskScheduler()
    return bool(scheduler.getExecutorDecommissionState(number).isDefined())


class Losses:
    """A pipeline of one table, whose batches lose executors."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.url = url
        self.proxy = FaultProxy(url)
        self.spark, self.folder = spark, folder

    def play(self, kind: BatchKind, turns: int) -> list[dict[str, Any]]:
        """Lose executors in so many batches of a kind; return what came of each."""
        with self.proxy:
            pipeline = Harness(self.spark, self.proxy.url, self.folder, [])
            pipeline.resource["spec"]["sink"]["opensearch"]["bulk"] = {"maxBytes": BULK_BYTES}
            table = create_plot(self.spark, self.url, kind, "decommissioned")
            pipeline.resource["spec"]["tables"] = [table.entry]
            pipeline.sync()
            results = [self._lose_in_a_batch(pipeline, table, kind, n + 1) for n in range(turns)]
            assert_written_once(self.proxy, self.url, [table])
        return results

    def _lose_in_a_batch(
        self, pipeline: Harness, table: Plot, kind: BatchKind, turn: int
    ) -> dict[str, Any]:
        wait_until(lambda: len(find_executors()) == EXECUTORS, "there are executors")
        table.change(turn)
        if kind is BatchKind.EXPORT:
            pipeline.resource["spec"]["resync"] = {"nonce": turn}
        passing, begun = self.chance.randint(0, 3), time.monotonic()
        held = hold(self.proxy, table.predict_batch(kind), KillPoint.SOME_BULK, skip=passing)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(pipeline.sync)
            held.wait()
            lost = lose(self.spark, self.chance, running)
            end_holds(self.proxy, [held], late=self.chance.random() < 0.5)
            running.result()
        table.check()
        seconds = round(time.monotonic() - begun, 1)
        return {"kind": kind, "lost": lost, "after requests": passing, "seconds": seconds}


def main(url: str, folder: Path, seed: int, turns: int) -> None:
    """Play, and print a line for each loss."""
    spark = begin_spark(folder)
    try:
        losses = Losses(spark, url, folder, seed)
        for kind in BatchKind:
            for result in losses.play(kind, turns):
                sys.stdout.write(json.dumps(result) + "\n")
                sys.stdout.flush()
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
