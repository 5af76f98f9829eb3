"""Files that are either the old one or the new one, whatever happens while they are written.

Two programs read them while we write: the application its request, this one the application's
reports. And a host may lose power: half a status would be StateCorrupt, which a person has
to mend.

Knows nothing of what the files hold.
"""

import contextlib
import os
from pathlib import Path

PRIVATE_MODE = 0o600
"""Owner only: requests hold resolved property values, and some of those are credentials."""


def write_atomically(path: Path, text: str) -> None:
    """Replace the text of `path`; a reader, and a crash at any point, sees the old or the new.

    An OSError names `path`.
    """
    # Beside it, as a rename is atomic within one file system only. With our id: no two
    # processes write one scratch file.
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # The mode is given when it is made: a chmod afterwards leaves a moment in which anybody may
        # open it.
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            # Before the rename: a crash could otherwise leave the new name on an empty file.
            os.fsync(stream.fileno())
        scratch.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        # A write names no file, such as where the disk is full; and its part only takes space.
        error.filename = str(path)
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def read_tail(path: Path, limit_bytes: int) -> str:
    """Return the last `limit_bytes` of a text file; empty when there is no such file."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - limit_bytes))
            # `replace`: the first byte may lie in the middle of a character.
            return stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _sync_directory(directory: Path) -> None:
    """Make a rename durable, which is an entry of the directory, and not of the file."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
