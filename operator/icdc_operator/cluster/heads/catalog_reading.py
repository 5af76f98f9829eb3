"""Reads the newest snapshots of tables through pyiceberg: the border at which its errors end.

Metadata only, never data, and nothing is ever written. Every call blocks and may hang: who calls
sees to that. Foreign texts are not repeated in messages: they may hold addresses with passwords,
or what was found in a file in place of metadata.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from pyiceberg import exceptions as foreign
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from icdc_api.errors import SourceUnavailable, TableNotFound, Unauthorized
from icdc_operator.cluster.heads.catalog_properties import (
    CONNECT_SECONDS,
    Kind,
    OutOfSight,
    PyCatalog,
)

MAIN = "main"
ANSWER_SECONDS = 10
"""Without a byte of an answer of a REST catalog."""

Heads = Mapping[str, int]
"""Newest snapshot by branch; an empty table has none."""


class OpenCatalog(Protocol):
    """One catalog. Not for two calls at a time."""

    def heads(self, table: Sequence[str]) -> Heads:
        """The branches of a table by its parts. Raises the errors that `mapped` knows."""
        ...

    def close(self) -> None:
        """Lets connections go."""
        ...


def opened(catalog: PyCatalog) -> OpenCatalog:
    """Connects to the catalog. Imports of a kind wait until it is used: each costs megabytes."""
    with mapped("the catalog"):
        if catalog.kind is Kind.SQL:
            return SqlHeads(catalog)
        return LoadedHeads(_constructor(catalog.kind)(catalog.name, **catalog.properties))


class SqlHeads:
    """A JDBC catalog: its rows by the model of pyiceberg, which would also make its tables.

    The metadata file of a table is read only when the row names another one than before.
    """

    def __init__(self, catalog: PyCatalog) -> None:
        from sqlalchemy import create_engine

        self._name = catalog.name
        self._files = {key: value for key, value in catalog.properties.items() if key != "uri"}
        # One connection, tried before use: it may have been cut between two looks.
        self._engine = create_engine(
            catalog.properties["uri"], pool_pre_ping=True, pool_size=1, max_overflow=0
        )
        self._known: dict[tuple[str, ...], tuple[str, Heads]] = {}

    def heads(self, table: Sequence[str]) -> Heads:
        """See `OpenCatalog`."""
        key = tuple(table)
        with mapped(".".join(table)):
            location = self._location(key)
            known = self._known.get(key)
            if known is not None and known[0] == location:
                return known[1]
            # The table's own properties have no say in how its file is read.
            file = load_file_io(self._files, location).new_input(location)
            found = branches(FromInputFile.table_metadata(file))
        self._known[key] = (location, found)
        return found

    def close(self) -> None:
        """See `OpenCatalog`."""
        self._engine.dispose()

    def _location(self, table: tuple[str, ...]) -> str:
        from pyiceberg.catalog.sql import IcebergTables
        from sqlalchemy import select

        wanted = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == self._name,
            IcebergTables.table_namespace == ".".join(table[:-1]),
            IcebergTables.table_name == table[-1],
        )
        with self._engine.connect() as connection:
            location = connection.execute(wanted).scalar()
        if location is None:
            raise foreign.NoSuchTableError
        return str(location)


class LoadedHeads:
    """A catalog whose answer is the whole table: REST sends the metadata with it."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def heads(self, table: Sequence[str]) -> Heads:
        """See `OpenCatalog`."""
        with mapped(".".join(table)):
            return branches(self._catalog.load_table(tuple(table)).metadata)

    def close(self) -> None:
        """See `OpenCatalog`."""
        self._catalog.close()


def branches(metadata: TableMetadata) -> Heads:
    """The branches of a table and their newest snapshots."""
    found = {
        name: ref.snapshot_id
        for name, ref in metadata.refs.items()
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH
    }
    if metadata.current_snapshot_id is not None:
        found.setdefault(MAIN, metadata.current_snapshot_id)
    return found


_NOT_THERE = (
    foreign.NoSuchTableError,
    foreign.NoSuchNamespaceError,
    foreign.NoSuchIdentifierError,
)
_REFUSED = (
    foreign.UnauthorizedError,
    foreign.ForbiddenError,
    foreign.AuthorizationExpiredError,
    foreign.OAuthError,
    foreign.SignError,
)
_OTHERS: tuple[type[Exception], ...] = (
    *(each for each in vars(foreign).values() if isinstance(each, type)),
    OSError,  # connections (requests'), files
    ValueError,  # answers and files that are not what they should be (pydantic's), bad addresses
    LookupError,
    TypeError,
    NotImplementedError,
)


@contextmanager
def mapped(what: str) -> Iterator[None]:
    """Raises what pyiceberg and its libraries raise in the body as an error of the one tree."""
    try:
        yield
    except _NOT_THERE as error:
        raise TableNotFound(f"{what}: the catalog has no such table") from error
    except _REFUSED as error:
        raise Unauthorized(f"{what}: the catalog refuses ({type(error).__name__})") from error
    except (ImportError, foreign.NotInstalledError) as error:
        raise OutOfSight("a Python library for this kind of catalog is not installed") from error
    except (*_OTHERS, *_of_loaded_libraries()) as error:
        raise SourceUnavailable(f"{what} cannot be read: {type(error).__name__}") from error


def _of_loaded_libraries() -> Iterator[type[Exception]]:
    """Roots of the errors of libraries that only some kinds of catalogs need."""
    for module, names in (
        ("sqlalchemy.exc", ("SQLAlchemyError",)),
        ("tenacity", ("RetryError",)),
        ("botocore.exceptions", ("BotoCoreError", "ClientError")),
        ("thrift.Thrift", ("TException",)),
    ):
        if module in sys.modules:
            yield from (getattr(sys.modules[module], name) for name in names)


class _Bounded(HTTPAdapter):
    """Requests that end: pyiceberg sends them without any time-out."""

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or (CONNECT_SECONDS, ANSWER_SECONDS)
        return super().send(request, *args, **options)


def _constructor(kind: Kind) -> Callable[..., Any]:
    if kind is Kind.REST:
        return _rest_catalog()
    if kind is Kind.GLUE:
        from pyiceberg.catalog.glue import GlueCatalog

        return _with_own_files(GlueCatalog)
    from pyiceberg.catalog.hive import HiveCatalog

    return _with_own_files(HiveCatalog)


def _rest_catalog() -> Callable[..., Any]:
    from pyiceberg.catalog.rest import RestCatalog

    class Rest(RestCatalog):
        """Opens no file, and asks for no credentials to do so: the answer has all."""

        def _config_headers(self, session: Session) -> None:
            super()._config_headers(session)
            session.headers.pop("X-Iceberg-Access-Delegation", None)
            for scheme in ("http://", "https://"):
                session.mount(scheme, _Bounded())

        def _load_file_io(self, *_: object, **__: object) -> Any:
            return None

    return Rest


def _with_own_files(catalog: type[Any]) -> Callable[..., Any]:
    class Own(catalog):  # type: ignore[misc]
        """Reads metadata files with its own properties: a table's could name code to run."""

        def _load_file_io(self, properties: object = None, location: str | None = None) -> Any:
            return load_file_io(self.properties, location)

    return Own
