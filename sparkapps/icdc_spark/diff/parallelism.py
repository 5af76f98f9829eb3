"""Choose into how many tasks work is cut, so that all cores of a run are busy.

With dynamic allocation Spark adds executors only while tasks wait for one, so work that just fits
the cores that are there would never bring a second executor up:

| cores there | dynamic allocation | maxExecutors x cores | tasks |
|---|---|---|---|
| 4 | off | | 4 |
| 4 | on | no limit | 8 |
| 4 | on | 3 x 2 | 6 |
| 8 | on | 3 x 2 | 8 |

It must not know what the tasks do.
"""

from collections.abc import Mapping

from pyspark import SparkContext

_PREFIX = "spark.dynamicAllocation."

GROWTH = 2
"""Tasks for each core that is there, where more may come. The waiting ones bring more executors.
Where none come, a run that is lost repeats little."""


def count_tasks(context: SparkContext) -> int:
    """Return the number of tasks for the next job."""
    # Read for each job: executors come and go.
    return compute_task_count(context.defaultParallelism, dict(context.getConf().getAll()))


def compute_task_count(cores: int, conf: Mapping[str, str]) -> int:
    """Return the number of tasks for `cores` that are there and the application's properties."""
    cores = max(1, cores)
    if conf.get(f"{_PREFIX}enabled", "false").lower() != "true":
        return cores
    most = conf.get(f"{_PREFIX}maxExecutors", "")
    limit = int(most) * int(conf.get("spark.executor.cores", "1")) if most else GROWTH * cores
    # Never fewer than the cores that are there, also where a limit was lowered under them.
    return max(cores, min(GROWTH * cores, limit))
