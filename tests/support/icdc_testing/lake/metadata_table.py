"""Tables that consist of metadata alone: commits by Iceberg's Java API of files that do not exist.

Planning reads manifests and no file that they list, so that tables of any size and of any history
are made in little time, here in a catalog in the JVM's memory.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.table.tables import IcebergTable
from icdc_testing.lake.java.files import make_int_array

_ICEBERG = "org.apache.iceberg."
_SCHEMA = (
    '{"type":"struct","schema-id":0,"fields":['
    '{"id":1,"name":"id","required":true,"type":"long"},'
    '{"id":2,"name":"p","required":false,"type":"int"}]}'
)
ROWS = 10
"""Of a file, unless told otherwise."""
_NUMBERS = itertools.count()


class MetadataTable:
    """One table, and how data and delete files for it are described. Columns: id, p."""

    def __init__(self, session: SparkSession, folder: str = "", **properties: str) -> None:
        """Create an unpartitioned table; in files below `folder`, or in memory where that is
        empty."""
        self.bridge = bridge = Bridge(session)
        schema = bridge.get_statics(_ICEBERG + "SchemaParser").fromJson(_SCHEMA)
        spec = bridge.get_statics(_ICEBERG + "PartitionSpec").unpartitioned()
        chosen = _make_java_map(bridge, properties)
        if folder:
            conf = bridge.java_session.sparkContext().hadoopConfiguration()
            tables = bridge.create_object(_ICEBERG + "hadoop.HadoopTables", conf)
            self.java = tables.create(schema, spec, chosen, folder)
            self._load: Callable[[], Any] = lambda: tables.load(folder)
        else:
            names = bridge.get_statics(_ICEBERG + "catalog.TableIdentifier")
            name = names.of(bridge.create_strings(["db", "metadata"]))
            catalog = _make_catalog(bridge)
            self.java = catalog.createTable(name, schema, spec, None, chosen)
            self._load = lambda: catalog.loadTable(name)
        self._count = 0

    def load(self) -> IcebergTable:
        """Return the table as the application loads it: nothing of a snapshot is remembered."""
        java = self._load()
        return IcebergTable(self.bridge, str(java.name()), java)

    def make_data_file(
        self, partition: int | None = None, *, bounds: bool = False, rows: int = ROWS
    ) -> Any:
        """Return a new data file in the newest partition spec; `bounds` with statistics of its
        ids."""
        self._count += 1
        builder = self.bridge.get_statics(_ICEBERG + "DataFiles").builder(self.java.spec())
        if self.java.spec().isPartitioned():
            builder = builder.withPartitionPath(f"p={partition}")
        if bounds:
            # As large as this it is a `long` for py4j too.
            identity = (1 << 32) + self._count
            builder = builder.withMetrics(self._make_bounds(1, "LongType", identity))
        described = self._describe(builder, f"data/{self._count:06}.parquet", "PARQUET")
        return described.withRecordCount(rows).build()

    def make_copies(self, file: Any, count: int) -> Iterator[Any]:
        """Yield so many data files that differ from a given one by location."""
        maker = self.bridge.get_statics(_ICEBERG + "DataFiles")
        spec, stem = self.java.spec(), str(file.location()).removesuffix(".parquet")
        for number in range(count):
            yield maker.builder(spec).copy(file).withPath(f"{stem}-{number}.parquet").build()

    def make_position_deletes(self, like: Any, *, target: bool, by_bounds: bool = False) -> Any:
        """Return a position delete file in a data file's partition, for it alone if it is the
        `target`."""
        builder = self._build_deletes_like(like).ofPositionDeletes()
        if target and by_bounds:
            path_id = 2147483546  # of the column file_path in position delete files
            builder = builder.withMetrics(self._make_bounds(path_id, "StringType", like.location()))
        elif target:
            builder = builder.withReferencedDataFile(like.location())
        return self._describe(builder, f"data/{self._count:06}-pos.parquet", "PARQUET").build()

    def make_vector(self, target: Any) -> Any:
        """Return a deletion vector of a data file; several of them share one Puffin file."""
        builder = self._build_deletes_like(target).ofPositionDeletes()
        builder = self._describe(builder, f"data/{self._count // 4:06}.puffin", "PUFFIN")
        builder = builder.withReferencedDataFile(target.location())
        return builder.withContentOffset(self._count * 64).withContentSizeInBytes(64).build()

    def make_equality_deletes(self, like: Any, by: Sequence[int] = (1,)) -> Any:
        """Return an equality delete file on fields in a data file's partition, for all if it has
        none."""
        ids = make_int_array(self.bridge, by)
        builder = self._build_deletes_like(like).ofEqualityDeletes(ids)
        return self._describe(builder, f"data/{self._count:06}-eq.parquet", "PARQUET").build()

    def _build_deletes_like(self, file: Any) -> Any:
        self._count += 1
        spec = self.java.specs().get(file.specId())
        builder = self.bridge.get_statics(_ICEBERG + "FileMetadata").deleteFileBuilder(spec)
        return builder.withPartition(file.partition()) if spec.isPartitioned() else builder

    def _describe(self, builder: Any, path: str, file_format: str) -> Any:
        kind = self.bridge.get_statics(_ICEBERG + "FileFormat").valueOf(file_format)
        builder = builder.withPath(f"{self.java.location()}/{path}").withFormat(kind)
        return builder.withFileSizeInBytes(1000 + self._count).withRecordCount(ROWS)

    def _make_bounds(self, field_id: int, kind: str, value: Any) -> Any:
        bridge = self.bridge
        type_of = bridge.get_statics(f"{_ICEBERG}types.Types${kind}").get()
        bound = bridge.get_statics(_ICEBERG + "types.Conversions").toByteBuffer(type_of, value)
        bounds = bridge.create_object("java.util.HashMap")
        bounds.put(field_id, bound)
        return bridge.create_object(
            _ICEBERG + "Metrics", None, None, None, None, None, bounds, bounds
        )


def _make_catalog(bridge: Bridge) -> Any:
    catalog = bridge.create_object(_ICEBERG + "inmemory.InMemoryCatalog")
    warehouse = f"memory:/warehouse-{next(_NUMBERS)}"
    catalog.initialize("metadata", _make_java_map(bridge, {"warehouse": warehouse}))
    namespaces = bridge.get_statics(_ICEBERG + "catalog.Namespace")
    catalog.createNamespace(namespaces.of(bridge.create_strings(["db"])))
    return catalog


def _make_java_map(bridge: Bridge, values: Mapping[str, str]) -> Any:
    made = bridge.create_object("java.util.HashMap")
    for key, value in values.items():
        made.put(key, value)
    return made
