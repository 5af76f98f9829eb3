"""The parent of Spark's Python workers, in place of pyspark's own: it only starts them cheaper.

Workers are forked from this process, so what every task imports is imported here, once. And Spark
puts its core jar on Python's path, whose directory of some thousand entries each task would read
anew; no Python lies in it. Must not know what tasks do, nor open anything that a fork would share.
"""

import gc
import sys
from collections.abc import Callable

import pyarrow  # noqa: F401
from pyspark import daemon

import icdc_spark.comparison
import icdc_spark.opensearch.sink  # noqa: F401


def without_jars() -> None:
    """Takes jars off the path on which Python looks for modules."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".jar")]
    for entry in [each for each in sys.path_importer_cache if each.endswith(".jar")]:
        del sys.path_importer_cache[entry]


def main() -> None:
    """Forks workers until Spark ends it."""
    without_jars()
    # What is loaded by now is for ever: workers need neither copy nor search it.
    gc.freeze()
    manager: Callable[[], None] = daemon.manager
    manager()


if __name__ == "__main__":
    main()
