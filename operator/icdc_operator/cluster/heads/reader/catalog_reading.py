"""Open a catalog by its kind and read the branches of its tables through pyiceberg.

Part 3 of `reader`: read. Reads metadata only and writes nothing. Every call blocks and may hang;
`child` sets a timer of the kernel before each, so nothing here has a timeout of its own.

    REST               rest.Rest            the answer holds the metadata
    Hive, Glue, DynamoDB  pointers          the answer names a metadata file
    JDBC               jdbc.Jdbc            a row names a metadata file
"""

from collections.abc import Sequence
from typing import Any, Protocol

from icdc_operator.cluster.heads.catalog_properties import CatalogKind, PyCatalog
from icdc_operator.cluster.heads.reader.branches import Heads
from icdc_operator.cluster.heads.reader.foreign_errors import map_errors
from icdc_operator.cluster.heads.reader.jdbc import Jdbc
from icdc_operator.cluster.heads.reader.limits.addresses import AddressGuard
from icdc_operator.cluster.heads.reader.named import MetadataPointer
from icdc_operator.cluster.heads.reader.pointers import DynamoDb, Glue, Hive
from icdc_operator.cluster.heads.reader.rest import Rest
from icdc_operator.cluster.heads.settings import ReaderSettings


class OpenCatalog(Protocol):
    """One catalog. Not for two calls at a time."""

    def read_heads(self, table: Sequence[str]) -> Heads:
        """Return the branches of a table. Raises the errors of `map_errors`."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def open_catalog(catalog: PyCatalog, settings: ReaderSettings, guard: AddressGuard) -> OpenCatalog:
    """Connect to the catalog. Raises the errors of `map_errors`."""
    with map_errors("the catalog"):
        # Before any client is made: from then on boto3 searches for keys by itself.
        _require_own_keys(catalog, settings)
        if catalog.kind is CatalogKind.SQL:
            return Jdbc(catalog, settings, guard)
        if catalog.kind is CatalogKind.REST:
            return Loaded(Rest(catalog.name, **catalog.properties))
        loading = _LOADING[catalog.kind](catalog.name, **catalog.properties)
        loading.settings = settings
        return Loaded(loading)


_LOADING: dict[CatalogKind, Any] = {
    CatalogKind.HIVE: Hive,
    CatalogKind.GLUE: Glue,
    CatalogKind.DYNAMODB: DynamoDb,
}


def _require_own_keys(catalog: PyCatalog, settings: ReaderSettings) -> None:
    """Raise OutOfSight for a catalog without keys of its own, where boto3 would look for some.

    boto3 goes on to environment, files and the metadata of the node: the operator's own role.
    """
    signs = catalog.properties.get("rest.sigv4-enabled", "").lower() in ("true", "1", "t", "yes")
    of_aws = catalog.kind in (CatalogKind.GLUE, CatalogKind.DYNAMODB) or signs
    if of_aws and not all(catalog.properties.get(key) for key in _KEYS):
        settings.require_cloud_role("AWS")


_KEYS = ("client.access-key-id", "client.secret-access-key")


class Loaded:
    """A catalog of pyiceberg whose loads stop at the pointer of the newest metadata.

    A pointer (a file location or an ETag) that did not change means the same metadata, which is
    not read again.
    """

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._last: dict[tuple[str, ...], tuple[str | None, Heads]] = {}

    def read_heads(self, table: Sequence[str]) -> Heads:
        """See `OpenCatalog`."""
        key = tuple(table)
        last_pointer, last_heads = self._last.get(key, (None, {}))
        self._catalog.last_pointer = last_pointer
        with map_errors(".".join(table)):
            try:
                self._catalog.load_table(key)
            except MetadataPointer as named:
                if named.pointer == last_pointer:
                    return last_heads
                heads = named.read()
                self._last[key] = (named.pointer, heads)
                return heads
            # Each load of a table ends by the exception above; this one found no location.
            raise LookupError("the catalog named no metadata")

    def close(self) -> None:
        """See `OpenCatalog`."""
        self._catalog.close()
