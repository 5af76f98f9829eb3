"""Read the current snapshot of each table's branch: Secrets, catalogs and connections together.

A failure is a result too: `Unseen`, with the reason. Nothing here raises for what a catalog does,
and nothing blocks the event loop. It must not decide when to read, nor what follows from it.

    shop.orders, shop.items in catalog A    one connection, two questions one after the other
    shop.users in catalog B                 another connection, at the same time as A
    catalog A refuses its credentials       both Unseen; A's Secrets are read again the next time
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icdc_api import naming
from icdc_api.errors import BranchNotFound, Bug, IcdcError, TableNotFound, Unauthorized
from icdc_api.spec.catalog import Catalog
from icdc_api.spec.pipeline import PipelineSpec
from icdc_operator.cluster.heads import catalog_properties
from icdc_operator.cluster.heads.catalog_properties import PyCatalog
from icdc_operator.cluster.heads.catalog_secrets import CatalogSecrets
from icdc_operator.cluster.heads.connections import OpenConnection, Readers
from icdc_operator.cluster.heads.lanes import CallLimits, Lane
from icdc_operator.cluster.metrics import Metrics

TABLE_SECONDS = 20.0
"""Time-out for one table, including the connection to its catalog."""

MAX_CATALOGS = 64
"""Catalogs that stay connected, with a process each. Pipelines of a namespace share a catalog if
its properties are the same."""

CATALOGS_OF_NAMESPACE = 8
"""Of these, catalogs of one namespace, so that it does not fill the memory of all."""


@dataclass(frozen=True)
class Head:
    """The current snapshot of a table's branch."""

    snapshot_id: str | None
    """Id of the snapshot; None for an empty table."""


@dataclass(frozen=True)
class Unseen:
    """A current snapshot that could not be read."""

    reason: str
    """Why, for a person."""


@dataclass(frozen=True)
class TableBranch:
    """One branch of one table."""

    name: str
    """As in the spec."""
    branch: str
    """`main`, unless the spec names another."""
    catalog: Catalog
    """The table's own, or the one of the pipeline."""


def list_branches(spec: PipelineSpec) -> tuple[TableBranch, ...]:
    """Return the branches that a pipeline follows, one for each table."""
    return tuple(
        TableBranch(table.name, table.branch, spec.get_catalog(table)) for table in spec.tables
    )


class _OpenedCatalog:
    """One catalog: connected with the first question, and again after a failure."""

    def __init__(
        self, namespace: str, catalog: PyCatalog, readers: Readers, limits: CallLimits
    ) -> None:
        self.namespace = namespace
        self.lane = Lane(limits, namespace)
        self._catalog = catalog
        self._readers = readers
        self._open: OpenConnection | None = None

    async def read_head(self, table: TableBranch, seconds: float) -> Head:
        """Return the current snapshot of `table`. Raises the errors of `wire.FAILURES`."""
        return await self.lane.call(lambda: self._read_head(table, seconds), seconds)

    async def _read_head(self, table: TableBranch, seconds: float) -> Head:
        healthy = False
        try:
            if self._open is None:
                self._open = await self._readers.connect(self._catalog)
            parts = naming.parse_table_name(table.name)
            snapshot = await self._open.read_head(parts, table.branch, seconds)
            healthy = True
        except (BranchNotFound, TableNotFound):
            # An answer too: the connection is as good as before.
            healthy = True
            raise
        finally:
            # Also after cancellation: the next question must not get the answer to this one.
            if not healthy:
                self.close()
        # As text, as in the status: many readers of JSON round integers of 64 bits.
        return Head(None if snapshot is None else str(snapshot))

    def close(self) -> None:
        """Close the connection, which ends the reader of the catalog."""
        before, self._open = self._open, None
        if before is not None:
            before.close()


