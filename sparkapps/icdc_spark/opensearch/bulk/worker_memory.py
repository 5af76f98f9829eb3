"""Bounds the bulk requests of a task by the memory that its container leaves to a Python worker.

An executor's container holds the heap of the JVM, what the JVM needs beside it, and the Python
workers of the task on each core. A worker whose requests do not fit there ends the whole container
as out of memory. So a task has a budget of bytes, and a request is begun when there is room for it.
Whatever the size of rows, one request may always be under way.

    container 5.6 GiB, heap 4g, 2 cores: 243 MiB of each task are for requests
    maxInFlight 32     maxBytes 8 MiB   32 MiB   60 MiB, or larger rows
    under way                       9        2        1

By default, 2 requests of 8 MiB, the budget is 48 MiB and one more request is put together. Where
rows have 20 MiB, each makes a request of its own, and one is under way at a time. It must not know
what the requests are.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from icdc_api.job.resources import ResourceKind
from icdc_api.spec.spark import parse_memory
from icdc_spark.opensearch.bulk.target import DEFAULT_MAX_BYTES, BulkTarget

LOG = logging.getLogger(__name__)

MIB = 1024 * 1024
JVM_BYTES = 384 * MIB
"""What a JVM needs beside its heap: the least that Spark itself adds to the heap of a pod."""
WORKER_BYTES = 192 * MIB
"""A worker without requests: 150 MiB, two batches of rows of 8 MiB included (`DEFAULT_CONF`)."""
WORKERS = 2
"""Workers of a task: the one that writes, and before it one that reads, where pyarrow does."""
COPIES = 2
"""Of each request: the one that may have to be sent again, and the one in the connection."""
REQUEST_BYTES = 8 * MIB
"""What a request takes beside its own bytes: a thread, the answer, and gaps in memory."""
LEAST_BYTES = 3 * (COPIES * DEFAULT_MAX_BYTES + REQUEST_BYTES)
"""For the requests of a task, however small the container is: two by default, and the next."""

CGROUP = Path("/sys/fs/cgroup")
PROCESS = Path("/proc/self/status")
# Of version 2, and of version 1.
_LIMIT_FILES = ("memory.max", "memory/memory.limit_in_bytes")


class RequestBudget:
    """The memory that the requests of one task may take while they are under way.

    For one thread: that which begins requests and awaits them.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: bytes of memory, of which each request takes `compute_cost`."""
        self.limit = limit
        self.used = 0
        """What the requests take that are under way."""
        self.peak = 0
        """The most of it until now."""

    def has_room(self, size: int) -> bool:
        """Return whether a request of `size` bytes may begin; always where none is under way."""
        return not self.used or self.used + compute_cost(size) <= self.limit

    def take(self, size: int) -> None:
        """Note that a request of `size` bytes begins."""
        self.used += compute_cost(size)
        self.peak = max(self.peak, self.used)

    def give_back(self, size: int) -> None:
        """Note that one has ended."""
        self.used -= compute_cost(size)


def compute_cost(size: int) -> int:
    """Return the memory that a request of `size` bytes takes while it is under way."""
    return COPIES * size + REQUEST_BYTES


def open_budget(target: BulkTarget) -> RequestBudget:
    """Return the budget of a task of this process."""
    limit = compute_limit(target.max_in_flight, target.max_bytes, measure_memory())
    fitting = max(1, limit // compute_cost(target.max_bytes))
    if fitting < target.max_in_flight:
        LOG.warning(
            "Bulk requests of a task at a time: %d, not %d (maxInFlight), because more of %d bytes "
            "(maxBytes) do not fit into the executor's memory beside its heap. Raise "
            "spark.executor.memoryOverhead in spec.spark.conf, or lower maxBytes.",
            fitting,
            target.max_in_flight,
            target.max_bytes,
        )
    return RequestBudget(limit)


def compute_limit(most: int, max_bytes: int, memory: int | None) -> int:
    """Return the memory for requests under way: at most that of `most` requests of `max_bytes`.

    `memory` is what a task has for all of its requests; None where nobody limits it. One more is
    put together while these are under way.
    """
    wanted = most * compute_cost(max_bytes)
    return wanted if memory is None else max(0, min(wanted, memory - compute_cost(max_bytes)))


def measure_memory(
    environment: Mapping[str, str] = os.environ, cgroup: Path = CGROUP
) -> int | None:
    """Return the bytes that each task of this executor has for requests.

    None where nobody limits them: outside of an executor's pod, or without a limit of memory. The
    names of the variables are those that Spark sets in the pods of executors.
    """
    left = _measure_left(environment, cgroup)
    return None if left is None else max(LEAST_BYTES, left - WORKERS * WORKER_BYTES)


def measure_worker(
    environment: Mapping[str, str] = os.environ, cgroup: Path = CGROUP, process: Path = PROCESS
) -> dict[str, list[int]]:
    """Return what this process took at its peak, and what each core has beside the heap.

    Nothing where there is no such limit.
    """
    left = _measure_left(environment, cgroup)
    if left is None or left <= 0:
        return {}
    # Not `getrusage`, in whose peak is that of the process that started this one.
    peak = process.read_text().partition("VmHWM:")[2].split()
    return {ResourceKind.PYTHON_WORKER: [int(peak[0]) * 1024, left]} if peak else {}


def _measure_left(environment: Mapping[str, str], cgroup: Path) -> int | None:
    """Return the bytes of the container for each core, without heap and JVM; None for no limit."""
    heap, cores = environment.get("SPARK_EXECUTOR_MEMORY"), environment.get("SPARK_EXECUTOR_CORES")
    if heap is None or cores is None:
        return None
    limit = _read_limit(cgroup)
    return None if limit is None else (limit - parse_memory(heap) - JVM_BYTES) // int(cores)


def _read_limit(cgroup: Path) -> int | None:
    for name in _LIMIT_FILES:
        try:
            text = (cgroup / name).read_text().strip()
        except OSError:
            continue
        # "max", and in version 1 a number beyond any memory, stand for no limit.
        return int(text) if text.isdigit() and int(text) < 1 << 60 else None
    return None
