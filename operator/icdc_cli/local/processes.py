"""Which processes belong to a run, and how to end them.

A run is a tree: the driver, the JVM that it starts, and Python workers that send to OpenSearch.
The workers leave the driver's process group, and an orphan outlives its parent, so neither the
group nor the parent's exit code proves that nobody writes any more. What every descendant keeps
is the environment: a run is known by a marker in it. This module knows no Spark.
"""

import os
import signal
import subprocess
from pathlib import Path

MARKER_VARIABLE = "ICDC_RUN_MARKER"
"""Environment variable whose value is unique to a run; inherited by all of its processes."""

PROC = Path("/proc")


def members(marker: str) -> list[int]:
    """The ids of the live processes that carry `marker`; a zombie writes nothing and is not one."""
    if PROC.is_dir():
        entry = f"{MARKER_VARIABLE}={marker}".encode()
        return [pid for pid in _all_pids() if entry in _environment(pid)]
    return _members_by_ps(marker)


def kill(marker: str) -> None:
    """Ends every process of the run at once; returns before they are gone."""
    for pid in members(marker):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> list[bytes]:
    """Empty for a zombie, for a process that has just ended and for one of another user."""
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _members_by_ps(marker: str) -> list[int]:
    """The same on hosts without /proc (macOS), where `ps -E` shows the environment."""
    listing = subprocess.run(
        ["ps", "-A", "-E", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    entry = f"{MARKER_VARIABLE}={marker}"
    lines = (line.split() for line in listing.stdout.splitlines())
    return [int(words[0]) for words in lines if entry in words]
