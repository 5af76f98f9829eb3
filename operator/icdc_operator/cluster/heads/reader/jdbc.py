"""Read a JDBC catalog: one row for each table, which names its metadata file.

Part 3 of `reader`: read. Uses pyiceberg's model of the rows but not its `SqlCatalog`, which would
create the tables of the catalog where they are missing.
"""

from collections.abc import Sequence

from pyiceberg.catalog.sql import IcebergTables
from sqlalchemy import URL, create_engine, make_url, select

from icdc_api.errors import TableNotFound
from icdc_api.spec.catalog import JDBC_NAME_RULE
from icdc_operator.cluster.heads.catalog_properties import PyCatalog
from icdc_operator.cluster.heads.reader import branches, metadata_files
from icdc_operator.cluster.heads.reader.branches import Heads
from icdc_operator.cluster.heads.reader.foreign_errors import map_errors
from icdc_operator.cluster.heads.reader.limits.addresses import AddressGuard
from icdc_operator.cluster.heads.settings import ReaderSettings

_PORT = "5432"


class Jdbc:
    """See `catalog_reading.OpenCatalog`. Reads a metadata file only when its row names another."""

    def __init__(self, catalog: PyCatalog, settings: ReaderSettings, guard: AddressGuard) -> None:
        self._name = catalog.name
        self._files = {key: value for key, value in catalog.properties.items() if key != "uri"}
        self._settings = settings
        url = make_url(catalog.properties["uri"])
        if url.drivername == "sqlite":
            settings.require_local_files()
        else:
            url = pin_addresses(url, guard)
        # One connection, checked before use: firewalls cut idle ones between two polls.
        self._engine = create_engine(url, pool_pre_ping=True, pool_size=1, max_overflow=0)
        self._last: dict[tuple[str, ...], tuple[str, Heads]] = {}

    def read_heads(self, table: Sequence[str]) -> Heads:
        """See `OpenCatalog`."""
        key = tuple(table)
        with map_errors(".".join(table)):
            location = self._read_location(key)
            last = self._last.get(key)
            if last is not None and last[0] == location:
                return last[1]
            content = metadata_files.read(self._files, location, self._settings)
            heads = branches.parse_file(content)
        self._last[key] = (location, heads)
        return heads

    def close(self) -> None:
        """See `OpenCatalog`."""
        self._engine.dispose()

    def _read_location(self, table: tuple[str, ...]) -> str:
        wanted = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == self._name,
            IcebergTables.table_namespace == ".".join(table[:-1]),
            IcebergTables.table_name == table[-1],
        )
        with self._engine.connect() as connection:
            location = connection.execute(wanted).scalar()
        if location is None:
            rule = JDBC_NAME_RULE.format(name=self._name)
            raise TableNotFound(f"{'.'.join(table)}: the catalog has no such table; {rule}")
        return str(location)


def pin_addresses(url: URL, guard: AddressGuard) -> URL:
    """Return `url` with the checked address of each PostgreSQL host in `hostaddr`.

    libpq is C and passes by the guard of Python's sockets. It connects to `hostaddr` where that is
    given, and uses `host` for TLS alone (PostgreSQL docs, "Connection Strings").

        //db:5433/x    ->    host=db, hostaddr=10.0.0.7, port=5433
    """
    query = url.query
    names = _split_words(query.get("host")) or [url.host or "localhost"]
    ports = _split_words(query.get("port")) or [str(url.port or _PORT)]
    # As in libpq: one port is that of all hosts, or each host has its own.
    pairs = [
        (name, address, port)
        for name, port in zip(names, ports * (len(names) // len(ports)), strict=True)
        for address in guard.resolve(name, int(port))
    ]
    # libpq wants three lists of the same length, also where a name has several addresses.
    hosts, addresses, port_list = (",".join(column) for column in zip(*pairs, strict=True))
    where = {"host": hosts, "hostaddr": addresses, "port": port_list}
    return URL.create(
        url.drivername,
        username=url.username,
        password=url.password,
        database=url.database,
        query={**query, **where},
    )


def _split_words(value: str | tuple[str, ...] | None) -> list[str]:
    return value.split(",") if isinstance(value, str) else list(value or ())
