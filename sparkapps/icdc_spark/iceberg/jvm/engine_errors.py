"""Recognise by the text of an error what Spark lost, and which setting it does not take.

A task's failure reaches the driver as text, and only the last of four attempts. None of these (a
lost executor, memory, disk or shuffle data, a wrong `spec.spark.conf`) is the fault of a table or
of its files, so they are looked for before anything else. Part of the
border in `errors`: it knows texts and class names, no exceptions.

Example: the text "ExecutorLostFailure (executor 5 exited ...) exit code 137" matches the patterns
of both OutOfMemory and NodeLost. OutOfMemory comes first: its message says which setting to raise.
"""

import re
from collections.abc import Set
from typing import NamedTuple

from icdc_api import redaction
from icdc_api.errors import (
    BadSpec,
    DiskFull,
    DriverLost,
    IcdcError,
    NodeLost,
    NoProgress,
    OutOfMemory,
)

CANCELLED = "cancelled by icdc: no progress"
"""The reason that Spark gives for a job which `table_jobs` has cancelled."""


class _Sign(NamedTuple):
    """One kind of loss."""

    pattern: re.Pattern[str]
    """Found in the text of the error."""
    error: type[IcdcError]
    """The error of the project that stands for it."""
    message: str
    """What a person reads: what happened, what happens next, and what to change. `{disk}` stands
    for the disk that the text names."""


_SCRATCH = r"/(?:icdc|blockmgr|spark|executor)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}"
"""A folder of a container on a scratch volume, or one of Spark: named by UUIDs, as no table is."""

_FOLDERS = (
    re.compile(rf"(/[^\s'\"()]*?){_SCRATCH}"),
    # Python's own words, with the file that could not be made.
    re.compile(r"\[Errno \d+\] [^\n:]+: '(/[^'\n]*)/[^'/\n]+'"),
)
"""Where a scratch file was."""

_TASK_HOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\w+)\)")
"""Where the last attempt of a task failed."""

_CATALOG_ERRORS = frozenset({"RESTException", "SQLException", "UncheckedSQLException"})
"""Errors of a catalog: a full disk in their text is the disk of the catalog, not of Spark."""

# The first that matches wins. A full disk stands before other losses: Spark may shut its context
# down because of it, and the text then holds both.
_SIGNS = (
    _Sign(
        # The files that it read were not at fault, and are not read again: they may be what hangs.
        re.compile(re.escape(CANCELLED)),
        NoProgress,
        "the step made no progress for too long and was cancelled; it is retried",
    ),
    _Sign(
        # Errors 28 and 122 of Linux: Python workers show the number.
        re.compile(r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]"),
        DiskFull,
        "{disk} is full: no bytes or no inodes are left; the run is retried. Give Spark room for "
        "shuffle and spill: larger spec.spark.localVolumes, or fewer bytes at once "
        "(maxBytesPerBatch)",
    ),
    _Sign(
        # Error 30 of Linux. A kernel does that to a disk that fails; other nodes have others.
        re.compile(r"Read-only file system|\[Errno 30\]"),
        NodeLost,
        "{disk} is read-only, most likely because it failed; the run is retried. If this happens "
        "again, take the node out of service",
    ),
    _Sign(
        # The JVM calls it an OutOfMemoryError, and more memory does not help.
        re.compile(
            r"unable to create (?:new )?native thread|can't start new thread"
            r"|Resource temporarily unavailable|\[Errno 11\]"
        ),
        OutOfMemory,
        "the container may not start more threads or processes; the run is retried. Raise the PID "
        "limit of its node (podPidsLimit of the kubelet), or lower spec.spark.executor.cores",
    ),
    _Sign(
        re.compile(r"SparkContext was shut ?down|SparkContext shutdown|stopped SparkContext"),
        DriverLost,
        "Spark ended the run, for example after too many lost executors; the run is retried",
    ),
    _Sign(
        # 137 is SIGKILL, mostly by the kernel; 52 is Spark's own code for an OutOfMemoryError.
        re.compile(r"exit(?:ed with)? (?:code|status) (?:137|52)\b|container OOM|OOMKilled"),
        OutOfMemory,
        "executors were killed because they ran out of memory; the run is retried. Raise "
        "spec.spark.executor.memory, or spark.executor.memoryOverhead in spec.spark.conf",
    ),
    _Sign(
        re.compile(
            r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|_LEGACY_ERROR_TEMP_2250"
            r"|Not enough memory to build and broadcast"
        ),
        OutOfMemory,
        "Spark ran out of heap; the run is retried. Raise spec.spark.executor.memory, or "
        "spec.spark.driver.memory if it was the driver",
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
        "a Python worker died, most likely because it ran out of memory; the run is retried. Raise "
        "spark.executor.memoryOverhead in spec.spark.conf",
    ),
    _Sign(
        re.compile(
            r"ExecutorLostFailure|FetchFailed|MetadataFetchFailed|BlockFetchException"
            r"|has failed the maximum allowable number of times|Failed to get broadcast_"
            r"|Max number of executor failures|Could not execute broadcast in"
            # A part of a comparison that an executor stored (`SnapshotReader.store`).
            r"|Checkpoint block \S+ not found"
            # An executor that is ending refuses the task, and all four attempts within moments.
            r"|RejectedExecutionException"
        ),
        NodeLost,
        "executors, or the data that they held, were lost; the run is retried",
    ),
    _Sign(
        re.compile(rf"(?:FileNotFound|NoSuchFile)[^\n]*{_SCRATCH}"),
        NodeLost,
        "Spark's scratch files were removed while it used them; the run is retried",
    ),
)


