"""Spaces requests, so that an application sends no more than its pipeline allows in a second.

Each executor has an equal share of the limit, however many of them there are at the moment. Its
tasks are processes that share the clock and the files of their host: so the time from which on the
next request may be sent is in a file, and each task reserves its time there, under a lock. What
nobody used is lost, and makes no burst later. It must not know what the requests are.

Example, 100 documents a second, requests of 50:

    at second   asked by   in the file   sent at   in the file after it
    10.0        task 1     -             10.0      10.5
    10.1        task 2     10.5          10.5      11.0
    10.2        task 1     11.0          11.0      11.5
    20.0        task 2     11.5          20.0      20.5
"""

import fcntl
import math
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from icdc_api.spec.sink import SinkLimits

DRIVER_PART = 0.05
"""Of an executor's share, for the driver: it only deletes older documents of refused rows."""
FILE_NAME = "icdc-pace"
_NUMBER = struct.Struct("d")


@dataclass(frozen=True)
class SendRate:
    """What may be sent in a second; infinite where nothing limits it."""

    documents: float = math.inf
    """Documents, deletions included."""
    bytes: float = math.inf
    """Bytes of bodies of requests."""

    def divide(self, parts: float) -> "SendRate":
        """Return one of so many equal parts."""
        return SendRate(self.documents / parts, self.bytes / parts)

    def compute_seconds(self, documents: int, size: int) -> float:
        """Return the time that so many documents take, of so many bytes together."""
        return max(documents / self.documents, size / self.bytes)


@dataclass(frozen=True)
class Pace:
    """The share of one process and those beside it."""

    rate: SendRate
    """What all of them together may send."""
    folder: str | None = None
    """Where the file is by which they share it; None for that of the executor's own files."""

    def limit_request(self, documents: int, size: int) -> tuple[int, int]:
        """Return the documents and bytes of a request: those of a second, at most those given."""
        # One at least: it cannot be cut, and waits for longer.
        most = max(1, int(min(documents, self.rate.documents)))
        return most, max(1, int(min(size, self.rate.bytes)))

    def reserve(
        self, documents: int, size: int, *, clock: Callable[[], float] = time.monotonic
    ) -> float:
        """Reserve the time of a request; return the seconds until it may be sent.

        `clock`: seconds, the same for all processes of the host. OSError where the file cannot be
        written.
        """
        # Spark gives its workers the folders of their own executor, and removes them with it.
        folder = self.folder or os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
        file = os.open(Path(folder) / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            stored = os.pread(file, _NUMBER.size, 0)
            now = clock()
            sent_at = max(now, _NUMBER.unpack(stored)[0] if stored else now)
            free_at = sent_at + self.rate.compute_seconds(documents, size)
            os.pwrite(file, _NUMBER.pack(free_at), 0)
        finally:
            # Closing it also gives the lock back.
            os.close(file)
        return sent_at - now


def build_rate(limits: SinkLimits | None) -> SendRate | None:
    """Return what the spec allows in a second; None where nothing is limited."""
    if limits is None or not (limits.documents_per_second or limits.bytes_per_second):
        return None
    return SendRate(limits.documents_per_second or math.inf, limits.bytes_per_second or math.inf)


def share_out(limit: SendRate, executors: int) -> tuple[SendRate, SendRate]:
    """Return the shares of each of so many executors, and of the driver.

    Example, 1,000 documents a second, 2 executors: 487.8 for each of them, 24.4 for the driver.
    """
    share = limit.divide(executors + DRIVER_PART)
    return share, share.divide(1 / DRIVER_PART)
