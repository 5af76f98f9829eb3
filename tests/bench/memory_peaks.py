"""The most memory that one piece of work took, in the places where it could grow with the data."""

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm.session import APPLICATION_CONF
from icdc_testing.bench.session import list_stages
from icdc_testing.waiting.process_cpu import list_tree

MB = 1 << 20
_PAUSE = 0.5
_COLLECTED = re.compile(r"Pause Full .* \d+M->(?P<left>\d+)M\(\d+M\)")
_WORKER = ["-m", APPLICATION_CONF["spark.python.daemon.module"]]
"""Arguments of Python's daemon, and so of the workers that it forks."""


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """In MB."""

    execution: float
    """Of one task: what its joins, aggregations and sorts held, by Spark's own count."""
    spilled: float
    """Of all tasks: what did not fit and went to disk."""
    heap: float
    """What a full collection left, of which there is one every half second."""
    worker: float
    """Resident set of one Python worker."""


class MemoryMeter:
    """Measures one piece of work after the other in a Spark whose JVM logs its collections."""

    def __init__(self, spark: SparkSession, gc_log: Path) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._gc_log = gc_log

    def measure(self, work: Callable[[], object]) -> Peaks:
        """Return the peaks while it worked."""
        self._jvm.System.gc()
        logged, before = self._gc_log.stat().st_size, len(self._list_stages())
        ended = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(self._watch, ended)
            try:
                work()
            finally:
                ended.set()
        new = self._list_stages()[before:]
        return Peaks(
            execution=max((_read_peak(stage) for stage in new), default=0.0) / MB,
            spilled=sum(int(stage.memoryBytesSpilled()) for stage in new) / MB,
            heap=self._read_left(logged),
            worker=watching.result() / 1024,
        )

    def _watch(self, ended: threading.Event) -> int:
        """Collect garbage in the JVM; the most that one Python worker held meanwhile, in kB."""
        most = 0
        while True:
            self._jvm.System.gc()
            most = max([most, *map(_read_resident_kb, list_tree(os.getpid()))])
            if ended.wait(_PAUSE):
                return most

    def _read_left(self, logged: int) -> float:
        with self._gc_log.open() as lines:
            lines.seek(logged)
            left = [int(match["left"]) for match in _COLLECTED.finditer(lines.read())]
        return float(max(left))

    def _list_stages(self) -> list[Any]:
        return sorted(list_stages(self._spark, 1.0), key=lambda stage: int(stage.stageId()))


def _read_peak(stage: Any) -> float:
    distributions = stage.taskMetricsDistributions()
    return (
        float(distributions.get().peakExecutionMemory().apply(0))
        if distributions.isDefined()
        else 0.0
    )


def _read_resident_kb(pid: int) -> int:
    """Return the resident memory of a Python worker; 0 for another process or one that ended."""
    process = Path(f"/proc/{pid}")
    try:
        if (process / "cmdline").read_text().split("\0")[1:3] != _WORKER:
            return 0
        status = (process / "status").read_text()
    except OSError:
        return 0
    match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) if match else 0
