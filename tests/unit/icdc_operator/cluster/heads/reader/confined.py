"""Tries, in a process confined as a reader of catalogs is, what such a reader must not do.

Run as a script: the names of attempts are arguments, a JSON object says what became of each.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from icdc_operator.cluster.heads.reader.limits import confinement
from icdc_operator.cluster.heads.reader.limits.addresses import (
    AccessRefused,
    Addresses,
    AddressGuard,
)
from icdc_operator.cluster.heads.settings import ReaderSettings


def try_in_confinement(folder: Path, *names: str, allow: tuple[str, ...] = ()) -> dict[str, str]:
    """Run the attempts in a confined process; return `done` or the class of the error for each."""
    command = [sys.executable, __file__, str(folder), json.dumps(allow), *names]
    named = {"REQUESTS_CA_BUNDLE": str(folder / "ca" / "ca.pem"), "KUBECONFIG": str(folder)}
    environ = {**os.environ, "ICDC_TEST_SECRET": "swordfish", **named}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    outcomes: dict[str, str] = json.loads(ended.stdout)
    return outcomes


def _build_attempts(folder: Path) -> dict[str, Callable[[], object]]:
    libc = ctypes.CDLL(None, use_errno=True)
    execute, kill = libc.execv, libc.kill  # found later, both would be refused by Python

    def execute_by_c(*arguments: bytes) -> None:
        if execute(arguments[0], (ctypes.c_char_p * 2)(arguments[0], None)) < 0:
            raise OSError(ctypes.get_errno(), "refused")

    def signal_parent() -> None:
        if kill(os.getppid(), 0) < 0:
            raise OSError(ctypes.get_errno(), "refused")

    def send(target: tuple[str, int]) -> None:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", target)

    return {
        "read a file": lambda: (folder / "token").read_text(encoding="utf-8"),
        "read where tokens are": lambda: next(Path("/var/run").iterdir()),
        "read another process": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        "read the named authority": lambda: (folder / "ca" / "ca.pem").read_bytes(),
        "read the resolver's file": Path("/etc/resolv.conf").read_bytes,
        "write a file": lambda: (folder / "written").write_text("x", encoding="utf-8"),
        "write beside the code": lambda: Path(__file__).open("a", encoding="utf-8"),
        "start a process": lambda: subprocess.run(["true"], check=True),
        "start a process by C": lambda: execute_by_c(b"/bin/true"),
        "load a library": lambda: ctypes.CDLL("libm.so.6"),
        "find a function of C": lambda: libc.system,
        "signal its parent by C": signal_parent,
        "signal its parent": lambda: os.kill(os.getppid(), 0),
        "call a shell": lambda: os.system("true"),
        "connect to loopback": lambda: socket.create_connection(("127.0.0.1", 9), 1),
        "connect to localhost": lambda: socket.create_connection(("localhost", 9), 1),
        "connect to a number": lambda: socket.create_connection(("2130706433", 9), 1),
        "connect wrapped": lambda: socket.create_connection(("::ffff:127.0.0.1", 9), 1),
        "connect to cloud metadata": lambda: socket.create_connection(("169.254.169.254", 80), 1),
        "connect to any": lambda: socket.create_connection(("0.0.0.0", 9), 1),
        "connect to a socket file": lambda: socket.socket(socket.AF_UNIX).connect("/x"),
        "connect past the resolver": lambda: socket.socket().connect(("localhost", 9)),
        "send a datagram": lambda: send(("127.0.0.1", 9)),
        "listen": lambda: socket.socket().bind(("127.0.0.1", 0)),
        "take memory": lambda: bytearray(confinement.MEMORY_BYTES + 2**25),
        "take some memory": lambda: bytearray(confinement.MEMORY_BYTES // 2),
        "see variables": lambda: os.environ["ICDC_TEST_SECRET"],
        "import": lambda: __import__("wave"),
    }


def main() -> None:
    """Confine this process, then tries."""
    folder, allow, names = Path(sys.argv[1]), tuple(json.loads(sys.argv[2])), sys.argv[3:]
    attempts = _build_attempts(folder)
    retained = confinement.build_environment(os.environ, cloud_role=False)
    os.environ.clear()
    os.environ.update(retained)
    confinement.confine(os.environ, local_files=False)
    AddressGuard(Addresses(ReaderSettings(allow_hosts=allow))).install()
    outcomes = {}
    for name in names:
        try:
            attempts[name]()
            outcomes[name] = "done"
        except (Exception, AccessRefused) as error:  # noqa: BLE001 - any of them is an answer
            outcomes[name] = type(error).__name__
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
