"""Starts the programs of a cluster, and ends them from the files that keep their process ids.

The process that ends a program is often not the one that started it: `down` comes later, or after
a crash. Knows nothing of what the programs do.
"""

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from icdc_testing.kube.server_process import Program
from icdc_testing.real_cluster.host.layout import ClusterPaths
from icdc_testing.waiting import wait

_END_SECONDS = 60.0


@dataclass(frozen=True)
class Starter:
    """Starts programs of one cluster; with `stays` they outlive this process."""

    paths: ClusterPaths
    stays: bool

    def start(
        self,
        path: Path,
        arguments: Sequence[str],
        *,
        name: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Program:
        """Start it and record its process id; Submission where it cannot be started."""
        program = Program.start(
            path,
            arguments,
            self.paths.logs,
            name=name,
            environment=environment,
            outlives=self.stays,
        )
        record(self.paths, program.name, program.pid)
        return program


def record(paths: ClusterPaths, name: str, pid: int) -> None:
    """Remember a process of the cluster, with its start: process ids are used again."""
    # One that has ended already gets a start that none has.
    (paths.pids / name).write_text(f"{pid} {_read_start(pid) or 'none'}", encoding="utf-8")


def read_record(paths: ClusterPaths) -> dict[str, int]:
    """Return the programs that still run, by name."""
    by_name = {}
    for path in sorted(paths.pids.glob("*")):
        pid, started = path.read_text(encoding="utf-8").split()
        if _read_start(int(pid)) == started:
            by_name[path.name] = int(pid)
    return by_name


def end(paths: ClusterPaths, names: Iterable[str] | None = None) -> None:
    """Kill these programs (all, unless given) and return when they are gone.

    At once: what they hold is thrown away anyway.
    """
    running = read_record(paths)
    chosen = running if names is None else set(names)
    kill(pid for name, pid in running.items() if name in chosen)
    for name in chosen:
        (paths.pids / name).unlink(missing_ok=True)


def kill(pids: Iterable[int]) -> None:
    """Kill these processes, some of which may have ended since, and return when they are gone."""
    doomed = {pid: started for pid in pids if (started := _read_start(pid)) is not None}
    _signal(doomed, signal.SIGKILL)
    for pid, started in doomed.items():
        wait.wait_until(
            lambda pid=pid, started=started: _read_start(pid) != started,  # type: ignore[misc]
            f"process {pid} is gone",
            seconds=_END_SECONDS,
        )


def pause(pids: Iterable[int]) -> None:
    """Stop these processes where they are: to others they are as good as gone."""
    _signal(pids, signal.SIGSTOP)


def resume(pids: Iterable[int]) -> None:
    """Let paused processes go on."""
    _signal(pids, signal.SIGCONT)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _read_start(pid: int) -> str | None:
    """Return when the process started, in ticks of the kernel; None where there is none.

    One that has ended counts as gone, even while nobody has asked for its exit code.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may hold blanks and brackets itself.
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
