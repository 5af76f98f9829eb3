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

It must not know what the tasks do.
"""

from collections.abc import Mapping, Sequence

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
"""The same for a query, by Iceberg's default. So 32 files are one task at most, for which further
cores may come while it waits."""


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
    limit = int(most) * int(conf.get(_CORES, "1")) if most else GROWTH * cores
    # Never fewer than the cores that are there, also where a limit was lowered under them.
    return max(cores, min(GROWTH * cores, limit))


def count_reading_tasks(session: SparkSession, group: FileGroup) -> int:
    """Return how many tasks should read a group of files: one where there is little to read."""
    size = group.bytes + group.files * OPEN_BYTES
    worth = max(size // TASK_BYTES, group.records // TASK_ROWS)
    return 1 if worth <= 1 else min(worth, count_tasks(session))


def compute_split_bytes(sizes: Sequence[int], tasks: int, most: int) -> int:
    """Return how many bytes of files one task reads, so that about `tasks` read all of them.

    `sizes` are those of the files, in bytes, each at least OPEN_BYTES. `most` is the limit that a
    table sets. There are never fewer tasks than Iceberg would make.

    Example: 5 files of 10 MiB and 2 tasks. Two and a half files are 25 MiB, into which two fit, so
    three tasks would be needed: three files, 30 MiB.
    """
    if not sizes:
        return most
    total, files = sum(sizes), len(sizes)
    if files < tasks:
        # Files are read in parts.
        return min(most, max(1, -(-total // tasks)))
    of_a_task = min(-(-files // tasks), max(1, most // _QUERY_OPEN_BYTES))
    return min(most, max(1, -(-of_a_task * total // files)))
