"""The catalogs of pyiceberg that load whole tables, made to stop where a table has not moved.

What names the newest metadata is known before the metadata itself is read: the location in the
answer of Hive, Glue or DynamoDB, the ETag of a REST catalog (or, where it sends none, its whole
answer). pyiceberg remembers neither, so `Unmoved` takes the way out that an error takes. It must
not know what is made of a table.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from pyiceberg.io import load_file_io
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from icdc_operator.cluster.heads.catalog_properties import CONNECT_SECONDS, Kind

ANSWER_SECONDS = 10
"""Without a byte of an answer of a REST catalog."""


class Unmoved(Exception):  # noqa: N818 - no error: the table is what it was
    """The catalog names the metadata that is known."""


class Pointer:
    """What one load of one table is told, and tells."""

    def __init__(self, known: str | None = None) -> None:
        self.known = known
        """What named the metadata that was read last; None where none was."""
        self.found: str | None = None

    def take(self, found: str | None) -> None:
        """Notes what names the metadata now; raises Unmoved where that is known."""
        self.found = found
        if found is not None and found == self.known:
            raise Unmoved

    @property
    def etag(self) -> str | None:
        """What is known, if it came from a REST catalog as an ETag."""
        return self.known if self.known is not None and self.known.endswith('"') else None


def constructor(kind: Kind) -> Callable[..., Any]:
    """Makes a catalog by its name and properties; its attribute `pointer` is set before a load."""
    if kind is Kind.REST:
        return _rest_catalog()
    if kind is Kind.GLUE:
        from pyiceberg.catalog.glue import GlueCatalog

        return _with_own_files(GlueCatalog)
    if kind is Kind.DYNAMODB:
        return _with_own_files(_dynamodb_catalog())
    from pyiceberg.catalog.hive import HiveCatalog

    return _with_own_files(HiveCatalog)


class _Bounded(HTTPAdapter):
    """Requests that end: pyiceberg sends them without any time-out."""

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or (CONNECT_SECONDS, ANSWER_SECONDS)
        return super().send(request, *args, **options)


def _dynamodb_catalog() -> type[Any]:
    from pyiceberg.catalog.dynamodb import DynamoDbCatalog

    class ReadOnly(DynamoDbCatalog):
        """Makes no table in DynamoDB where there is none, and need not be allowed to look."""

        pointer = Pointer()

        def _ensure_catalog_table_exists_or_create(self) -> None:
            pass

        def _convert_dynamo_table_item_to_iceberg_table(
            self, dynamo_table_item: dict[str, Any]
        ) -> Any:
            # Unlike the others it opens the file without asking `_load_file_io`.
            self.pointer.take(dynamo_table_item.get("p.metadata_location", {}).get("S"))
            return super()._convert_dynamo_table_item_to_iceberg_table(dynamo_table_item)

    return ReadOnly


def _rest_catalog() -> Callable[..., Any]:
    from pyiceberg.catalog.rest import RestCatalog

    class Rest(RestCatalog):
        """Opens no file, and asks for no credentials to do so: the answer has all."""

        pointer = Pointer()

        def load_table(self, identifier: Any) -> Any:
            if self.pointer.etag is None:
                return super().load_table(identifier)
            self._session.headers["If-None-Match"] = self.pointer.etag
            try:
                return super().load_table(identifier)
            finally:
                del self._session.headers["If-None-Match"]

        def _config_headers(self, session: Session) -> None:
            super()._config_headers(session)
            session.headers.pop("X-Iceberg-Access-Delegation", None)
            session.hooks["response"].append(self._compare)
            for scheme in ("http://", "https://"):
                session.mount(scheme, _Bounded())

        def _compare(self, response: Response, *_: Any, **__: Any) -> None:
            if "/tables/" not in (response.request.path_url or ""):
                return
            body = response.content  # read to its end, so that the connection can be used again
            if response.status_code == 304:
                raise Unmoved
            if response.status_code == 200:
                digest = hashlib.sha256(body).hexdigest()
                self.pointer.take(response.headers.get("ETag") or digest)

        def _load_file_io(self, *_: object, **__: object) -> Any:
            return None

    return Rest


def _with_own_files(catalog: type[Any]) -> Callable[..., Any]:
    class Own(catalog):  # type: ignore[misc]
        """Reads metadata files with its own properties: a table's could name code to run."""

        pointer = Pointer()

        def _load_file_io(self, properties: object = None, location: str | None = None) -> Any:
            self.pointer.take(location)
            return load_file_io(self.properties, location)

    return Own
