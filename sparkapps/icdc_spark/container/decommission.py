"""Asks the executor of this container to hand over its blocks, and waits until it has ended.

Runs as the container's preStop hook, so it may take as long as the pod's grace period, and no
longer: Kubernetes ends it with the container.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from icdc_spark.container.commands import EXECUTOR

PROC = Path("/proc")
POLL_SECONDS = 0.2
"""Between two lists of the processes; a list costs a read of each command line."""


def list_executors(proc: Path = PROC) -> list[int]:
    """Return the ids of running executors; one that ended and was not waited for is none."""
    return [
        int(process.name)
        for process in proc.iterdir()
        if process.name.isdecimal() and _is_executor(process)
    ]


def _is_executor(process: Path) -> bool:
    try:
        return EXECUTOR.encode() in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended since it was listed


def main(proc: Path = PROC) -> int:
    """Send Spark's signal for decommissioning; return when no executor is left."""
    # The ids of now: an executor that is started later was not asked, and is not waited for.
    asked = list_executors(proc)
    for process in asked:
        with suppress(ProcessLookupError):
            # Spark migrates shuffle and cached blocks on SIGPWR, then exits by itself.
            os.kill(process, signal.SIGPWR)
    while set(asked) & set(list_executors(proc)):
        time.sleep(POLL_SECONDS)
    return 0
