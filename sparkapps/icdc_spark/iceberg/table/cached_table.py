"""One table across polls: its metadata file is read again only when it has changed.

A catalog is asked at each poll for the newest metadata file, and Iceberg does not read a file again
whose name it has. Names say nothing where they repeat: in a catalog of type `hadoop` a table that
was dropped and created again begins at `v1.metadata.json` again. There the file must also have the
time and size of the file that was read. A REST catalog is asked for the whole table. That brings
the metadata and fresh credentials for the files, or only a 304 where both sides use ETags.

This module must not know what a poll is for. A table is for one thread at a time.

Example: polls of a table of a `hadoop` catalog. The stamp is the time and size of a file.

    before the poll             metadata file   stored stamp   done
    -                           v2, 10:00       none           loads v2
    -                           v2, 10:00       none           loads v2, stores its stamp
    -                           v2, 10:00       v2, 10:00      keeps the table, reads no file
    a commit                    v3, 10:05       v2, 10:00      v2 is unchanged: reads only v3
    dropped and created anew    v3, 10:09       none           loads v3
"""

from typing import NamedTuple

from pyspark.sql import SparkSession

from icdc_api.errors import IcdcError
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.session import SessionClosedError
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors
from icdc_spark.iceberg.table.tables import IcebergTable

_UNIQUE_NAMES = "org.apache.iceberg.BaseMetastoreTableOperations"
"""Base class for catalogs that store a pointer to the file: no two files have the same name."""
_NUMBERED = "org.apache.iceberg.hadoop.HadoopTableOperations"
_FILE_WITH_STATUS = "org.apache.iceberg.hadoop.HadoopInputFile"


class _Stamp(NamedTuple):
    """A metadata file as the file system had it before the table was loaded from it."""

    location: str
    """Its path."""
    modified: int
    """Time of its last change, in milliseconds since 1970."""
    size: int
    """Its length in bytes."""


class CachedTable:
    """The table `name` of a session's catalog. It is the same object until it must be loaded."""

    def __init__(self, session: SparkSession, catalog: str, name: str) -> None:
        self._session = session
        self._catalog = catalog
        self._name = name
        self._table: IcebergTable | None = None
        self._stamp: _Stamp | None = None
        self._closed = False

    def load(self) -> IcebergTable:
        """Return the table in its newest state. Raises what `IcebergTable.load` raises.

        SessionClosedError after `close`: what is cached could still answer, from an older state.
        """
        if self._closed:
            raise SessionClosedError(f"{self._name} is closed")
        # Whatever goes wrong on the way, the next poll begins with nothing.
        table, self._table = self._table, None
        stamp, self._stamp = self._stamp, None
        if table is not None:
            # The thread may have read a table of another session since: this makes ours active.
            Bridge(self._session)
            table, stamp = self._refresh(table, stamp)
        if table is None:
            table = IcebergTable.load(self._session, self._catalog, self._name)
        # The stamp was read before the load. So the file was either loaded in this state or has
        # changed since, which the next poll notices. After the load it could hide a change.
        self._stamp = stamp if stamp and stamp.location == table.metadata_location else None
        self._table = table
        return table

    def close(self) -> None:
        """Forget the table; its session's catalog closes what it has open."""
        self._closed = True
        self._table = None

    def _refresh(
        self, table: IcebergTable, stored: _Stamp | None
    ) -> tuple[IcebergTable | None, _Stamp | None]:
        """Return the refreshed table, and the stamp of the metadata file that it had before.

        None in place of the table if it must be loaded. `stored` is the stamp of the last poll.
        """
        stamp = None
        try:
            operations = table.java.operations()
            if not table.bridge.is_a(operations, _UNIQUE_NAMES):
                if not table.bridge.is_a(operations, _NUMBERED):
                    return None, None
                stamp = _read_stamp(table)
                if stamp is None or stamp != stored:
                    return None, stamp
            table.refresh()
        except IcdcError:
            # It was dropped, or another table has its name now: loading it says which.
            return None, None
        return table, stamp


def _read_stamp(table: IcebergTable) -> _Stamp | None:
    """Return the stamp of the table's metadata file; None if its file system has no status."""
    with translate_source_errors(table.name):
        location = table.metadata_location
        file = table.java.io().newInputFile(location)
        if not table.bridge.is_a(file, _FILE_WITH_STATUS):
            return None
        status = file.getStat()
        return _Stamp(location, int(status.getModificationTime()), int(status.getLen()))
