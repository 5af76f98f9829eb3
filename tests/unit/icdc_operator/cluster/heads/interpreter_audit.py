"""What this process starts, imports, opens and connects to, as the interpreter reports it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STARTS = frozenset({"subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.system"})

Event = tuple[str, tuple[Any, ...]]

_recorders: list[list[Event]] = []


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    for recorder in _recorders:
        recorder.append((event, arguments))


@contextmanager
def audit() -> Iterator[list[Event]]:
    """Collect the audit events of the block. The hook itself stays: Python removes none."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_record)
    events: list[Event] = []
    _recorders.append(events)
    try:
        yield events
    finally:
        _recorders.remove(events)


_hooked: list[bool] = []


def list_ports(events: list[Event]) -> set[int]:
    """Return the ports that were connected to."""
    return {arguments[1][1] for event, arguments in events if event == "socket.connect"}
