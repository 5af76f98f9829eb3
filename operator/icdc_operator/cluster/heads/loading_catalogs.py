"""The catalogs of pyiceberg that load whole tables, stopped when they have named the metadata.

What names the newest metadata is known before the metadata itself is read: the location in the
answer of Hive, Glue or DynamoDB, the ETag of a REST catalog (or, where it sends none, its whole
answer). pyiceberg remembers neither, and goes on to understand all of the metadata, which it cannot
where a table has a type that it does not know. So `Named` takes the way out that an error takes.
It must not know what is made of a table.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from pyiceberg.io import load_file_io
from pyiceberg.serializers import Compressor
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from icdc_operator.cluster.heads.answered_properties import filtered, may_lead_to
from icdc_operator.cluster.heads.catalog_properties import CONNECT_SECONDS, Kind, OutOfSight

ANSWER_SECONDS = 10
"""Without a byte of an answer of a REST catalog."""

_SCHEMES = frozenset({"s3", "s3a", "s3n", "gs", "file"})
"""Of metadata files. For others pyiceberg loads libraries (HDFS: a JVM) or takes the local disk."""


class Named(Exception):  # noqa: N818 - no error: the answer of a catalog
    """What names the newest metadata of a table, and how to read it: JSON, as Python has it."""

    def __init__(self, pointer: str, read: Callable[[], Any]) -> None:
        super().__init__()
        self.pointer = pointer
        self.read = read


def read_metadata(properties: Mapping[str, str], location: str) -> Any:
    """A metadata file as JSON; the table's own properties have no say in how it is read."""
    if not isinstance(location, str) or location.partition(":")[0] not in _SCHEMES:
        raise OutOfSight("the operator reads metadata files at s3:, gs: and file: addresses alone")
    file = load_file_io(dict(properties), location).new_input(location)
    with (
        file.open() as stream,
        Compressor.get_compressor(location).stream_decompressor(stream) as plain,
    ):
        return json.loads(plain.read())


def constructor(kind: Kind) -> Callable[..., Any]:
    """Makes a catalog by its name and properties, of which each load of a table ends by `Named`.

    Its attribute `known` is set before a load: what named the metadata that was read last, or None.
    """
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

        def _ensure_catalog_table_exists_or_create(self) -> None:
            pass

        def _convert_dynamo_table_item_to_iceberg_table(
            self, dynamo_table_item: dict[str, Any]
        ) -> Any:
            # Unlike the others it opens the file without asking `_load_file_io`.
            location = dynamo_table_item.get("p.metadata_location", {}).get("S")
            if location is not None:
                _stop_at(location, self.properties)
            return super()._convert_dynamo_table_item_to_iceberg_table(dynamo_table_item)

    return ReadOnly


def _rest_catalog() -> Callable[..., Any]:
    from pyiceberg.catalog.rest import RestCatalog

    class Rest(RestCatalog):
        """Opens no file, and asks for no credentials to do so: the answer has all."""

        known: str | None = None

        def load_table(self, identifier: Any) -> Any:
            if self.known is None or not self.known.endswith('"'):  # no ETag
                return super().load_table(identifier)
            self._session.headers["If-None-Match"] = self.known
            try:
                return super().load_table(identifier)
            finally:
                del self._session.headers["If-None-Match"]

        def _config_headers(self, session: Session) -> None:
            super()._config_headers(session)
            session.headers.pop("X-Iceberg-Access-Delegation", None)
            session.hooks["response"].extend(
                (_refuse_elsewhere, functools.partial(_filter, self), self._stop)
            )
            for scheme in ("http://", "https://"):
                session.mount(scheme, _Bounded())

        def _stop(self, response: Response, *_: Any, **__: Any) -> None:
            if "/tables/" not in (response.request.path_url or ""):
                return
            body = response.content  # read to its end, so that the connection can be used again
            if response.status_code == 304 and self.known is not None:
                raise Named(self.known, lambda: None)
            if response.status_code == 200:
                digest = hashlib.sha256(body).hexdigest()
                pointer = response.headers.get("ETag") or digest
                raise Named(pointer, lambda: json.loads(body)["metadata"])

        def _load_file_io(self, *_: object, **__: object) -> Any:
            return None

    return Rest


def _filter(catalog: Any, response: Response, **_: Any) -> None:
    """Keep from pyiceberg what a configuration must not choose: it would take over all."""
    path = urlsplit(response.url).path
    if response.status_code == 200 and path == urlsplit(catalog.url("config", False)).path:
        answer = filtered(json.loads(response.content), catalog.properties["uri"])
        response._content, response.encoding = json.dumps(answer).encode(), "utf-8"


def _refuse_elsewhere(response: Response, *_: Any, **__: Any) -> None:
    """Raise OutOfSight before a redirect to another server is followed."""
    if response.is_redirect:
        target = urljoin(response.url, response.headers["location"])
        if not may_lead_to(response.url, target):
            response.close()
            raise OutOfSight("the catalog redirects to another server, which only a run follows")


def _with_own_files(catalog: type[Any]) -> Callable[..., Any]:
    class Own(catalog):  # type: ignore[misc]
        """Reads no metadata file by itself."""

        def _load_file_io(self, properties: object = None, location: str | None = None) -> Any:
            if location is not None:
                _stop_at(location, self.properties)
            return super()._load_file_io(properties, location)

    return Own


def _stop_at(location: str, properties: Mapping[str, str]) -> None:
    raise Named(location, functools.partial(read_metadata, properties, location))
