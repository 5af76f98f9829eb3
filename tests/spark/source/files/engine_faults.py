"""Run a Spark that loses executors, workers, memory or disk, and print the errors of it.

A program: each name among its arguments is one loss, each line that it prints one error. It
needs a process of its own, because some of the losses would end the tests' Spark as well.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from icdc_api.spec.spark_defaults import DEFAULT_CONF
from icdc_cli.embedded.jdk import find_spark_jdk
from icdc_cli.embedded.lake import QUICK_START
from icdc_spark.iceberg.jvm.source_errors import FOREIGN_ERRORS, translate_error
from icdc_spark.iceberg.jvm.table_jobs import TableJobs
from icdc_testing import SOURCES
from icdc_testing.runs.spark_conf import UNCOMPILED
from icdc_testing.waiting.wait import wait_until

SECONDS = 500
TINY = "8m"
"""Room for a JVM's few files, and not for the rows shuffled below."""
INODES = 100_000
"""As many as may be asked for."""
ROOMY = "512m"
"""Room for all of it."""


class Loss(NamedTuple):
    """One loss, and the error that the application makes of it."""

    # One of LOSSES.
    name: str
    # The class of the error.
    kind: str
    # True if the run is tried again.
    retryable: bool
    message: str


def suffer_losses(names: Sequence[str], folder: Path, *, tiny_disk: bool = False) -> list[Loss]:
    """Suffer losses in a Spark of their own; on `tiny_disk` its scratch space is 8 MB large.

    The disk is a mount that only the program sees, and that ends with it.
    """
    program: list[str] = [sys.executable, __file__, str(folder), *names]
    if tiny_disk:
        mount = f'mount -t tmpfs -o size={TINY},nr_inodes={INODES} none "$0" && exec "$@"'
        folder.mkdir(parents=True, exist_ok=True)
        alone = ("unshare", "--mount", "--map-root-user", "sh", "-c", mount, str(folder))
        program = [*alone, *program]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_spark_jdk().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": SOURCES,
        "ICDC_TINY_DISK": "1" if tiny_disk else "",
    }
    done = subprocess.run(
        program, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [Loss(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]


def _fill_heap(spark: SparkSession) -> DataFrame:
    return spark.sql("select size(sequence(id, id + 200000000)) from range(1, 2)")


def _run_in_python(act: Callable[[], object]) -> Callable[[SparkSession], DataFrame]:
    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        act()
        yield from batches

    return lambda spark: spark.range(1).mapInArrow(run_task, "id long")


def _kill_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_executor() -> None:
    # The worker's parent forks workers, and is the child of the executor.
    stat = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="ascii")
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)


def _fill_memory() -> None:
    bytearray(1 << 60)


def _fill_disk() -> None:
    # Where Python workers of Spark spill what does not fit into memory.
    with tempfile.TemporaryFile(dir=os.environ["SPARK_LOCAL_DIRS"].split(",")[0]) as file:
        file.write(bytes(16 << 20))


def _hang(spark: SparkSession) -> DataFrame:
    """Wait in a thread of the executor that nothing wakes, and cancel the job meanwhile."""
    tag, jobs = "hangs", TableJobs(spark)

    def is_running() -> bool:
        seen = jobs.read(tag)
        return bool(seen.running) and not seen.is_waiting

    def cancel() -> None:
        wait_until(is_running, "its task runs")
        jobs.cancel(tag)

    with ThreadPoolExecutor(1) as pool:
        cancelling = pool.submit(cancel)
        spark.sparkContext.addJobTag(tag)
        # Otherwise it would wake up: the stand-in for a thread that no interrupt reaches.
        spark.sparkContext.setInterruptOnCancel(False)
        try:
            hour = "java_method('java.lang.Thread', 'sleep', id * 3600000L)"
            spark.sql(f"select {hour} from range(1, 2, 1, 1)").collect()
        finally:
            spark.sparkContext.clearJobTags()
            cancelling.result()
    raise AssertionError("the job was not cancelled")


def _spill(spark: SparkSession) -> DataFrame:
    # Random text, which does not shrink when it is compressed.
    return spark.sql("select /*+ repartition(2) */ sha2(uuid(), 512) t from range(400000)")


def _take_inodes(loss: Callable[[SparkSession], DataFrame]) -> Callable[..., DataFrame]:
    def act(spark: SparkSession) -> DataFrame:
        disk = os.statvfs(sys.argv[1])
        # What the JVM has made before stays, and no file comes to it, however much room there is.
        _remount(f"size={ROOMY},nr_inodes={disk.f_files - disk.f_ffree}")
        try:
            frame = loss(spark)
            frame.collect()
            return frame
        finally:
            _remount(f"size={TINY},nr_inodes={INODES}")

    return act


def _remount(options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", sys.argv[1]], check=True)


def _spill_read_only(spark: SparkSession) -> DataFrame:
    # A kernel remounts a file system so when its disk fails.
    _remount("ro")
    return _spill(spark)


LOSSES: dict[str, Callable[[SparkSession], DataFrame]] = {
    "heap": _fill_heap,
    "worker": _run_in_python(_kill_worker),
    "executor": _run_in_python(_kill_executor),
    "hung": _hang,
    "python memory": _run_in_python(_fill_memory),
    "python disk": _run_in_python(_fill_disk),
    "spill": _spill,
    "inodes": _take_inodes(_spill),
    "python inodes": _take_inodes(_run_in_python(_fill_disk)),
    "read-only": _spill_read_only,
}


def main(folder: str, names: Sequence[str]) -> None:
    """Suffer each loss, and print it as a line of JSON."""
    tiny = bool(os.environ["ICDC_TINY_DISK"])
    # Executors of their own, so that they can be lost and the driver stays.
    master = "local[1]" if tiny else "local-cluster[1,1,1024]"
    conf = {
        **UNCOMPILED,
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **DEFAULT_CONF,
        "spark.task.reaper.killTimeout": "1s",
        "spark.task.reaper.pollingInterval": "1s",
        # The last of several attempts may meet an executor that the first has already ended.
        "spark.task.maxFailures": "1",
    }
    builder: Any = SparkSession.builder.master(master).appName("losses")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for name in names:
        try:
            LOSSES[name](spark).collect()
        except FOREIGN_ERRORS as error:
            cause = translate_error("shop.orders", error)
            loss = Loss(name, type(cause).__name__, cause.retryable, cause.message)
            sys.stdout.write(json.dumps(loss) + "\n")
        _await_executor(spark)
    spark.stop()


def _await_executor(spark: SparkSession) -> None:
    # The executor that the loss has ended may still be offered tasks, and refuses them.
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            spark.range(1).collect()
        except FOREIGN_ERRORS:
            if time.monotonic() > deadline:
                raise
        else:
            return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
