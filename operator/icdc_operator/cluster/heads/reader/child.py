"""Serve one connection: read the catalog that it opens, and answer its questions.

Parts 2 to 4 of `reader`, in that order. Confinement (part 1) is behind it when `serve` begins.
It must not decide what an answer means: that is the operator's business.
"""

import signal
import socket
import traceback

from icdc_api.errors import IcdcError
from icdc_operator.cluster.heads import wire
from icdc_operator.cluster.heads.reader import branches, catalog_reading
from icdc_operator.cluster.heads.reader.catalog_reading import OpenCatalog
from icdc_operator.cluster.heads.reader.limits import confinement, proxies, trust
from icdc_operator.cluster.heads.reader.limits.addresses import AddressGuard
from icdc_operator.cluster.heads.settings import ReaderSettings
from icdc_operator.cluster.heads.wire import HeadAnswer, Opening, Question

_GRACE_SECONDS = 1.0
"""The operator's clock goes first, so that it can say that the catalog was late."""


def serve(connection: socket.socket, settings: ReaderSettings, guard: AddressGuard) -> None:
    """Answer the questions of one connection, each within its seconds; return at its end."""
    # Before the first byte is read: what comes over the connection is already a stranger's.
    guard.install()
    proxies.install(guard)
    with connection, connection.makefile("rb") as stream:
        opening = Opening.model_validate_json(stream.readline(wire.MAX_LINE_BYTES))
        # Only the operator can learn these: they take a token, which this process has not.
        guard.refuse(opening.api_server)
        if opening.authority is not None:
            trust.install(opening.authority)
        catalog: OpenCatalog | None = None
        while line := stream.readline(wire.MAX_LINE_BYTES):
            question = Question.model_validate_json(line)
            # The kernel ends this process then, even during a call of a library in C.
            signal.setitimer(signal.ITIMER_REAL, question.seconds + _GRACE_SECONDS)
            confinement.allow_processor_seconds(int(question.seconds + _GRACE_SECONDS))
            try:
                catalog = catalog or catalog_reading.open_catalog(opening.catalog, settings, guard)
                answer = HeadAnswer(head=_read_head(catalog, question))
            except Exception as error:  # noqa: BLE001 - the root of a process
                answer = _build_failure(error)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.sendall(wire.encode_line(answer))


def _read_head(catalog: OpenCatalog, question: Question) -> int | None:
    heads = catalog.read_heads(question.table)
    return branches.find_newest_snapshot(heads, ".".join(question.table), question.branch)


def _build_failure(error: Exception) -> HeadAnswer:
    name = type(error).__name__
    if isinstance(error, IcdcError) and name in wire.FAILURES:
        return HeadAnswer(failure=name, text=error.message[: wire.MAX_TEXT])
    # The text of an unforeseen error may quote the catalog or a password: send frames only.
    frames = "".join(traceback.format_tb(error.__traceback__))
    return HeadAnswer(failure="Bug", text=name, where=frames[-8 * wire.MAX_TEXT :])
