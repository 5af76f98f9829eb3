"""Choose into how many tasks work is cut, so that all cores of a run are busy.

With dynamic allocation Spark adds executors only while tasks wait for one, so work that just fits
the cores that are there would never bring a second executor up:

| cores there | dynamic allocation | maxExecutors x cores | tasks |
|---|---|---|---|
| 4 | off | | 4 |
| 4 | on | no limit | 8 |
| 4 | on | 3 x 2 | 6 |
| 8 | on | 3 x 2 | 8 |

Files are read by as many tasks as have something to do. Iceberg would put 128 MiB of files into one
task, of which each counts 4 MiB at least. That suits queries, which scan a hundred times faster
than documents are made and indexed. With 16 cores:

| files | of Iceberg | of ours |
|---|---|---|
| 3 of 100 kB, 1,000 rows each | 1 task | 1 |
| 32 of 1 MiB, 12,500 rows each | 1 | 16 |
| 64 of 50 kB, 25,000 rows each | 2 | 16 |
| 16 of 64 MiB | 8 | 16 |
| 1 of 512 MiB in four row groups | 4 | 4 |

It must not know what is done with the rows.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from pyspark.sql import SparkSession

from icdc_spark.iceberg.scan.planning import FileGroup

_DYNAMIC, _MOST_EXECUTORS, _CORES = (
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors",
    "spark.executor.cores",
)

GROWTH = 2
"""Tasks for each core that is there, where more may come. The waiting ones bring more executors.
Where none come, a run that is lost repeats little."""

TASK_BYTES = 1024 * 1024
"""Compressed bytes that are worth a task of their own."""
TASK_ROWS = 10_000
"""Rows that are worth one: a second or so of an export, a hundred times what a task costs."""
OPEN_BYTES = 256 * 1024
"""What a file takes at least, in bytes read: it is opened, and its footer is read."""
_QUERY_OPEN_BYTES = 4 * 1024 * 1024
"""The same for a query, by Iceberg's default: it puts 32 files into one task at most. Nor do we put
more, for further cores may come while tasks wait."""


WAVE_SECONDS = 15.0
"""Time of a job of an export, about: what is lost with a run, and what is still written after the
export window. What a job costs beside its tasks is a small part of it."""
MOST_CHUNKS = 16
"""Chunks for each task of a job at most: a driver that is asked to end waits for all of them."""
MOST_FILES = 10_000
"""Data files of a job, about: the driver holds those of all its chunks, 7 MB, and as many more from
which chunks are cut. Chunks of tiny files have 2,000 each, and a driver may have many cores."""


Part = TypeVar("Part")


class Packing(NamedTuple):
    """How files are packed into tasks."""

    task_bytes: int
    """A task reads so many at most; a file with more is cut where its format allows it."""
    file_bytes: int
    """A file counts so many at least, and each of its delete files as well."""


class Waves:
    """Says how many chunks of an export the next job writes, so that it takes WAVE_SECONDS."""

    def __init__(
        self, executors: int | None, clock: Callable[[], float] = lambda: time.monotonic()
    ) -> None:
        """Begin; `executors` divide the limits of the writes among them, None without limits."""
        # The clock by a call: simulations put theirs in the place of `time.monotonic`.
        self._executors, self._clock = executors, clock
        self._last: tuple[int, float] | None = None

    def take(
        self, chunks: Iterator[Part], tasks: int, count_files: Callable[[Part], int]
    ) -> list[Part]:
        """Take the chunks of the job that begins now from all that are left; none where none is.

        As many as `count_chunks` says, but fewer where they have MOST_FILES together.
        """
        taken, files, count = list[Part](), 0, self.count_chunks(tasks)
        for chunk in islice(chunks, count):
            taken.append(chunk)
            files += count_files(chunk)
            if files >= MOST_FILES:
                break
        if self._last is not None:
            self._last = len(taken), self._last[1]
        return taken

    def count_chunks(self, tasks: int) -> int:
        """Return the chunks of the job that begins now, on `tasks` cores; the last one has ended.

        Example, 16 tasks without limits: 16 chunks, which take 3 s; 80, which take 15 s; 80. With
        limits that two executors divide: 2 chunks, which take 20 s; 2, which take 15 s; 2.
        """
        # All tasks are busy. Where what is allowed is divided among executors, fewer chunks than
        # executors would take as long.
        least = tasks if self._executors is None else min(tasks, self._executors)
        now, count = self._clock(), least
        if self._last is not None:
            before, began = self._last
            # By the clock: how many bytes a row has in the index is not known beforehand.
            count = int(before * WAVE_SECONDS / max(now - began, 1.0))
        # Equal numbers for all tasks, or some would wait for others at the end.
        count -= count % tasks if count > tasks else 0
        count = max(least, min(count, MOST_CHUNKS * tasks))
        self._last = count, now
        return count


def count_tasks(session: SparkSession) -> int:
    """Return the number of tasks for the next job."""
    # One by one: `SparkContext.getConf` copies all properties, which takes some 20 ms.
    values = {name: session.conf.get(name, None) for name in (_DYNAMIC, _MOST_EXECUTORS, _CORES)}
    conf = {name: value for name, value in values.items() if value is not None}
    # Counted for each job: executors come and go.
    return compute_task_count(session.sparkContext.defaultParallelism, conf)


def compute_task_count(cores: int, conf: Mapping[str, str]) -> int:
    """Return the number of tasks for `cores` that are there and the application's properties."""
    cores = max(1, cores)
    if conf.get(_DYNAMIC, "false").lower() != "true":
        return cores
    most = conf.get(_MOST_EXECUTORS, "")
    # On Kubernetes an executor has one core by the default of Spark.
    limit = int(most) * int(conf.get(_CORES, "1")) if most else GROWTH * cores
    # Never fewer than the cores that are there, also where a limit was lowered under them.
    return max(cores, min(GROWTH * cores, limit))


