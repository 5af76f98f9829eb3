"""Where the processor time of a command goes: to which of its processes, and which threads of Java.

The kernel adds a process to its parent only where that one waits for its end, which a JVM that
outlives its driver escapes. So each process is read by itself, again and again until it is gone;
what it uses between the last reading and its end is missed.

    a process or thread                          part
    python main.py request.json                  driver
    python … worker_daemon, and what it forks    workers
    java, threads "C2 CompilerThread0" …         compiling, optimised
    java, threads "C1 CompilerThread0" …         compiling, quick
    java, threads "GC Thread#0", "ParGC …"       collecting
    java, all the rest                           Java
    the command itself                           icdc
"""

import os
from collections import defaultdict
from pathlib import Path

from icdc_testing.waiting.process_cpu import list_tree
from icdc_testing.waiting.processes import read_command

OPTIMISING, QUICK, COLLECTING = "compiling, optimised", "compiling, quick", "collecting"
JAVA, DRIVER, WORKERS, COMMAND = "Java", "driver", "workers", "icdc"
PARTS = (COMMAND, DRIVER, WORKERS, JAVA, QUICK, OPTIMISING, COLLECTING)
_THREADS = {"C2 Comp": OPTIMISING, "C1 Comp": QUICK, "GC Thr": COLLECTING, "ParGC": COLLECTING}


class CpuParts:
    """What a process and all that it starts use, by parts."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._processes: dict[int, tuple[str, int]] = {}
        """Part and clock ticks of each process ever seen."""
        self._threads: dict[tuple[int, int], tuple[str, int]] = {}
        """Those of threads of a JVM that are a part of their own."""

    def read(self) -> None:
        """Note what each live process has used until now."""
        for pid in list_tree(self._pid):
            try:
                ticks = _read_ticks(Path(f"/proc/{pid}/stat"))
                name, _ = self._processes.get(pid, (_name_process(pid, self._pid), 0))
                # Between fork and exec a child has the command line of its parent. One that has
                # ended has none.
                if name in (COMMAND, DRIVER) and pid != self._pid and any(read_command(pid)):
                    name = _name_process(pid, self._pid)
                self._processes[pid] = name, ticks
                if name == JAVA:
                    self._read_threads(pid)
            except OSError:
                continue

    def _read_threads(self, pid: int) -> None:
        for task in Path(f"/proc/{pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            part = next((part for start, part in _THREADS.items() if name.startswith(start)), None)
            if part is not None:
                self._threads[pid, int(task.name)] = part, _read_ticks(task / "stat")

    def sum_seconds(self) -> dict[str, float]:
        """Return the seconds of each of PARTS, in their order."""
        ticks: dict[str, int] = defaultdict(int)
        for part, used in self._processes.values():
            ticks[part] += used
        for part, used in self._threads.values():
            ticks[part] += used
            ticks[JAVA] -= used
        return {part: ticks[part] / os.sysconf("SC_CLK_TCK") for part in PARTS}


def _name_process(pid: int, root: int) -> str:
    command = read_command(pid)
    if pid == root:
        return COMMAND
    if Path(command[0]).name == "java":
        return JAVA
    if any("worker_daemon" in word for word in command):
        return WORKERS
    return DRIVER if any(word.endswith("main.py") for word in command) else COMMAND


def _read_ticks(stat: Path) -> int:
    """Return user and system time of one process or thread, without that of its children."""
    fields = stat.read_text().rpartition(") ")[2].split()
    return sum(int(field) for field in fields[11:13])
