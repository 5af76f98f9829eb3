"""Read all files of a snapshot, a bounded number of them at a time.

A frame holds a task for each file that it reads, in the driver, until its last action: of a million
files that is more than the driver has. So a snapshot of many files is read in parts, as an export
is written in chunks. Each part is computed at once, what is made of its rows stays with the
executors (in memory, else on local disk), and the driver forgets the files.

Example, parts of up to 10,000 files:

    files of the snapshot   read as               computed
    8,000                   one frame             by the first action on it, like any frame
    25,000                  10,000, 10,000, 5,000 one after the other, before this returns

Nothing can compute a stored part again: with an executor that takes one along, the run is lost
(NodeLost) and repeated. It must not know what is made of the rows.
"""

import gc
from collections.abc import Callable
from functools import reduce
from itertools import chain

from pyspark.sql import DataFrame

from icdc_spark.iceberg.scan.ordered_scan import WINDOW_FILES
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.snapshot_reader import SnapshotReader

PART_FILES = WINDOW_FILES
"""Data files of a part, unless manifests are cut so that it has fewer."""


def read_whole(reader: SnapshotReader, build: Callable[[FileGroup], DataFrame]) -> DataFrame:
    """Return what `build` makes of all files of the snapshot, until the reader is closed.

    `build` gets the files of a part. It is made of each part by itself,
    and returned together.
    """
    groups = reader.iterate_groups(PART_FILES)
    first, second = next(groups, None), next(groups, None)
    if second is None:
        return build(first or reader.empty_group)
    parts = []
    for group in chain(filter(None, (first, second)), groups):
        parts.append(reader.store(build(group)))
        reader.release(group)
        # py4j makes a cycle for each Java object, and Spark's plan of the part holds the files.
        gc.collect()
    return reduce(DataFrame.unionByName, parts)
