"""Tells the executor of this container to hand over its blocks, and waits until it is gone.

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


def executors(proc: Path = PROC) -> list[int]:
    """Process ids of running executors; one that ended and was not waited for is none."""
    return [int(each.name) for each in proc.iterdir() if each.name.isdecimal() and _is(each)]


def _is(process: Path) -> bool:
    try:
        return EXECUTOR.encode() in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it ended while it was looked at


def main(proc: Path = PROC) -> int:
    """Sends Spark's signal for it, and returns when no executor is left."""
    asked = executors(proc)
    for process in asked:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGPWR)
    while set(asked) & set(executors(proc)):
        time.sleep(POLL_SECONDS)
    return 0
