"""Counts which files below some folders are opened, by whatever process: inotify of Linux."""

import ctypes
import os
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_OPENED = 0x20
_HEADER = struct.Struct("iIII")
_BUFFER = 1 << 20


class FileOpens:
    """A context manager. A process that asks whether a file is there does not open it."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._descriptor = -1

    def __enter__(self) -> Self:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in self._folders:
            if libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _OPENED) < 0:
                raise OSError(ctypes.get_errno(), f"{folder} cannot be watched")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def take(self) -> Counter[str]:
        """Return how often each file was opened since the last call, by its name."""
        opens: Counter[str] = Counter()
        while True:
            try:
                events = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return opens
            position = 0
            while position < len(events):
                *_, length = _HEADER.unpack_from(events, position)
                start = position + _HEADER.size
                name = events[start : start + length].rstrip(b"\0")
                opens[os.fsdecode(name)] += 1
                position = start + length
