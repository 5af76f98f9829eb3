"""Read a REST catalog through pyiceberg without trusting its answers.

Part 3 of `reader`: read. Bodies are bounded, settings of the answer are filtered, redirects stay
at the server, and an unchanged table costs one request without a body:

    GET /v1/namespaces/shop/tables/orders    If-None-Match: "e1"
    304                                      the branches are those of the last read
    200, ETag "e2"                           the body is parsed
"""

import functools
import hashlib
from typing import Any
from urllib.parse import urljoin

from pyiceberg.catalog.rest import RestCatalog
from requests import Response, Session

from icdc_operator.cluster.heads.catalog_properties import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    OutOfSight,
)
from icdc_operator.cluster.heads.reader import branches, metadata_files
from icdc_operator.cluster.heads.reader.answered_properties import keep_safe_properties, may_lead_to
from icdc_operator.cluster.heads.reader.named import MetadataPointer

_CHUNK_BYTES = 64 * 2**10


class Rest(RestCatalog):
    """Load tables without opening a file or asking for storage credentials.

    The answer of a REST catalog has the whole metadata, so each load ends by `MetadataPointer`.
    """

    last_pointer: str | None = None
    """Set before each load: the pointer of the metadata that was read last, or None."""

    def load_table(self, identifier: Any) -> Any:
        """Load a table; without a body where its ETag is still the last one."""
        # A digest of our own stands in for a missing ETag, and means nothing to the server.
        if self.last_pointer is None or not self.last_pointer.endswith('"'):
            return super().load_table(identifier)
        self._session.headers["If-None-Match"] = self.last_pointer
        try:
            return super().load_table(identifier)
        finally:
            del self._session.headers["If-None-Match"]

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        # It would ask for credentials of the table's storage, where nothing is read.
        session.headers.pop("X-Iceberg-Access-Delegation", None)
        # Otherwise requests reads the whole body before a hook sees it, however long it is.
        session.stream = True
        times = (CONNECT_SECONDS, ANSWER_SECONDS)
        session.request = functools.partial(session.request, timeout=times)  # type: ignore[method-assign]
        session.hooks["response"].extend((_refuse_elsewhere, _take, self._stop))

    def _fetch_config(self) -> None:
        """Fetch the catalog's configuration and keep the safe part of it.

        pyiceberg merges the answer into `properties` and creates later sessions from those.
        """
        given = dict(self.properties)
        super()._fetch_config()
        self.properties = {**given, **keep_safe_properties(self.properties, given["uri"])}

    def _stop(self, response: Response, *_: Any, **__: Any) -> None:
        # Configuration and tokens are answers too, and go on to pyiceberg.
        if "/tables/" not in (response.request.path_url or ""):
            return
        body = response.content
        if response.status_code == 304 and self.last_pointer is not None:
            # The same pointer: `catalog_reading.Loaded` has its branches and does not read.
            raise MetadataPointer(self.last_pointer, dict)
        if response.status_code == 200:
            pointer = response.headers.get("ETag") or hashlib.sha256(body).hexdigest()
            raise MetadataPointer(pointer, functools.partial(branches.parse_answer, body))

    def _load_file_io(self, *_: object, **__: object) -> Any:
        return None


def _refuse_elsewhere(response: Response, *_: Any, **__: Any) -> None:
    """Raise OutOfSight before a redirect to another server is followed."""
    if response.is_redirect:
        target = urljoin(response.url, response.headers["location"])
        if not may_lead_to(response.url, target):
            response.close()
            raise OutOfSight("the catalog redirects to another server, to which only runs connect")


def _take(response: Response, *_: Any, **__: Any) -> None:
    """Read a bounded body to its end, so that the connection can be used again."""
    try:
        body = metadata_files.join_bounded(response.iter_content(_CHUNK_BYTES))
    except ValueError:
        response.close()
        raise
    # requests has no public way to hand on a body that was read already.
    response._content, response._content_consumed = body, True
