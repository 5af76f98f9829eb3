"""How much processor time a process and all that it started have used."""

import os
from pathlib import Path

from icdc_testing.waiting.children import list_children


def sum_cpu_seconds(pid: int | None = None) -> float:
    """Sum up the processor time of a process (None: this one) and all below it, ended ones too."""
    wanted = pid or os.getpid()
    ticks = 0
    for process in list_tree(wanted):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def list_tree(pid: int) -> list[int]:
    """Return a process and all that live below it."""
    return [pid, *(below for child in list_children(pid) for below in list_tree(child))]