def count_reading_tasks(session: SparkSession, group: FileGroup, most: int | None = None) -> int:
    """Return how many tasks should read a group of files: one where there is little to read.

    `most` are the tasks that it is worth at most; None for those of `count_tasks`.
    """
    size = group.bytes + group.files * OPEN_BYTES
    worth = max(size // TASK_BYTES, group.records // TASK_ROWS)
    return 1 if worth <= 1 else min(worth, most or count_tasks(session))


def compute_packing(sizes: Sequence[int], tasks: int, most: int) -> Packing:
    """Return how to pack files so that about `tasks` read all of them.

    `sizes` are those of the files, in bytes, each at least OPEN_BYTES. `most` is the limit that a
    table sets for one task. A task gets an equal number of files, or fewer if some are large.

    Example, 16 tasks:

        64 files of 1 MiB                   4 in each; half of one is left for larger ones
        40 files of 1 MiB                   3 in each
        64 files of 1 MiB, 1 of 136 MiB     5 files of the average, 3 MiB, are a task: 13 tasks, and
                                            1 for each row group of the large file
        1 file of 512 MiB                   parts of 32 MiB
    """
    if not sizes:
        return Packing(most, OPEN_BYTES)
    total, files = sum(sizes), len(sizes)
    if files < tasks:
        return Packing(min(most, -(-total // tasks)), OPEN_BYTES)
    count = min(-(-files // tasks), max(1, most // _QUERY_OPEN_BYTES))
    # Small files count as the average: else all of them would be one task beside large ones. But no
    # more than for Iceberg, since each row group of a file that is cut counts as much.
    average = -(-total // files)
    # Files of about one size: without slack a task could not hold `count` of the larger ones.
    slack = average // 2 if count > 1 and count * tasks - files < tasks // 4 else 0
    return Packing(
        min(most, count * average + slack), max(OPEN_BYTES, min(_QUERY_OPEN_BYTES, average))
    )
