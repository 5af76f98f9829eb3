"""Reads the newest snapshot of each table's branch: Secrets, catalogs and threads put together.

What cannot be read is an answer too: why. Nothing here raises for what a catalog does, and nothing
blocks the event loop. Decides neither when to look nor what follows from it.
"""

import asyncio
import logging
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from icdc_api import naming
from icdc_api.catalog import Catalog
from icdc_api.errors import BranchNotFound, Bug, IcdcError, TableNotFound, Unauthorized
from icdc_api.spec import PipelineSpec
from icdc_operator.cluster.heads import catalog_properties, catalog_reading
from icdc_operator.cluster.heads.catalog_properties import PyCatalog
from icdc_operator.cluster.heads.catalog_reading import Heads, OpenCatalog
from icdc_operator.cluster.heads.catalog_secrets import CatalogSecrets
from icdc_operator.cluster.heads.lanes import Lane, Threads
from icdc_operator.cluster.metrics import Metrics

TABLE_SECONDS = 20.0
"""For one table, a first connection to its catalog included."""

MAX_CATALOGS = 64
"""Catalogs that stay connected; pipelines with the same properties share one."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Head:
    """Newest snapshot of a table's branch; None for an empty table."""

    snapshot_id: str | None


@dataclass(frozen=True)
class Unseen:
    """Why there is no head, in words for a person."""

    reason: str


@dataclass(frozen=True)
class Wanted:
    """One branch of one table."""

    name: str
    """As in the spec."""
    branch: str
    catalog: Catalog


def wanted(spec: PipelineSpec) -> tuple[Wanted, ...]:
    """The tables of a pipeline."""
    return tuple(Wanted(table.name, table.branch, spec.catalog_of(table)) for table in spec.tables)


class _Held:
    """One catalog, connected when it is first asked, and anew after it failed."""

    def __init__(
        self, catalog: PyCatalog, threads: Threads, connect: Callable[[PyCatalog], OpenCatalog]
    ) -> None:
        self.lane = Lane(threads)
        self._catalog = catalog
        self._connect = connect
        self._open: OpenCatalog | None = None

    def heads(self, table: Sequence[str]) -> Heads:
        """Blocks; in the lane's thread."""
        if self._open is None:
            self._open = self._connect(self._catalog)
        healthy = False
        try:
            found = self._open.heads(table)
            healthy = True
            return found
        except TableNotFound:
            healthy = True
            raise
        finally:
            if not healthy:
                self.close()

    def close(self) -> None:
        """Blocks."""
        before, self._open = self._open, None
        if before is not None:
            before.close()


class HeadReader:
    """Looks at tables of many pipelines. For one event loop."""

    def __init__(
        self,
        secrets: CatalogSecrets,
        metrics: Metrics,
        *,
        connect: Callable[[PyCatalog], OpenCatalog] = catalog_reading.opened,
        threads: Threads | None = None,
        table_seconds: float = TABLE_SECONDS,
        max_catalogs: int = MAX_CATALOGS,
    ) -> None:
        self._secrets = secrets
        self._metrics = metrics
        self._connect = connect
        self._threads = threads or Threads()
        self._table_seconds = table_seconds
        self._max_catalogs = max_catalogs
        self._held: OrderedDict[str, _Held] = OrderedDict()

    @property
    def overdue(self) -> int:
        """Catalogs whose answer is overdue, each with a thread that waits for it."""
        return len(self._threads.overdue)

    async def read(self, namespace: str, tables: Sequence[Wanted]) -> dict[str, Head | Unseen]:
        """The head of each table by its name, or why there is none."""
        catalogs: dict[str, tuple[Catalog, list[Wanted]]] = {}
        for table in tables:
            same = table.catalog.model_dump_json()
            catalogs.setdefault(same, (table.catalog, []))[1].append(table)
        parts = await asyncio.gather(
            *(self._of_catalog(namespace, catalog, its) for catalog, its in catalogs.values())
        )
        found = {name: head for part in parts for name, head in part.items()}
        for head in found.values():
            self._metrics.head_reads.labels("read" if isinstance(head, Head) else "unseen").inc()
        return found

    def close(self) -> None:
        """Lets all connections go; what hangs is left to itself."""
        for held in self._held.values():
            _let_go(held)
        self._held.clear()

    async def _of_catalog(
        self, namespace: str, catalog: Catalog, tables: Sequence[Wanted]
    ) -> Mapping[str, Head | Unseen]:
        try:
            properties = await self._secrets.properties(namespace, catalog)
            held = self._hold(catalog_properties.translated(catalog.name, properties))
        except IcdcError as error:
            return {table.name: Unseen(error.message) for table in tables}
        outcomes = await asyncio.gather(
            *(self._of_table(held, table) for table in tables), return_exceptions=True
        )
        if any(isinstance(each, Unauthorized) for each in outcomes):
            self._secrets.forget(namespace, catalog)
        return {
            table.name: outcome if isinstance(outcome, Head) else Unseen(self._reason(outcome))
            for table, outcome in zip(tables, outcomes, strict=True)
        }

    async def _of_table(self, held: _Held, table: Wanted) -> Head:
        parts = naming.parse_table_name(table.name)
        heads = await held.lane.call(lambda: held.heads(parts), self._table_seconds)
        if table.branch in heads:
            return Head(str(heads[table.branch]))
        if table.branch == catalog_reading.MAIN:
            return Head(None)
        raise BranchNotFound(f"{table.name} has no branch {table.branch!r}")

    def _hold(self, catalog: PyCatalog) -> _Held:
        held = self._held.get(catalog.digest)
        if held is None:
            held = _Held(catalog, self._threads, self._connect)
            self._held[catalog.digest] = held
        self._held.move_to_end(catalog.digest)
        if len(self._held) > self._max_catalogs:
            _let_go(self._held.popitem(last=False)[1])
        return held

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, IcdcError) and not isinstance(error, Bug):
            return error.message
        # Of an error that nobody foresaw the text may hold anything: where it arose is enough.
        frames = "".join(traceback.format_tb(error.__traceback__))
        _log.error("internal error; please report it: %s\n%s", type(error).__name__, frames)
        self._metrics.unexpected_errors.inc()
        return f"internal error ({type(error).__name__})"


def _let_go(held: _Held) -> None:
    # Closing may block as anything else; what is at work in it is let go with it.
    if not held.lane.busy:
        threading.Thread(target=held.close, name="catalog-close", daemon=True).start()
