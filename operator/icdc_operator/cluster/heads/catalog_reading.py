"""Reads the newest snapshots of tables through pyiceberg: the border at which its errors end.

Metadata only, never data, and nothing is ever written. Every call blocks and may hang: who calls
sees to that. Foreign texts are not repeated in messages: they may hold addresses with passwords,
or what was found in a file in place of metadata.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from pyiceberg import exceptions as foreign
from pyiceberg.io import load_file_io
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType

from icdc_api.errors import SourceUnavailable, TableNotFound, Unauthorized
from icdc_operator.cluster.heads.catalog_properties import Kind, OutOfSight, PyCatalog
from icdc_operator.cluster.heads.loading_catalogs import Pointer, Unmoved, constructor

MAIN = "main"
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
        return LoadedHeads(constructor(catalog.kind)(catalog.name, **catalog.properties))


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
    """A catalog that pyiceberg loads whole tables from, which stops where nothing has moved."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._known: dict[tuple[str, ...], tuple[str | None, Heads]] = {}

    def heads(self, table: Sequence[str]) -> Heads:
        """See `OpenCatalog`."""
        key = tuple(table)
        known, before = self._known.get(key, (None, {}))
        pointer = self._catalog.pointer = Pointer(known)
        with mapped(".".join(table)):
            try:
                found = branches(self._catalog.load_table(key).metadata)
            except Unmoved:
                return before
        self._known[key] = (pointer.found, found)
        return found

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
