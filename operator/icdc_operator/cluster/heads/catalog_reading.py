"""Reads the newest snapshots of tables through pyiceberg: the border at which its errors end.

Metadata only, never data, and nothing is ever written. Every call blocks and may hang: who calls
sees to that. Foreign texts are not repeated in messages: they may hold addresses with passwords,
or what was found in a file in place of metadata.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from pydantic import BaseModel, Field
from pyiceberg import exceptions as foreign

from icdc_api.errors import SourceUnavailable, TableNotFound, Unauthorized
from icdc_operator.cluster.heads.catalog_properties import Kind, OutOfSight, PyCatalog
from icdc_operator.cluster.heads.loading_catalogs import Named, constructor, read_metadata

MAIN = "main"
_NO_SNAPSHOT = -1
"""How older writers say that a table has none."""

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
            found = branches(read_metadata(self._files, location))
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
        self._catalog.known = known
        with mapped(".".join(table)):
            try:
                self._catalog.load_table(key)
            except Named as named:
                if named.pointer == known:
                    return before
                found = branches(named.read())
                self._known[key] = (named.pointer, found)
                return found
            raise LookupError("the catalog named no metadata")

    def close(self) -> None:
        """See `OpenCatalog`."""
        self._catalog.close()


class _Ref(BaseModel):
    snapshot_id: int = Field(alias="snapshot-id")
    type: str


class _Metadata(BaseModel):
    """What heads need of a table's metadata. All else may be of a kind that is not known here."""

    format_version: int = Field(alias="format-version")
    current_snapshot_id: int | None = Field(None, alias="current-snapshot-id")
    refs: Mapping[str, _Ref] = {}


def branches(metadata: object) -> Heads:
    """The branches of a table, of its metadata as JSON, and their newest snapshots."""
    table = _Metadata.model_validate(metadata)
    found = {name: ref.snapshot_id for name, ref in table.refs.items() if ref.type == "branch"}
    if table.current_snapshot_id not in (None, _NO_SNAPSHOT):
        found.setdefault(MAIN, table.current_snapshot_id)
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
