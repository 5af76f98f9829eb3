"""Live processes of this host, as /proc shows them: what they are, and what they talk to.

Knows how Spark's Python workers are forked; which run a process belongs to is not known here.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from icdc_spark.iceberg.jvm.session import APPLICATION_CONF

PROC = Path("/proc")


def read_command(pid: int) -> list[str]:
    """Return the command line of a process; one empty word when it has ended."""
    try:
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return [""]


def read_name(pid: int) -> str:
    """Return the name of the program of a process; empty when it is gone."""
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def kill(pid: int) -> None:
    """Kill it by SIGKILL; a process that has just ended is as good as killed."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def list_python_workers(root: int | None = None) -> list[int]:
    """Return Python workers below a process (this one unless given), or the daemon that forks
    them."""
    daemons = {pid for pid in list_descendants(root or os.getpid()) if _is_pyspark_daemon(pid)}
    workers = {pid for pid in daemons if _read_parent(pid) in daemons}
    return sorted(workers or daemons)


def find_connected(pids: list[int], port: int) -> list[int]:
    """Return the processes that have a connection to a local port: they are at work there."""
    sockets = set(list_sockets_to(port))
    return [pid for pid in pids if sockets & set(_list_open_sockets(pid))]


def _is_pyspark_daemon(pid: int) -> bool:
    return APPLICATION_CONF["spark.python.daemon.module"] in read_command(pid)


def list_descendants(root: int) -> list[int]:
    """Return the processes below one, without it."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            children.setdefault(_read_parent(int(entry.name)), []).append(int(entry.name))
    pids, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        pids += below
        waiting += below
    return pids


def _read_parent(pid: int) -> int:
    try:
        # The name in brackets may hold blanks: what follows it is state and parent.
        after_name = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(after_name[1])


def list_sockets_to(port: int) -> Iterator[str]:
    """Yield inodes of the sockets whose peer is that port."""
    for table in ("tcp", "tcp6"):
        for line in (PROC / "net" / table).read_text().splitlines()[1:]:
            words = line.split()
            if int(words[2].rpartition(":")[2], 16) == port:
                yield words[9]


def _list_open_sockets(pid: int) -> Iterator[str]:
    try:
        entries = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            target = str(entry.readlink())
            if target.startswith("socket:["):
                yield target.removeprefix("socket:[").removesuffix("]")
