"""The most resident memory of the processes below this one, while something works."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from icdc_testing.bench.many_tables import read_number
from icdc_testing.waiting.process_cpu import list_tree
from icdc_testing.waiting.processes import read_name

_PAUSE = 0.2


@dataclass(frozen=True, kw_only=True)
class ResidentPeaks:
    """In MB, each the highest of its samples."""

    driver: float = 0.0
    """Resident set of this process."""
    jvm: float = 0.0
    """Resident set of Spark's JVM, which is driver and executor."""
    workers: float = 0.0
    """Proportional set of pyspark's daemon and all workers: what they share counts once."""


class PeakWatch:
    """Samples the processes below this one, without the node, while it is open."""

    def __init__(self, node: int) -> None:
        """`node` is the process of OpenSearch."""
        self._node = node
        self.peaks = ResidentPeaks()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Collect `peaks` anew while inside."""
        self.peaks, ended = ResidentPeaks(), threading.Event()
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(self._sample_until, ended.wait)
            try:
                yield
            finally:
                ended.set()
        watching.result()

    def _sample_until(self, is_ended: Callable[[float], bool]) -> None:
        while not is_ended(_PAUSE):
            below = [pid for pid in list_tree(os.getpid())[1:] if pid != self._node]
            jvms = [pid for pid in below if read_name(pid) == "java"]
            workers = [pid for pid in below if pid not in jvms]
            self.peaks = ResidentPeaks(
                driver=max(self.peaks.driver, read_number(os.getpid(), "status", "VmRSS") / 1024),
                jvm=max(self.peaks.jvm, _sum_mb(jvms, "status", "VmRSS")),
                workers=max(self.peaks.workers, _sum_mb(workers, "smaps_rollup", "Pss")),
            )


def _sum_mb(pids: list[int], file: str, name: str) -> float:
    return sum(read_number(pid, file, name) for pid in pids) / 1024
