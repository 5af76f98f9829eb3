"""What every test gets: a check that nothing is left running."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_GRACE_SECONDS = 5.0


def _children() -> set[str]:
    """Process ids of our children; empty where the kernel does not list them."""
    lists = Path("/proc/self/task").glob("*/children")
    return {pid for children in lists for pid in children.read_text().split()}


def _command(pid: str) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "(gone)"
    return raw.replace(b"\0", b" ").decode(errors="replace")[:200] or "(ended, not waited for)"


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Fails a test that leaves a child process or a thread that would keep Python alive.

    What fixtures of a wider scope started is there before the test, so it is not counted.
    """
    children, threads = _children(), set(threading.enumerate())
    yield
    deadline = time.monotonic() + _GRACE_SECONDS
    while True:
        left = _children() - children
        alive = {t for t in threading.enumerate() if not t.daemon} - threads
        if not left and not alive:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    commands = [f"{pid} {_command(pid)}" for pid in sorted(left)]
    pytest.fail(f"left running: processes {commands}, threads {sorted(t.name for t in alive)}")
