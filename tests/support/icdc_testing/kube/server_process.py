"""Starts and ends one program of a cluster, and holds the ports that it listens on.

Knows nothing of what the programs do.
"""

import http.client
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from icdc_api.errors import StartTimeout, Submission

LOOPBACK = "127.0.0.1"
_POLL_SECONDS = 0.05
_SHOWN_LINES = 25


class HeldPort:
    """A free port of the loopback address that stays ours until `release`.

    Asking for a free port and closing it again would let another process take it. This one stays
    bound, and a program of the same user that shares ports (SO_REUSEPORT) listens on it.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """Host and port, as in a URL."""
        return f"{LOOPBACK}:{self.number}"

    def release(self) -> None:
        """Give the port back."""
        self._socket.close()


@dataclass(frozen=True)
class FixedPort:
    """A port of an address that nobody else uses."""

    host: str
    number: int

    @property
    def address(self) -> str:
        """Host and port, as in a URL."""
        return f"{self.host}:{self.number}"


@dataclass(frozen=True)
class Probe:
    """A GET that tells whether a server is there; with a certificate authority it is HTTPS."""

    port: HeldPort | FixedPort
    path: str
    token: str = ""
    ca: Path | None = None

    def answers(self) -> bool:
        """Return whether the answer is 200."""
        where = self.port.address
        connection = (
            http.client.HTTPSConnection(
                where, timeout=10, context=ssl.create_default_context(cafile=self.ca)
            )
            if self.ca
            else http.client.HTTPConnection(where, timeout=10)
        )
        try:
            connection.request("GET", self.path, headers={"authorization": f"Bearer {self.token}"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Program:
    """A running program whose output goes to a log file."""

    def __init__(self, name: str, log: Path, process: "subprocess.Popen[bytes]") -> None:
        self.name = name
        self.log = log
        self._process = process

    @classmethod
    def start(
        cls,
        path: Path,
        arguments: Sequence[str],
        folder: Path,
        *,
        name: str = "",
        environment: Mapping[str, str] | None = None,
        outlives: bool = False,
    ) -> Self:
        """Start it; its log is in the folder. Submission where it cannot be started.

        `name` is that of the file unless given; `environment` is added to ours. It ends with this
        process, even when that is killed, unless it `outlives` it.
        """
        name = name or path.name
        log = folder / f"{name}.log"
        with log.open("wb") as output:
            try:
                # In a process group of its own: Ctrl-C reaches the tests, which then end it.
                process = subprocess.Popen(
                    [*([] if outlives else end_with_parent()), str(path), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                )
            except OSError as exc:
                raise Submission(f"{path} could not be started: {exc.strerror}") from exc
        return cls(name, log, process)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_until(self, reached: Callable[[], bool], what: str, *, seconds: float) -> None:
        """Return once `reached` is true. Submission: the program ended; StartTimeout: too late.

        Both show the end of its log.
        """
        deadline = time.monotonic() + seconds
        while not reached():
            if self._process.poll() is not None:
                raise Submission(self._describe_failure(f"ended with {self._process.returncode}"))
            if time.monotonic() > deadline:
                raise StartTimeout(
                    self._describe_failure(f"did not come to this in {seconds:.0f} s: {what}")
                )
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """End it and return when it is gone. At once: what it holds is thrown away anyway."""
        self._process.kill()
        self._process.wait()

    def _describe_failure(self, what: str) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"{self.name} {what}; the end of its log:\n" + "\n".join(lines[-_SHOWN_LINES:])


def end_with_parent(signal_name: str = "KILL") -> list[str]:
    """Return the prefix of a command that the kernel ends with us; empty if it cannot."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", signal_name, "--"] if setpriv else []