_WRONG_SETTING = re.compile(
    r"\[INVALID_CONF_VALUE[.\w]*\] The value '(?P<value>[^\n]*)' in the config "
    r"\"(?P<name>[^\"\n]+)\" is invalid\. (?P<why>[^\n]*?)(?: SQLSTATE: \w+)?$",
    re.MULTILINE,
)


def find_wrong_setting(text: str) -> BadSpec | None:
    """Return the error for a property whose value Spark does not take; None for other errors.

    "[INVALID_CONF_VALUE.TYPE_MISMATCH] The value '1.5s' in the config "spark.locality.wait" is
    invalid. It should be a/an 'time in MILLISECONDS' value. SQLSTATE: 22022" becomes "spec.spark.
    conf: spark.locality.wait: '1.5s': It should be a/an 'time in MILLISECONDS' value."
    """
    match = _WRONG_SETTING.search(text)
    if match is None:
        return None
    return BadSpec(f"spec.spark.conf: {match['name']}: {match['value']!r}: {match['why']}")


def find_meaning(classes: Set[str], text: str) -> tuple[type[IcdcError], str] | None:
    """Return the error that stands for what Spark lost, and its message; None for other errors.

    `classes` are the simple names of the classes of the error, `text` all of its texts.
    """
    for sign in _SIGNS:
        if sign.pattern.search(text):
            if sign.error is DiskFull and classes & _CATALOG_ERRORS:
                return None
            return sign.error, sign.message.replace("{disk}", _name_disk(text))
    return None


def _name_disk(text: str) -> str:
    """Return the disk that the text is about, as the subject of a sentence.

    the disk of /var/data/spark-local on executor 3 (10.244.0.7)
    a local disk of the driver (10.244.0.5)
    a local disk of driver or executors
    """
    matches = (pattern.search(text) for pattern in _FOLDERS)
    folder = next((redaction.hide_partition_values(match[1]) for match in matches if match), "")
    disk = f"the disk of {folder}" if folder else "a local disk"
    failed_on = _TASK_HOST.search(text)
    if failed_on is None:
        return disk if folder else f"{disk} of driver or executors"
    host, executor = failed_on.groups()
    # In local mode, and for jobs of the driver itself, Spark calls it an executor too.
    who = "the driver" if executor == "driver" else f"executor {executor}"
    return f"{disk} {'on' if folder else 'of'} {who} ({host})"
