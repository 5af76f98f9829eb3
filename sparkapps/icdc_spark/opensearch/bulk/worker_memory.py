"""Bounds the bulk requests of a task by the memory that its container leaves to a Python worker.

An executor's container holds the heap of the JVM, what the JVM needs beside it, and a Python worker
for each core. A worker that sends more and larger requests than fit there ends the whole container
as out of memory. Requests of the default size, two at a time, are sent whatever there is.

    container 5.6 GiB, heap 4g, 2 cores: 435 MiB of each worker are for requests
    maxBytes   8 MiB   32 MiB   100 MiB
    requests      17        5         1

It must not know what the requests are.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from icdc_api.spec.spark import parse_memory
from icdc_spark.opensearch.bulk.target import DEFAULT_MAX_BYTES, BulkTarget

LOG = logging.getLogger(__name__)

MIB = 1024 * 1024
JVM_BYTES = 384 * MIB
"""What a JVM needs beside its heap: the least that Spark itself adds to the heap of a pod."""
WORKER_BYTES = 192 * MIB
"""A worker without requests: 150 MiB, two batches of rows of 8 MiB included (`DEFAULT_CONF`)."""
COPIES = 2
"""Of each request: the one that may have to be sent again, and the one in the connection."""
REQUEST_BYTES = 8 * MIB
"""What a request takes beside its own bytes: a thread, the answer, and gaps in memory."""
LEAST_BYTES = 3 * (COPIES * DEFAULT_MAX_BYTES + REQUEST_BYTES)
"""For the requests of a worker, however small the container is: two by default, and the next."""

CGROUP = Path("/sys/fs/cgroup")
# Of version 2, and of version 1.
_LIMIT_FILES = ("memory.max", "memory/memory.limit_in_bytes")


def fit(target: BulkTarget) -> BulkTarget:
    """Return the target with as many requests at a time as this worker has memory for."""
    requests = count_requests(
        most=target.max_in_flight, max_bytes=target.max_bytes, budget=measure_budget()
    )
    if requests < target.max_in_flight:
        LOG.warning(
            "Bulk requests of a task at a time: %d, not %d (maxInFlight), because more of %d bytes "
            "(maxBytes) do not fit into the executor's memory beside its heap. Raise "
            "spark.executor.memoryOverhead in spec.spark.conf, or lower maxBytes.",
            requests,
            target.max_in_flight,
            target.max_bytes,
        )
    return replace(target, max_in_flight=requests)


def count_requests(*, most: int, max_bytes: int, budget: int | None) -> int:
    """Return how many requests of `max_bytes` may be under way: at most `most`, at least one.

    `budget` are the bytes that a worker has for requests; None stands for no limit.
    """
    if budget is None:
        return most
    # One more is being put together while these are under way.
    fitting = budget // (COPIES * max_bytes + REQUEST_BYTES) - 1
    return max(1, min(most, fitting))


def measure_budget(
    environment: Mapping[str, str] = os.environ, cgroup: Path = CGROUP
) -> int | None:
    """Return the bytes that each worker of this executor has for requests.

    None where nobody limits them: outside of an executor's pod, or without a limit of memory. The
    names of the variables are those that Spark sets in the pods of executors.
    """
    heap, cores = environment.get("SPARK_EXECUTOR_MEMORY"), environment.get("SPARK_EXECUTOR_CORES")
    if heap is None or cores is None:
        return None
    limit = _read_limit(cgroup)
    if limit is None:
        return None
    left = limit - parse_memory(heap) - JVM_BYTES
    return max(LEAST_BYTES, left // int(cores) - WORKER_BYTES)


def _read_limit(cgroup: Path) -> int | None:
    for name in _LIMIT_FILES:
        try:
            text = (cgroup / name).read_text().strip()
        except OSError:
            continue
        # "max", and in version 1 a number beyond any memory, stand for no limit.
        return int(text) if text.isdigit() and int(text) < 1 << 60 else None
    return None
