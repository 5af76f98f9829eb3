"""Run `icdc-heads`: fork one child for each connection, and kill it when its connection ends.

The operator connects over a socket file (in the chart's pod: of this container, which has no
token), or hands connections over by a socket that it started this process with. A child ends
when its connection does, when it is late, or when it takes too much. The operator then sees the
end of the connection. Single-threaded, so that forking is safe. It must not know what a question
asks: `child` does.
"""

import argparse
import contextlib
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from icdc_operator.cluster.heads import settings as flags
from icdc_operator.cluster.heads.reader import child
from icdc_operator.cluster.heads.reader.limits import confinement
from icdc_operator.cluster.heads.reader.limits.addresses import Addresses, AddressGuard
from icdc_operator.cluster.heads.settings import ReaderSettings

MAX_CHILDREN = 128
"""Connections at a time. An operator holds at most 64 (`table_heads.MAX_CATALOGS`), beside those
that it has closed this moment."""

_ENDED = select.POLLHUP | select.POLLRDHUP | select.POLLERR
_API_SERVER = "kubernetes.default.svc"


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal, or until the operator that started this process has ended."""
    given = parse_arguments(argv)
    settings = flags.build_settings(given)
    api_server = resolve_api_server(os.environ)
    variables = confinement.build_environment(os.environ, cloud_role=settings.use_cloud_role)
    os.environ.clear()
    os.environ.update(variables)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    # A collection in a child would write to every object and so copy each shared page.
    gc.freeze()
    addresses = Addresses(settings, api_server)
    if given.socket is not None:
        _Process(_listen(given.socket), settings, addresses).run()
    else:
        control = socket.socket(fileno=given.control)
        _Process(control, settings, addresses, hands_over=True).run()
    return 0


class _Process:
    """The children, by the file descriptors whose events say that a child or its peer ended."""

    def __init__(
        self,
        source: socket.socket,
        settings: ReaderSettings,
        addresses: Addresses,
        *,
        hands_over: bool = False,
    ) -> None:
        self._source = source
        self._settings = settings
        self._addresses = addresses
        self._hands_over = hands_over
        self._children: dict[int, _Child] = {}
        self._poll = select.poll()

    def run(self) -> None:
        """Take connections until the source of them ends."""
        self._poll.register(self._source, select.POLLIN)
        while True:
            for number, _ in self._poll.poll():
                if number == self._source.fileno():
                    connection = self._accept()
                    if connection is None:
                        return  # and with this process go its children
                    self._begin(connection)
                elif number in self._children:
                    self._end(self._children[number])

    def _accept(self) -> socket.socket | None:
        if not self._hands_over:
            return self._source.accept()[0]
        _, numbers, _, _ = socket.recv_fds(self._source, 1, 1)
        return socket.socket(fileno=numbers[0]) if numbers else None

    def _begin(self, connection: socket.socket) -> None:
        # Each child has two entries, by its pidfd and by its connection.
        if len(self._children) // 2 >= MAX_CHILDREN:
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            self._become_child(connection)
        begun = _Child(pid, os.pidfd_open(pid), connection)
        # Either may come first: the operator closes its side, or the child ends (pidfd).
        self._poll.register(begun.pidfd, select.POLLIN)
        self._poll.register(connection, _ENDED)
        self._children[begun.pidfd] = self._children[connection.fileno()] = begun

    def _end(self, ended: "_Child") -> None:
        for number in (ended.pidfd, ended.connection.fileno()):
            self._poll.unregister(number)
            del self._children[number]
        # A pid is not used again before waitpid, so this cannot hit another process.
        os.kill(ended.pid, signal.SIGKILL)
        os.waitpid(ended.pid, 0)
        os.close(ended.pidfd)
        ended.connection.close()

    def _become_child(self, connection: socket.socket) -> None:
        """Serve the connection in this forked process, and exit. Never returns."""
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            # A connection that stays open here would not end for the others, and carries their
            # credentials.
            self._source.close()
            for other in set(self._children.values()):
                other.connection.close()
                os.close(other.pidfd)
            null = os.open(os.devnull, os.O_RDWR)
            for standard in (0, 1, 2):
                os.dup2(null, standard)
            confinement.confine(os.environ, local_files=self._settings.local_files)
            child.serve(connection, self._settings, AddressGuard(self._addresses))
            code = 0
        finally:
            # Not sys.exit: the child must not return into the loop of its parent, whatever was
            # raised, nor run what the parent has registered for its own end.
            os._exit(code)


class _Child:
    """One child process; equal to itself alone."""

    def __init__(self, pid: int, pidfd: int, connection: socket.socket) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.connection = connection


def _listen(path: Path) -> socket.socket:
    """Listen at a socket file for this user alone; a file of an earlier process is replaced."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # By umask, not chmod after bind: in between anybody could connect.
    before = os.umask(0o177)
    listener.bind(str(path))
    os.umask(before)
    listener.listen(MAX_CHILDREN)
    return listener


def resolve_api_server(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the addresses of the `kubernetes` Service as this pod sees it; none elsewhere.

    Endpoints behind the Service are learned by the operator (`api_addresses`), which has a token.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST")
    if not host:
        return frozenset()
    addresses = {host}
    for name in (host, _API_SERVER):
        with contextlib.suppress(OSError):
            addresses.update(str(entry[4][0]) for entry in socket.getaddrinfo(name, 443))
    return frozenset(addresses)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line; ends the process with code 2 where it is wrong."""
    parser = argparse.ArgumentParser(
        prog="icdc-heads", description="Reads the newest snapshots of tables for the operator."
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--socket", type=Path, help="file of the socket to listen at")
    source.add_argument("--control", type=int, help="file number of the operator's socket")
    flags.add_arguments(parser)
    return parser.parse_args(argv)


def _end(*_: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    raise SystemExit(main())
