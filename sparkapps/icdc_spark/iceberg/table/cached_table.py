"""One table from one look at it to the next: a metadata file is read again only when it is another.

A catalog is asked each time where the newest metadata is; Iceberg itself reads no file whose name
it knows already. Names say nothing where they repeat: in a catalog of type `hadoop` a table that
was dropped and created again begins at `v1.metadata.json` again, so there the file must also be the
very one that was read. A REST catalog is asked for the table, which brings the metadata and fresh
credentials for the files (and nothing but a 304 where both sides know ETags).

It must not know what a look is for. For one thread at a time.
"""

from typing import NamedTuple

from pyspark.sql import SparkSession

from icdc_api.errors import IcdcError
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.errors import source_errors
from icdc_spark.iceberg.table.tables import IcebergTable

_UNIQUE_NAMES = "org.apache.iceberg.BaseMetastoreTableOperations"
"""Of every catalog that keeps a pointer to a file: no two files ever have the same name."""
_NUMBERED = "org.apache.iceberg.hadoop.HadoopTableOperations"
_FILE_WITH_STATUS = "org.apache.iceberg.hadoop.HadoopInputFile"


class _Stamp(NamedTuple):
    """A metadata file as the file system knew it before the table was loaded from it."""

    location: str
    modified: int
    size: int


class HeldTable:
    """The table `name` of a session's catalog. It is the same object until it must be loaded."""

    def __init__(self, session: SparkSession, catalog: str, name: str) -> None:
        self._session = session
        self._catalog = catalog
        self._name = name
        self._table: IcebergTable | None = None
        self._stamp: _Stamp | None = None

    def now(self) -> IcebergTable:
        """The table as it is now; raises what `IcebergTable.load` raises."""
        # Whatever goes wrong on the way, the next look begins with nothing.
        table, self._table = self._table, None
        stamp, self._stamp = self._stamp, None
        if table is not None:
            # The thread may have looked at a table of another session meanwhile.
            Bridge(self._session)
            table, stamp = self._followed(table, stamp)
        if table is None:
            table = IcebergTable.load(self._session, self._catalog, self._name)
        # Taken before the load, it is a stamp of what was loaded or of something older.
        self._stamp = stamp if stamp and stamp.location == table.metadata_location else None
        self._table = table
        return table

    def _followed(
        self, table: IcebergTable, known: _Stamp | None
    ) -> tuple[IcebergTable | None, _Stamp | None]:
        """The table, or None where it must be loaded; and the stamp of the file it was at."""
        stamp = None
        try:
            operations = table.java.operations()
            if not table.bridge.is_a(operations, _UNIQUE_NAMES):
                if not table.bridge.is_a(operations, _NUMBERED):
                    return None, None
                stamp = _stamped(table)
                if stamp is None or stamp != known:
                    return None, stamp
            table.refresh()
        except IcdcError:
            # Gone, or another table under the same name: loading it says which.
            return None, None
        return table, stamp


def _stamped(table: IcebergTable) -> _Stamp | None:
    """None where files have no status to be compared by."""
    with source_errors(table.name):
        location = table.metadata_location
        file = table.java.io().newInputFile(location)
        if not table.bridge.is_a(file, _FILE_WITH_STATUS):
            return None
        status = file.getStat()
        return _Stamp(location, int(status.getModificationTime()), int(status.getLen()))
