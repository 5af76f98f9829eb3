"""Connect the operator to the process that reads catalogs: one connection, one child, one catalog.

The process runs in another container (the chart) or is started here (a laptop, tests). What comes
over a connection is checked like any other foreign text. It must not know when or why a table is
read.
"""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from icdc_api.errors import Bug, SourceUnavailable
from icdc_operator.cluster.heads import wire
from icdc_operator.cluster.heads.catalog_properties import PyCatalog
from icdc_operator.cluster.heads.settings import ReaderSettings
from icdc_operator.cluster.heads.wire import HeadAnswer, Opening, Question

RETRY_SECONDS = 0.2
"""Between two attempts to reach a process that is not there yet."""

_MODULE = "icdc_operator.cluster.heads.reader.process"

_log = logging.getLogger(__name__)


class OpenConnection(Protocol):
    """A connection for one catalog. One question at a time."""

    async def read_head(self, table: Sequence[str], branch: str, seconds: float) -> int | None:
        """Return the newest snapshot of a branch; None for an empty table.

        Raises the errors of `wire.FAILURES`. Close the connection after a cancelled call: its
        answer may still come.
        """
        ...

    def close(self) -> None:
        """Close the connection; that ends its reader, even during a call."""
        ...


class Readers(Protocol):
    """A factory of connections."""

    async def connect(self, catalog: PyCatalog) -> OpenConnection:
        """Start a reader for that catalog. It connects to the catalog with the first question."""
        ...

    def close(self) -> None:
        """Start no more readers, and end those of a process of our own."""
        ...


def build_readers(
    settings: ReaderSettings, path: Path | None, api_server: "LearnAddresses | None" = None
) -> "Readers":
    """Return readers of the process that listens at `path`, or of a process of our own by None.

    `api_server` gives addresses that no reader may connect to; asked again for each connection.
    """
    learn = api_server or _learn_none
    return OfOwnProcess(settings, learn) if path is None else OfAnotherContainer(path, learn)


LearnAddresses = Callable[[], Awaitable[Collection[str]]]
"""See `api_addresses.ApiServerAddresses.learn`."""


async def _learn_none() -> Collection[str]:
    return ()


class OfAnotherContainer:
    """Readers of a process in another container, which may start later than this one."""

    def __init__(self, path: Path, learn: LearnAddresses = _learn_none) -> None:
        self._path = path
        self._learn = learn

    async def connect(self, catalog: PyCatalog) -> OpenConnection:
        """See `Readers`. Waits until the process listens; the caller sets a time-out."""
        while True:
            # Not there yet, or left behind by a process that has ended.
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                streams = await asyncio.open_unix_connection(self._path)
                return _ReaderConnection(*streams, catalog, await self._learn())
            await asyncio.sleep(RETRY_SECONDS)

    def close(self) -> None:
        """See `Readers`."""


class OfOwnProcess:
    """Readers of a process that is started with the first connection and ends with this one."""

    def __init__(self, settings: ReaderSettings, learn: LearnAddresses = _learn_none) -> None:
        self._settings = settings
        self._learn = learn
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def connect(self, catalog: PyCatalog) -> OpenConnection:
        """See `Readers`."""
        control = self._control
        if control is None or self._process is None or self._process.poll() is not None:
            control = self.start()
        ours, theirs = socket.socketpair()
        with theirs:
            # At least one byte has to go with a descriptor (unix(7)).
            socket.send_fds(control, [b"c"], [theirs.fileno()])
        streams = await asyncio.open_unix_connection(sock=ours)
        return _ReaderConnection(*streams, catalog, await self._learn())

    def close(self) -> None:
        """See `Readers`. The process ends with its control socket, and its children with it."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            # Or it stays a zombie for as long as this process lives.
            self._process.wait()
            self._process = None

    def start(self) -> socket.socket:
        """Start the process, in place of an earlier one; return where it takes connections."""
        self.close()
        self._control, theirs = socket.socketpair()
        # Our copy is closed: as long as it is open, the end of the process does not end the
        # connection.
        with theirs:
            number = str(theirs.fileno())
            # -P: no module of the working directory stands in for an installed one.
            command = [sys.executable, "-P", "-m", _MODULE, "--control", number]
            self._process = subprocess.Popen(
                [*command, *self._settings.flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Ctrl-C goes to the whole process group: the operator must end first, in order.
                start_new_session=True,
            )
        return self._control


class _ReaderConnection:
    """See `OpenConnection`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        catalog: PyCatalog,
        api_server: Collection[str],
    ) -> None:
        self._reader, self._writer = reader, writer
        opening = Opening(
            kind=catalog.kind,
            name=catalog.name,
            properties=dict(catalog.properties),
            authority=catalog.authority,
            api_server=tuple(api_server),
        )
        self._writer.write(wire.encode_line(opening))

    async def read_head(self, table: Sequence[str], branch: str, seconds: float) -> int | None:
        """See `OpenConnection`."""
        question = Question(table=tuple(table), branch=branch, seconds=seconds)
        self._writer.write(wire.encode_line(question))
        try:
            await self._writer.drain()
            answer = HeadAnswer.model_validate_json(await self._reader.readline())
        # At its end `readline` gives nothing, which is no JSON; ValueError is a line of endless
        # length.
        except (OSError, ValidationError, ValueError):
            raise SourceUnavailable(
                "the process that reads this catalog ended before its answer, most often because "
                "the catalog's answer needs too much memory"
            ) from None
        if answer.failure is None:
            return answer.head
        # Cut here too: the process has read a stranger's answers, and may be in his hands.
        text = answer.text[: wire.MAX_TEXT]
        failure = wire.FAILURES.get(answer.failure, Bug)
        if failure is Bug:
            _log.error("internal error; please report it: %s\n%s", text, answer.where)
            raise Bug(f"internal error ({text})")
        raise failure(text)

    def close(self) -> None:
        """See `OpenConnection`."""
        # Not `close`, which would first try to send what a hung reader does not take.
        self._writer.transport.abort()
