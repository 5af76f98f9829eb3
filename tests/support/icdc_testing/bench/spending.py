"""Measures what one piece of work takes of the processor, in this process tree and in a node.

Counts are read from /proc, at a hundredth of a second; so work of less than a second says nothing.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.rates import Spent
from icdc_testing.target.oracle import request
from icdc_testing.waiting.process_cpu import list_tree, sum_cpu_seconds
from icdc_testing.waiting.processes import read_name
from icdc_testing.waiting.wait import wait_until

_PAUSE = 1.0
"""Between two readings while something works. A worker is idle for a minute before it ends."""


class ProcessorLedger:
    """Adds up what a process and all below it have used, ended ones too, if it is asked meanwhile.

    The kernel adds a child's time to its parent's only where the parent waits for it; the daemon
    of Spark's Python workers does not.
    """

    def __init__(self, root: int, left_out: int | None = None) -> None:
        """`left_out` is a child of `root` that does not count, nor what is below it."""
        self._root, self._left_out = root, left_out
        # By process and start: the kernel uses numbers of processes again.
        self._seconds: dict[tuple[int, str], float] = {}
        self._jvms: set[tuple[int, str]] = set()

    def read(self) -> tuple[float, float]:
        """Return the CPU seconds of all processes until now, and those that are not of a JVM."""
        left_out = set(list_tree(self._left_out)) if self._left_out is not None else set[int]()
        for pid in list_tree(self._root):
            if pid not in left_out and (fields := _read_fields(pid)):
                key = pid, fields[19]
                self._seconds[key] = _add_seconds(fields)
                if read_name(pid) == "java":
                    self._jvms.add(key)
        total = sum(self._seconds.values())
        return total, total - sum(self._seconds[key] for key in self._jvms)


class SpendingMeter:
    """Measures this process with all below it, apart from the node that it has started."""

    def __init__(self, node: OpenSearchNode) -> None:
        self._node = node
        self._ledger = ProcessorLedger(os.getpid(), node.pid)

    def measure(self, work: Callable[[], int], index: str | None = None) -> Spent:
        """Return what the work took; it returns the number of its documents.

        The time ends with it, and the client's share too. The server's goes on until the segments
        of `index`, if it is given, are stored and no merge is left.
        """
        (client, python), server = self._ledger.read(), sum_cpu_seconds(self._node.pid)
        ended = threading.Event()
        started = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(self._watch, ended)
            try:
                documents = work()
            finally:
                seconds = time.monotonic() - started
                ended.set()
            watching.result()
        client_after, python_after = self._ledger.read()
        if index is not None:
            settle_index(self._node.url, index)
        return Spent(
            documents=documents,
            seconds=seconds,
            client=client_after - client,
            python=python_after - python,
            server=sum_cpu_seconds(self._node.pid) - server,
        )

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(_PAUSE):
            self._ledger.read()


def _read_fields(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on; nothing of one that ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def _add_seconds(fields: list[str]) -> float:
    """Return the CPU seconds of the process itself, in user mode and in the kernel."""
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def settle_index(url: str, index: str) -> None:
    """Store all segments of an index, and wait until none of them is being merged."""
    request(f"{url}/{index}/_flush?force=true&wait_if_ongoing=true", "POST")

    def is_settled() -> bool:
        answer = request(f"{url}/{index}/_stats/merge")
        return not answer["_all"]["primaries"]["merges"]["current"]

    wait_until(is_settled, "nothing is merged", seconds=300, pause=0.1)
