"""Gives a container a directory of its own on each scratch volume, and removes those of dead ones.

A volume of the node (`spec.spark.localVolumes[].hostPath`) is shared by the containers of many
pipelines, and outlives them. What an executor that is killed leaves there, its JVM cannot remove;
the next container on that node does:

    local-1/icdc-3f0c…    locked: its container is alive, nothing is touched
    local-1/icdc-91ab…    not locked: its container has ended, it is removed
    local-1/icdc-77d2…    ours from now on, and locked
    local-1/blockmgr-…    not one of these directories: nothing is touched

The lock (`flock`) is on the directory, held by the first process of the container, and the kernel
releases it when that process ends, however it ends. So neither clocks nor process ids count, which
differ between containers. It must not know what Spark stores there.
"""

import fcntl
import os
import re
import shutil
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "SPARK_LOCAL_DIRS"
"""Names the scratch volumes, with commas in between; Spark sets it in its pods."""
_OURS = re.compile(r"icdc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def claim(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with a directory of this process in place of each scratch volume.

    The directories are locked until this process, or the program that it becomes, ends. What dead
    containers have left beside them is removed before. A volume on which no directory can be made
    stays as it is: Spark says what is wrong with it.
    """
    volumes = [volume for volume in environment.get(VARIABLE, "").split(",") if volume]
    if not volumes:
        return dict(environment)
    own = []
    for volume in map(Path, volumes):
        _remove_dead(volume)
        own.append(str(_make(volume)))
    return {**environment, VARIABLE: ",".join(own)}


def _make(volume: Path) -> Path:
    """Return a new directory that is locked; the volume itself where none can be made."""
    while True:
        path = volume / f"icdc-{uuid.uuid4()}"
        try:
            path.mkdir(mode=0o700)
            descriptor = _open(path)
        except FileNotFoundError:
            if not volume.exists():
                return volume
            continue  # taken for a dead one before it was locked
        except OSError as error:
            _say(f"{path} cannot be made: {error.strerror}")
            return volume
        # Two may think that they have it: whoever removes it, and we. The one with the lock has.
        if _lock(descriptor) is not False and _is_same(path, descriptor):
            os.set_inheritable(descriptor, True)
            return path
        os.close(descriptor)


def _remove_dead(volume: Path) -> None:
    """Remove the directories of containers that have ended, as far as they are this user's."""
    try:
        directories = [path for path in volume.iterdir() if _OURS.fullmatch(path.name)]
    except OSError as error:
        _say(f"{volume} cannot be listed: {error.strerror}")
        return
    for path in directories:
        try:
            _remove_if_dead(path)
        except FileNotFoundError:
            continue  # another container has removed it
        except OSError as error:
            _say(f"{path} stays: {error.strerror}")


def _remove_if_dead(path: Path) -> None:
    descriptor = _open(path)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid() and _lock(descriptor):
            # Locked until nothing is left, so that no other container removes it too.
            shutil.rmtree(path)
            _say(f"removed {path}, which a container left that has ended")
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Return a descriptor of a directory; OSError where it is something else."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def _lock(descriptor: int) -> bool | None:
    """Return whether the lock is ours now; None where the file system has no such locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Nobody has one there, and so nothing is ever removed.
        return None
    return True


def _is_same(path: Path, descriptor: int) -> bool:
    """Return whether the directory is still what its path names."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _say(line: str) -> None:
    sys.stderr.write(f"scratch: {line}\n")
