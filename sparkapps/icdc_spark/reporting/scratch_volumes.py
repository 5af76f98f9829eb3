"""Measures how full the volumes are on which Spark stores shuffles and spills.

A volume of the node (`spec.spark.localVolumes[].hostPath`) is shared with other containers. What
counts is how much room is left for all of them, so the volume is measured, and not what this
container has stored there. It must not know what Spark stores.
"""

import os
from collections.abc import Mapping

from icdc_api.job.resources import ResourceKind

VARIABLE = "SPARK_LOCAL_DIRS"
"""Names the directories, with commas in between; see `container.scratch`."""


def measure_scratch(environment: Mapping[str, str] = os.environ) -> dict[str, list[int]]:
    """Return the used bytes and the size of the volume that has the smallest share left.

    Nothing outside of a container of Spark, nor of a volume that cannot be asked.
    """
    volumes = list[tuple[float, list[int]]]()
    for path in filter(None, environment.get(VARIABLE, "").split(",")):
        try:
            found = os.statvfs(path)
        except OSError:
            continue
        # Without what is reserved for root, which Spark is not.
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        size = used + found.f_bavail * found.f_frsize
        if size:
            volumes.append((used / size, [used, size]))
    return {ResourceKind.SCRATCH_VOLUME: max(volumes)[1]} if volumes else {}
