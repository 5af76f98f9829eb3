"""Standard streams that can be written to, and what is left of a command whose output cannot be.

    icdc status | head     the reader went away     silence, 141
    icdc crd > /dev/full   the disk is full         icdc: cannot write: No space left on device, 3
    icdc status >&-        no standard output       what would be printed is dropped
    a console of Latin-1   … cannot be encoded      \\u2026 is printed

Python alone ends these with a traceback, in part after `main` has returned, when it flushes.
"""

import errno
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

from icdc_cli import terminal
from icdc_cli.exits import Exit

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NULL = Path(os.devnull)


def guard(command: Callable[[], int]) -> int:
    """Run the command with streams that exist; return its exit code, or that of a lost output."""
    _prepare()
    try:
        try:
            return command()
        finally:
            # Here and not at the end of the process, where nobody could catch an error. Also after
            # SystemExit, by which argparse ends once it has printed --help.
            sys.stdout.flush()
            sys.stderr.flush()
    except OSError as error:
        if not is_lost_output(error):
            raise
        return _end(error)


def is_lost_output(error: Exception) -> bool:
    """Return whether the error comes from output that nobody reads or that has no space."""
    if isinstance(error, BrokenPipeError):
        # By the streams, as a pipe to a process of ours may break too, which is another failure.
        return any(map(_is_broken, (sys.stdout, sys.stderr)))
    return isinstance(error, OSError) and error.errno in _NO_SPACE


def _prepare() -> None:
    # A descriptor that is closed at the start is None to Python. In this order, so that each gets
    # its own number: the lowest that is free.
    sys.stdin = sys.stdin or _NULL.open(encoding="utf-8")
    sys.stdout = sys.stdout or _NULL.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or _NULL.open("w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        # Tests and embedding programs may have streams of other classes.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _is_broken(stream: object) -> bool:
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)  # type: ignore[attr-defined]
    except (OSError, ValueError):
        return False  # a stream in memory
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _end(error: OSError) -> int:
    """Say what can be said still; return the exit code."""
    broken = isinstance(error, BrokenPipeError)
    if not broken:
        try:
            file = f" {os.fsdecode(error.filename)}" if error.filename else ""
            terminal.complain(f"cannot write{file}: {error.strerror}")
            sys.stderr.flush()
        except OSError:
            pass  # standard error is on the same disk
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # As in the notes on SIGPIPE of Python's `signal` module: its last flush would raise
            # anew, and complain of that.
            os.dup2(os.open(_NULL, os.O_WRONLY), stream.fileno())
    return Exit.PIPE_CLOSED if broken else Exit.OUTLASTED
