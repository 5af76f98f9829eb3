"""Read a chosen list of files through Spark's own Iceberg reader, by Iceberg's staging registries.

These registries serve Iceberg's compaction: public classes, but an internal contract of the
release. Staged tasks have a random name, and stay in the JVM until they are removed. This module
must not know why the files are read.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812

from icdc_spark.iceberg.jvm.bridge import Bridge

METADATA_TYPES: Mapping[str, T.DataType] = {
    "_file": T.StringType(),
    "_pos": T.LongType(),
    "_deleted": T.BooleanType(),
    "_last_updated_sequence_number": T.LongType(),
}
"""Metadata columns that a read may ask for, with their Spark types; the last in format 3 only."""

_CACHE = "org.apache.iceberg.spark.SparkTableCache"
_SCHEMAS = "org.apache.iceberg.spark.SparkSchemaUtil"


class Staging:
    """The staged groups of one reader.

    `table` is the Java table whose schema the rows have, `options` are Iceberg's read options.
    """

    def __init__(self, bridge: Bridge, table: Any, options: Mapping[str, str]) -> None:
        self._bridge = bridge
        self._table = table
        self._options = options
        self._names: list[str] = []

    def read(self, tasks: Any, metadata: Sequence[str], splits: Mapping[str, str]) -> DataFrame:
        """Return the rows of a Java list of tasks, with these metadata columns.

        With `_deleted` among them the deleted rows are returned as well. `splits` are further read
        options, for this list.
        """
        if tasks.isEmpty():
            return self._build_empty(metadata)
        name = str(uuid.uuid4())
        self._names.append(name)
        self._get_manager().stageTasks(self._table, name, tasks)
        self._get_cache().add(name, self._table)
        source = self._bridge.session.read.format("iceberg").options(**self._options, **splits)
        frame = source.load(name)
        return self._with_metadata(frame, metadata) if metadata else frame

    def close(self) -> None:
        """Remove everything staged from both registries."""
        while self._names:
            name = self._names.pop()
            self._get_cache().remove(name)
            self._get_manager().removeTasks(self._table, name)

    def _build_empty(self, metadata: Sequence[str]) -> DataFrame:
        """Return no rows with the same columns: the registry refuses an empty list."""
        converted = self._bridge.get_statics(_SCHEMAS).convert(self._table.schema())
        schema = T.StructType.fromJson(json.loads(converted.json()))
        for column in metadata:
            schema = schema.add(column, METADATA_TYPES[column])
        return self._bridge.session.createDataFrame([], schema)

    def _with_metadata(self, frame: DataFrame, metadata: Sequence[str]) -> DataFrame:
        """Return the frame with metadata columns in its output."""
        # For a staged table of format 3 Iceberg gives Spark a schema in which metadata columns do
        # not resolve. So the relation is built anew with an output that names them.
        java: Any = frame._jdf
        relation = java.queryExecution().analyzed()
        schema = relation.table().schema()
        for column in metadata:
            if schema.getFieldIndex(column).isEmpty():
                schema = schema.add(column, METADATA_TYPES[column].simpleString(), True)
        types = self._bridge.get_statics("org.apache.spark.sql.catalyst.types.DataTypeUtils")
        # A case class: its first two parts are the table and the output, the rest stays.
        output = types.toAttributes(schema)
        rest = [relation.productElement(index) for index in range(2, relation.productArity())]
        rebuilt = relation.copy(relation.table(), output, *rest)
        datasets = self._bridge.get_statics("org.apache.spark.sql.classic.Dataset")
        rows = datasets.ofRows(self._bridge.java_session, rebuilt)
        return DataFrame(rows, self._bridge.session)

    def _get_manager(self) -> Any:
        return self._bridge.get_statics("org.apache.iceberg.spark.ScanTaskSetManager").get()

    def _get_cache(self) -> Any:
        return self._bridge.get_statics(_CACHE).get()
