"""The cgroup below which all pods of a node are, in either version of cgroups.

By it their processes are found, whoever started them.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from icdc_testing.real_cluster.host.layout import ClusterNode
from icdc_testing.waiting import wait

_ROOT = Path("/sys/fs/cgroup")
_COPIED = ("cpuset.cpus", "cpuset.mems")
_EMPTY_SECONDS = 30.0


def make(node: ClusterNode) -> None:
    """Make the cgroup, in each hierarchy; the kubelet wants it to be there."""
    for top in _list_hierarchies():
        folder = top / node.cgroup
        folder.mkdir(exist_ok=True)
        for name in _COPIED:
            # Version 1 takes no process into a cpuset without processors.
            own, above = folder / name, top / name
            if above.exists() and not own.read_text(encoding="utf-8").strip():
                own.write_text(above.read_text(encoding="utf-8"), encoding="utf-8")


def list_processes(node: ClusterNode) -> set[int]:
    """Return every process in it and below."""
    pids: set[int] = set()
    for folder in _list_folders(node):
        with contextlib.suppress(FileNotFoundError):
            lines = (folder / "cgroup.procs").read_text(encoding="utf-8").split()
            pids |= {int(pid) for pid in lines}
    return pids - {0}


def remove(node: ClusterNode) -> None:
    """Remove it and all below; its processes must have ended."""
    wait.wait_until(
        lambda: _is_removed(node), "the cgroup of the pods is empty", seconds=_EMPTY_SECONDS
    )


def exists(node: ClusterNode) -> bool:
    """Return whether the node's cgroup exists."""
    return any(_list_folders(node))


def _is_removed(node: ClusterNode) -> bool:
    # From below: the deepest have the longest paths.
    for folder in sorted(_list_folders(node), key=lambda path: len(path.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
    return not exists(node)


def _list_folders(node: ClusterNode) -> Iterator[Path]:
    for top in _list_hierarchies():
        own = top / node.cgroup
        if own.is_dir():
            yield own
            yield from (path for path in own.rglob("*") if path.is_dir())


def _list_hierarchies() -> list[Path]:
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in _ROOT.iterdir() if (path / "cgroup.procs").exists()]
