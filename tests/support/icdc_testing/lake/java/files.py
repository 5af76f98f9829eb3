"""What tests share that write data and delete files and describe them to Iceberg's Java API."""

from collections.abc import Sequence
from typing import Any

from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.table.tables import IcebergTable


def make_int_array(bridge: Bridge, values: Sequence[int]) -> Any:
    """Return a Java array of `int`, such as the ids of the fields by which an equality delete
    deletes."""
    made = bridge._gateway.new_array(bridge.jvm.int, len(values))
    for at, value in enumerate(values):
        made[at] = value
    return made


def make_constant(bridge: Bridge, answer: str | None) -> Any:
    """Return a Java function that answers this, whatever it is given."""
    handles = bridge.get_statics("java.lang.invoke.MethodHandles")
    supplier = handles.constant(bridge.load_class("java.lang.Object"), answer)
    anything = bridge.create_array("java.lang.Class", [bridge.load_class("java.lang.Object")])
    return bridge._wrap_handle(handles.dropArguments(supplier, 0, anything))


def describe_file(table: IcebergTable, builder: Any, location: str, config: Any) -> Any:
    """Return the Java file of a Parquet file that is there; the config says of which columns to
    keep statistics."""
    file = table.java.io().newInputFile(location)
    metrics = table.bridge.get_statics("org.apache.iceberg.parquet.ParquetUtil")
    builder_of_file = builder.withInputFile(file).withFormat("parquet")
    return builder_of_file.withMetrics(metrics.fileMetrics(file, config)).build()
