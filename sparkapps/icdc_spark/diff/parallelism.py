"""How many tasks to cut work into, so that all cores of the run are busy.

With dynamic allocation Spark adds executors only while tasks wait for one, so work that fits the
cores that are there would never bring a second executor up.
"""

from collections.abc import Mapping

from pyspark import SparkContext

_PREFIX = "spark.dynamicAllocation."
GROWTH = 2
"""Tasks for each core that is there, where more may come: what waits brings them, and a run that
gets none repeats little of it when it is lost."""


def slots(context: SparkContext) -> int:
    """Tasks for the next job; to be asked for each job, as executors come and go."""
    return tasks(context.defaultParallelism, dict(context.getConf().getAll()))


def tasks(cores: int, conf: Mapping[str, str]) -> int:
    """The same for so many cores that are there, and the properties of the application."""
    cores = max(1, cores)
    if conf.get(f"{_PREFIX}enabled", "false").lower() != "true":
        return cores
    most = conf.get(f"{_PREFIX}maxExecutors", "")
    limit = int(most) * int(conf.get("spark.executor.cores", "1")) if most else GROWTH * cores
    return max(cores, min(GROWTH * cores, limit))
