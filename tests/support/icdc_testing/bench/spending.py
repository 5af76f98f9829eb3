"""Measures what one piece of work takes of the processor, in this process tree and in a node.

Counts are read from /proc, at a hundredth of a second; so work of less than a second says nothing.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_testing.bench.rates import Spent
from icdc_testing.target.oracle import request
from icdc_testing.waiting.children import list_children
from icdc_testing.waiting.process_cpu import list_tree, sum_cpu_seconds
from icdc_testing.waiting.processes import read_name
from icdc_testing.waiting.wait import wait_until


class SpendingMeter:
    """Measures this process with all below it, apart from the node that it has started."""

    def __init__(self, node: OpenSearchNode) -> None:
        self._node = node

    def measure(self, work: Callable[[], int], index: str | None = None) -> Spent:
        """Return what the work took; it returns the number of its documents.

        The time ends with it, and the client's share too. The server's goes on until the segments
        of `index`, if it is given, are stored and no merge is left.
        """
        client, python, server = self._read()
        started = time.monotonic()
        documents = work()
        seconds = time.monotonic() - started
        client_after, python_after, _ = self._read()
        if index is not None:
            settle_index(self._node.url, index)
        return Spent(
            documents=documents,
            seconds=seconds,
            client=client_after - client,
            python=python_after - python,
            server=self._read()[2] - server,
        )

    def _read(self) -> tuple[float, float, float]:
        """Return the CPU seconds until now: client, its part that is no JVM's, server."""
        server = sum_cpu_seconds(self._node.pid)
        client = sum_cpu_seconds() - server
        jvms = [pid for pid in self._list_client() if read_name(pid) == "java"]
        return client, client - sum(map(read_own_seconds, jvms)), server

    def _list_client(self) -> list[int]:
        below = [child for child in list_children(os.getpid()) if child != self._node.pid]
        return [pid for child in below for pid in list_tree(child)]


def read_own_seconds(pid: int) -> float:
    """Return the CPU seconds of one process alone; 0 of one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def settle_index(url: str, index: str) -> None:
    """Store all segments of an index, and wait until none of them is being merged."""
    request(f"{url}/{index}/_flush?force=true&wait_if_ongoing=true", "POST")

    def is_settled() -> bool:
        answer = request(f"{url}/{index}/_stats/merge")
        return not answer["_all"]["primaries"]["merges"]["current"]

    wait_until(is_settled, "nothing is merged", seconds=300, pause=0.1)
