"""A terminal in which a shell runs, and somebody types."""

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

_END_SECONDS = 30.0
_IN_TERMINAL = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"
"""Makes the terminal the controlling one, as a login does: without it fish does not start."""


class ShellTerminal:
    """What is typed into it, and what the shell has drawn. Use `open_terminal`."""

    def __init__(self, descriptor: int) -> None:
        self.drawn = b""
        """All that was written to the terminal, with what moves its cursor."""
        self._descriptor = descriptor
        # A shell that nobody reads waits for ever once the terminal is full.
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def press(self, keys: str) -> None:
        """Press these keys, one after the other."""
        os.write(self._descriptor, keys.encode())

    def _read(self) -> None:
        while True:
            try:
                drawn = os.read(self._descriptor, 4096)
            except OSError:
                return  # how Linux says that no process has the terminal any more
            if not drawn:
                return
            self.drawn += drawn

    def wait_for_end(self) -> None:
        """Return once no process has the terminal."""
        self._reading.join(_END_SECONDS)
        os.close(self._descriptor)


@contextmanager
def open_terminal(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[ShellTerminal]:
    """Run a shell in a terminal of its own; it is killed at the end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_TERMINAL, *command],
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    terminal = ShellTerminal(ours)
    try:
        yield terminal
    finally:
        process.kill()
        process.wait(_END_SECONDS)
        terminal.wait_for_end()
