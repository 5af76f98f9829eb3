"""Reads the newest snapshots of tables through pyiceberg.

Metadata only, never data, and nothing is ever written. Every call blocks and may hang: who started
this process sees to that.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from icdc_operator.cluster.heads.catalog_properties import CatalogKind, PyCatalog
from icdc_operator.cluster.heads.reader.addresses import Guard
from icdc_operator.cluster.heads.reader.branches import Heads
from icdc_operator.cluster.heads.reader.foreign_errors import map_errors
from icdc_operator.cluster.heads.reader.jdbc import Jdbc
from icdc_operator.cluster.heads.reader.named import MetadataPointer
from icdc_operator.cluster.heads.reader.pointers import DynamoDb, Glue, Hive
from icdc_operator.cluster.heads.reader.rest import Rest
from icdc_operator.cluster.heads.settings import ReaderSettings


class OpenCatalog(Protocol):
    """One catalog. Not for two calls at a time."""

    def heads(self, table: Sequence[str]) -> Heads:
        """Return the branches of a table. Raises the errors of `map_errors`."""
        ...

    def close(self) -> None:
        """Let connections go."""
        ...


def open_catalog(catalog: PyCatalog, settings: ReaderSettings, guard: Guard) -> OpenCatalog:
    """Connect to the catalog. Raises the errors that `map_errors` knows."""
    with map_errors("the catalog"):
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
    """Raise OutOfSight for a catalog that the libraries of AWS would find keys for."""
    signs = catalog.properties.get("rest.sigv4-enabled", "").lower() in ("true", "1", "t", "yes")
    of_aws = catalog.kind in (CatalogKind.GLUE, CatalogKind.DYNAMODB) or signs
    if of_aws and not all(catalog.properties.get(key) for key in _KEYS):
        settings.require_cloud_role("AWS")


_KEYS = ("client.access-key-id", "client.secret-access-key")


class Loaded:
    """A catalog that pyiceberg loads whole tables from, which stops where nothing has moved."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._known: dict[tuple[str, ...], tuple[str | None, Heads]] = {}

    def heads(self, table: Sequence[str]) -> Heads:
        """See `OpenCatalog`."""
        key = tuple(table)
        known, before = self._known.get(key, (None, {}))
        self._catalog.known = known
        with map_errors(".".join(table)):
            try:
                self._catalog.load_table(key)
            except MetadataPointer as named:
                if named.pointer == known:
                    return before
                found = named.read()
                self._known[key] = (named.pointer, found)
                return found
            raise LookupError("the catalog named no metadata")

    def close(self) -> None:
        """See `OpenCatalog`."""
        self._catalog.close()
