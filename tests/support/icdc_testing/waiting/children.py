"""The child processes of a process, as the kernel lists them."""

from pathlib import Path

OUTLIVING: set[int] = set()
"""Processes that a test starts anew in place of one that a fixture of a wider scope started."""


def list_children(pid: int | str = "self") -> set[int]:
    """Return their ids; none for a process that has ended, and where the kernel does not list
    them."""
    process = Path(f"/proc/{pid}")
    while True:
        lists = (process / "task").glob("*/children")
        try:
            return {int(child) for listed in lists for child in listed.read_text().split()}
        except OSError:
            # A thread that ends hands its children to another one: all are looked at anew.
            if not process.exists():
                return set()