class HeadReader:
    """Reads the current snapshots of many pipelines. For one event loop."""

    def __init__(
        self,
        secrets: CatalogSecrets,
        metrics: Metrics,
        readers: Readers,
        *,
        limits: CallLimits | None = None,
        table_seconds: float = TABLE_SECONDS,
        max_catalogs: int = MAX_CATALOGS,
    ) -> None:
        self._secrets = secrets
        self._metrics = metrics
        self._readers = readers
        self._limits = limits or CallLimits()
        self._table_seconds = table_seconds
        self._max_catalogs = max_catalogs
        self._held: OrderedDict[tuple[str, str], _OpenedCatalog] = OrderedDict()

    @property
    def overdue(self) -> int:
        """Return how many catalogs were late with their last answer."""
        return sum(held.lane.late for held in self._held.values())

    async def read(self, namespace: str, tables: Sequence[TableBranch]) -> dict[str, Head | Unseen]:
        """Return the current snapshot of each table by name, or why it could not be read."""
        catalogs: dict[str, tuple[Catalog, list[TableBranch]]] = {}
        for table in tables:
            # By its text: a catalog holds mappings, so it cannot be a key, and equal ones share a
            # connection.
            same = table.catalog.model_dump_json()
            catalogs.setdefault(same, (table.catalog, []))[1].append(table)
        parts = await asyncio.gather(
            *(self._read_catalog(namespace, catalog, its) for catalog, its in catalogs.values())
        )
        results = {name: head for part in parts for name, head in part.items()}
        for head in results.values():
            self._metrics.head_reads.labels("read" if isinstance(head, Head) else "unseen").inc()
        return results

    def close(self) -> None:
        """End all readers."""
        for held in self._held.values():
            held.close()
        self._held.clear()
        self._readers.close()

    async def _read_catalog(
        self, namespace: str, catalog: Catalog, tables: Sequence[TableBranch]
    ) -> Mapping[str, Head | Unseen]:
        try:
            properties = await self._secrets.read_properties(namespace, catalog)
            authority = await self._secrets.read_authority(namespace, catalog)
            translated = catalog_properties.translate(catalog.name, properties)
            held = self._hold(namespace, replace(translated, authority=authority))
        except IcdcError as error:
            return {table.name: Unseen(error.message) for table in tables}
        # With exceptions as results: a table that fails must not hide the heads of the others.
        outcomes = await asyncio.gather(
            *(held.read_head(table, self._table_seconds) for table in tables),
            return_exceptions=True,
        )
        # Perhaps they were rotated: the next poll reads the Secrets again and not the cache.
        if any(isinstance(outcome, Unauthorized) for outcome in outcomes):
            self._secrets.forget(namespace, catalog)
        return {
            table.name: outcome
            if isinstance(outcome, Head)
            else Unseen(self._explain_error(outcome))
            for table, outcome in zip(tables, outcomes, strict=True)
        }

    def _hold(self, namespace: str, catalog: PyCatalog) -> _OpenedCatalog:
        key = (namespace, catalog.digest)
        held = self._held.get(key)
        if held is None:
            held = _OpenedCatalog(namespace, catalog, self._readers, self._limits)
            self._held[key] = held
        # So the order is that of use, by which `_close_one` chooses.
        self._held.move_to_end(key)
        own = [held_key for held_key in self._held if held_key[0] == namespace]
        # First: what it closes may spare a catalog of another namespace.
        if len(own) > CATALOGS_OF_NAMESPACE:
            self._close_one(own, beside=key)
        if len(self._held) > self._max_catalogs:
            self._close_one(list(self._held), beside=key)
        return held

    def _close_one(self, among: list[tuple[str, str]], *, beside: tuple[str, str]) -> None:
        """Close the catalog that was used least recently, of the namespace that has most.

        Of any namespace, one with many catalogs would push out those of the others.
        """
        # A busy one would fail its question; until one is idle there are more than allowed.
        idle = [key for key in among if key != beside and not self._held[key].lane.busy]
        if idle:
            counts = Counter(held.namespace for held in self._held.values())
            # `max` takes the first of equals, and the dict has the least recently used first.
            self._held.pop(max(idle, key=lambda key: counts[key[0]])).close()

    def _explain_error(self, error: BaseException) -> str:
        if isinstance(error, IcdcError):
            if isinstance(error, Bug):
                self._metrics.unexpected_errors.inc()
            return error.message
        # A cancellation, or what no catalog can cause.
        raise error
