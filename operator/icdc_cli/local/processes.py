"""Find the processes that belong to a run, and end them.

A run is a tree: the driver, the JVM that it starts, and Python workers that send to OpenSearch.
The workers leave the driver's process group, and an orphan outlives its parent, so neither the
group nor the parent's exit code proves that nobody writes any more. What every descendant keeps
is the environment: a run is known by a marker in it. This module knows no Spark.

    pid   parent  group  environment                       what it is
    4101  4000    4101   ICDC_RUN_MARKER=…/shop-c4-1@17…   driver, child of `icdc`
    4120  4101    4101   the same, inherited               JVM
    4180  4120    4180   the same, inherited               pyspark's daemon, a group of its own
    4181  4180    4180   the same, inherited               worker, in the middle of a bulk request
    4101 is killed: 4120 and 4181 go on, with parent 1 or a reaper; the marker still names them
"""

import os
import signal
from pathlib import Path

from icdc_cli.embedded import programs

MARKER_VARIABLE = "ICDC_RUN_MARKER"
"""Environment variable whose value is unique to a run; inherited by all of its processes."""

PROC = Path("/proc")
_PS_SECONDS = 60
"""For `ps` to list all processes of the host; only a host that hangs takes so long."""


def list_members(marker: str) -> list[int]:
    """Return the ids of live processes with `marker`; without zombies, which write nothing."""
    if PROC.is_dir():
        # As a whole entry: the marker of epoch 17 is also the beginning of that of epoch 170.
        entry = f"{MARKER_VARIABLE}={marker}".encode()
        return [pid for pid in _list_pids() if entry in _read_environment(pid)]
    return _list_by_ps(marker)


def kill(marker: str) -> None:
    """Send SIGKILL to every process of the run; return before they have ended.

    A process that is forked meanwhile is missed: who must be sure calls `list_members` again, as
    the loop of a runner does. Ids are not reused within the moment between list and signal.
    """
    for pid in list_members(marker):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _list_pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def _read_environment(pid: int) -> list[bytes]:
    """Read a process's environment; empty for a zombie, an ended one and one of another user."""
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _list_by_ps(marker: str) -> list[int]:
    """Return the ids as `list_members` does, by `ps -E`, on hosts without /proc (macOS)."""
    command = ["ps", "-A", "-E", "-ww", "-o", "pid=,command="]
    listing = programs.run_program(command, name="ps", seconds=_PS_SECONDS)
    # One text for command and environment, so a marker with a space in its path is not found here.
    entry = f"{MARKER_VARIABLE}={marker}"
    lines = (line.split() for line in listing.splitlines())
    return [int(words[0]) for words in lines if entry in words]
