"""What Spark says when it loses executors, memory, disk or shuffle data: mostly words alone.

A task's failure reaches the driver as text, and only the last of four attempts. None of these is
the fault of a table or a file of it, so they are looked for before anything else is.

Part of the border in `errors`; it knows texts and names of classes, no exceptions.
"""

import re
from collections.abc import Set
from typing import NamedTuple

from icdc_api.errors import DiskFull, DriverLost, IcdcError, NodeLost, OutOfMemory


class _Sign(NamedTuple):
    """One kind of failure: what its text holds, and what a person reads."""

    pattern: re.Pattern[str]
    error: type[IcdcError]
    words: str


_SCRATCH = r"/(?:blockmgr|spark|executor)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}"
"""A folder below `spark.local.dir`: Spark names them by UUIDs, tables do not."""

_OF_A_SERVER = frozenset({"RESTException", "SQLException", "UncheckedSQLException"})
"""Who speaks of a full disk may be the catalog, and means its own."""

# The first that matches wins. A context that was shut down may tell of what came before it.
_SIGNS = (
    _Sign(
        re.compile(r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]"),
        DiskFull,
        "a disk of driver or executors is full; it is retried. Give Spark room for shuffle and "
        "spill: larger spec.spark.localVolumes, or fewer bytes at once (maxBytesPerBatch)",
    ),
    _Sign(
        re.compile(r"SparkContext was shut ?down|SparkContext shutdown|stopped SparkContext"),
        DriverLost,
        "Spark has given up the run, such as for losing too many executors; the run is retried",
    ),
    _Sign(
        re.compile(r"exit(?:ed with)? (?:code|status) (?:137|52)\b|container OOM|OOMKilled"),
        OutOfMemory,
        "executors were killed for memory; it is retried. Raise spec.spark.executor.memory, or "
        "spark.executor.memoryOverhead in spec.spark.conf",
    ),
    _Sign(
        re.compile(
            r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|_LEGACY_ERROR_TEMP_2250"
            r"|Not enough memory to build and broadcast"
        ),
        OutOfMemory,
        "Spark ran out of heap; it is retried. Raise spec.spark.executor.memory, or "
        "spec.spark.driver.memory where the driver did",
    ),
    _Sign(
        re.compile(r"bigger than spark\.driver\.maxResultSize"),
        OutOfMemory,
        "the results of a job are too large for the driver; raise spec.spark.driver.memory and "
        "spark.driver.maxResultSize in spec.spark.conf",
    ),
    _Sign(
        re.compile(
            r"Python worker (?:exited unexpectedly|failed to connect back|process terminated)"
            r"|^(?:MemoryError|pyarrow\.lib\.ArrowMemoryError)\b|\[Errno 12\]",
            re.MULTILINE,
        ),
        OutOfMemory,
        "a Python worker died, most likely for memory; it is retried. Raise "
        "spark.executor.memoryOverhead in spec.spark.conf",
    ),
    _Sign(
        re.compile(
            r"ExecutorLostFailure|FetchFailed|MetadataFetchFailed|BlockFetchException"
            r"|has failed the maximum allowable number of times|Failed to get broadcast_"
            r"|Max number of executor failures|Could not execute broadcast in"
            # An executor that is ending refuses the task, and all of its attempts within moments.
            r"|RejectedExecutionException"
        ),
        NodeLost,
        "executors, or the shuffle data that they held, were lost; it is retried",
    ),
    _Sign(
        re.compile(rf"(?:FileNotFound|NoSuchFile)[^\n]*{_SCRATCH}"),
        NodeLost,
        "Spark's own scratch files were removed under it; it is retried",
    ),
)


def meaning(classes: Set[str], text: str) -> tuple[type[IcdcError], str] | None:
    """The error that stands for what Spark lost, and its words; None where it lost nothing."""
    for sign in _SIGNS:
        if sign.pattern.search(text):
            if sign.error is DiskFull and classes & _OF_A_SERVER:
                return None
            return sign.error, sign.words
    return None
