"""Sends one bulk request and returns the answer, whatever its status.

It never repeats a request, and says when the fate of one is unknown. It must not know operations.
"""

from dataclasses import dataclass
from urllib.parse import quote

from opensearchpy.exceptions import ConnectionError as LostConnection

from icdc_api.errors import IcdcError
from icdc_api.spec.indices.ingest_pipeline import NO_PIPELINE
from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.client.foreign_answers import EVERY_STATUS, is_unsent
from icdc_spark.opensearch.client.target_errors import translate

FILTER_PATH = "errors,items.*.status,items.*.error,items.*.result"
WRITTEN_PATH = ",items.*._index,items.*._id,items.*._version"
_LONGEST_RETRY_AFTER = 60.0
"""Seconds; a proxy may name hours, and a run that waits so long looks dead."""

GUARD = b'{"update":{"_id":"icdc-guard","require_alias":true}}\n{"doc":{}}\n'
"""First entry of every bulk request, so that the request cannot create its index.

An index operation, and also a delete with an external version, creates a missing index. Whether a
bulk request may do so is decided once per index name: a single entry with `require_alias` forbids
it for all. On a delete the server ignores that flag, and on a real operation it would refuse the
physical index; so a harmless update carries it. It always fails alone with 404: nothing is
written by it, and the entries behind it are not affected. (Tried on 2.19 and 3.8.)
"""


@dataclass(frozen=True)
class BulkAnswer:
    """An answer that arrived whole."""

    status: int
    """HTTP status of the request."""
    text: str
    """The body, not parsed: most answers are only searched."""
    retry_after: float = 0.0
    """Seconds that the server asked to wait; 0 if it named none."""


class NoAnswerError(Exception):
    """No whole answer arrived.

    `ambiguous`: the request may have reached the server, and may be applied even later.
    """

    def __init__(self, cause: IcdcError, *, ambiguous: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.ambiguous = ambiguous


class BulkEndpoint:
    """The bulk API of one OpenSearch, for use by several threads."""

    def __init__(self, connection: Connection, *, opaque_id: str, pool: int) -> None:
        self._connection = connection
        self._client = open_client(connection, pool=pool)
        self._headers = {"content-type": "application/x-ndjson", "x-opaque-id": opaque_id}

    def send(self, index: str, body: bytes, *, pipeline: str = "") -> BulkAnswer:
        """Send the guard and `body`; raises NoAnswerError when the connection failed.

        Documents go through the ingest pipeline of that name; then the answer says where each is.
        """
        transport = self._client.transport
        node = transport.get_connection()
        try:
            # Below the transport, because it hides the headers of error answers (Retry-After).
            status, headers, text = node.perform_request(
                "POST",
                f"/{quote(index, safe='')}/_bulk",
                params={
                    "filter_path": FILTER_PATH + (pipeline and WRITTEN_PATH),
                    # Named, whatever default pipeline the index got since it was made.
                    "pipeline": pipeline or NO_PIPELINE,
                },
                body=GUARD + body,
                headers=self._headers,
                # Error answers come back as answers: their headers and bodies are needed.
                ignore=EVERY_STATUS,
            )
        except LostConnection as error:
            cause = translate(error, self._connection)
            # Such as a certificate that is not trusted.
            if not cause.retryable:
                raise cause from error
            # Other hosts are tried before this one for a while, as the transport itself does it.
            transport.mark_dead(node)
            # Without a connection nothing can have been sent; any later failure leaves it open.
            never_sent = is_unsent(error.info)
            raise NoAnswerError(cause, ambiguous=not never_sent) from error
        transport.connection_pool.mark_live(node)
        return BulkAnswer(status, text, _parse_seconds(headers.get("retry-after")))

    def close(self) -> None:
        """Close the sockets."""
        self._client.close()


def _parse_seconds(header: str | None) -> float:
    # The other form of the header, a date, is not sent by OpenSearch.
    if header is None or not header.strip().isdigit():
        return 0.0
    return min(float(header), _LONGEST_RETRY_AFTER)
