"""A small lake of real Iceberg tables behind a JDBC catalog, written by pyiceberg without Spark."""

from pathlib import Path

import pyarrow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.utils.concurrent import ExecutorFactory

NAME = "lake"


def end_threads() -> None:
    """End the threads of pyiceberg: it keeps them for ever, and no test leaves any."""
    ExecutorFactory.get_or_create().shutdown()
    ExecutorFactory._instance = None


class HeadLake:
    """Tables with one column `id` in a folder. Use `close` at the end."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "catalog.db"
        self._catalog = SqlCatalog(
            NAME, uri=f"sqlite:///{self.database}", warehouse=f"file://{folder}/warehouse"
        )
        self._catalog.create_namespace("shop")

    @property
    def properties(self) -> dict[str, str]:
        """As a pipeline names them for Iceberg's Java library."""
        return {"type": "jdbc", "uri": f"jdbc:sqlite:{self.database}"}

    def create(self, name: str = "shop.orders") -> Table:
        """Create a table without a snapshot."""
        return self._catalog.create_table(name, pyarrow.schema([("id", pyarrow.int64())]))

    def commit(self, name: str = "shop.orders", branch: str = "main") -> str:
        """Commit one new row; return the id of its snapshot."""
        table = self._catalog.load_table(name)
        row = pyarrow.table({"id": pyarrow.array([1], pyarrow.int64())})
        table.append(row, branch=branch)
        end_threads()
        snapshot = self._catalog.load_table(name).snapshot_by_name(branch)
        assert snapshot is not None
        return str(snapshot.snapshot_id)

    def register(self, name: str, metadata: Path) -> None:
        """Register a table whose newest metadata is that file."""
        self._catalog.register_table(name, f"file://{metadata}")

    def create_branch(self, branch: str, name: str = "shop.orders") -> None:
        """Create a branch that begins at the newest snapshot of `main`."""
        table = self._catalog.load_table(name)
        head = table.current_snapshot()
        assert head is not None
        table.manage_snapshots().create_branch(head.snapshot_id, branch).commit()

    def find_metadata_file(self, name: str = "shop.orders") -> Path:
        """Return the newest metadata file."""
        location = self._catalog.load_table(name).metadata_location
        return Path(location.removeprefix("file://"))

    def drop(self, name: str = "shop.orders") -> None:
        """Take the table out of the catalog."""
        self._catalog.drop_table(name)

    def close(self) -> None:
        """Close the database."""
        self._catalog.engine.dispose()
