"""Host names that only one program knows, and that a test can take away while it runs.

The program has an /etc/hosts of its own, in a mount namespace that nobody else sees and that ends
with it. No resolver is asked: what the file does not have is unknown at once.
"""

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

LOOPBACK = "127.0.0.1"
TARGET = "search.test"
"""A name for OpenSearch's host."""
_SOURCES = "hosts: files\n"
_LAUNCHER = """#!/bin/sh
exec unshare --mount --map-root-user sh -c '
  mount --bind "{folder}/hosts" /etc/hosts && mount --bind "{folder}/sources" /etc/nsswitch.conf &&
  exec "$@"' sh {python} "$@"
"""


class OwnNames:
    """The names that a program knows besides `localhost`, at LOOPBACK unless they were moved."""

    def __init__(self, folder: Path, *names: str) -> None:
        self._hosts, self._names = folder / "hosts", names
        folder.mkdir()
        self.restore()
        (folder / "sources").write_text(_SOURCES)
        self.python = folder / "python"
        """Starts Python with these names, in place of this process' own."""
        self.python.write_text(_LAUNCHER.format(folder=folder, python=sys.executable))
        self.python.chmod(0o755)

    def forget(self, *names: str) -> None:
        """Know these names no more."""
        self._write({name: LOOPBACK for name in self._names if name not in names})

    def move(self, name: str, address: str) -> None:
        """Let a name lead to another address of this host."""
        self._write({**dict.fromkeys(self._names, LOOPBACK), name: address})

    def restore(self) -> None:
        """Know all of them again, as in the beginning."""
        self._write(dict.fromkeys(self._names, LOOPBACK))

    def _write(self, addresses: Mapping[str, str]) -> None:
        # Spark needs to know where it runs.
        known = {"localhost": LOOPBACK, socket.gethostname(): LOOPBACK, **addresses}
        # In place, as it is mounted.
        self._hosts.write_text("".join(f"{known[name]} {name}\n" for name in known))
