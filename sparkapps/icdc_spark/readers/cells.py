"""Project the columns of a Parquet file to a snapshot's schema, as Spark takes them.

Fields are matched by id, at every depth. For a file that was written with `1: id int`, `2: nm
string`, and a snapshot with `1: id long`, `2: name string`, `3: at time`:

| field of the snapshot | column of the file | values |
|---|---|---|
| `1: id long` | `id` | widened to 64 bits |
| `2: name string` | `nm`: renamed since | as they are |
| `3: at time` | missing | the field's initial default, or null |

Values of types that Spark does not have become the text that documents hold (`12:30:00.000000`).
pyiceberg's own projection is not used: it takes a null list or map that holds structs for an empty
one. It must not know files or deletes.
"""

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as I  # noqa: N812
from pyiceberg.conversions import from_json
from pyiceberg.schema import Schema

# Types that are projected by a cast, and the text types that Spark does not have.
_PLAIN: Mapping[type[I.IcebergType], pa.DataType] = {
    I.BooleanType: pa.bool_(),
    I.IntegerType: pa.int32(),
    I.LongType: pa.int64(),
    I.FloatType: pa.float32(),
    I.DoubleType: pa.float64(),
    I.DateType: pa.date32(),
    I.TimestampType: pa.timestamp("us"),
    I.TimestamptzType: pa.timestamp("us", "UTC"),
    I.StringType: pa.string(),
    I.BinaryType: pa.binary(),
    I.FixedType: pa.binary(),
    I.UUIDType: pa.string(),
    I.TimeType: pa.string(),
    I.TimestampNanoType: pa.string(),
    I.TimestamptzNanoType: pa.string(),
}


def project_rows(
    schema: Schema, file: Schema, batch: pa.RecordBatch, constants: Mapping[int, Any]
) -> list[pa.Array]:
    """Return one array per column of `schema`.

    `constants` are values, in JSON, of columns by field id: identity partition values of files that
    were written without these columns.
    """
    columns = {field.field_id: field for field in file.fields}
    arrays = []
    for field in schema.fields:
        own = columns.get(field.field_id)
        if own is not None:
            arrays.append(_project(field.field_type, own.field_type, batch.column(own.name)))
        elif field.field_id in constants and isinstance(field.field_type, I.PrimitiveType):
            value = _convert_scalar(field.field_type, constants[field.field_id])
            arrays.append(pa.repeat(value, batch.num_rows))
        else:
            arrays.append(_fill(field, batch.num_rows))
    return arrays


def build_arrow_type(kind: I.IcebergType) -> pa.DataType:
    """Return the type of the arrays that an Iceberg type becomes."""
    match kind:
        case I.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case I.StructType():
            return pa.struct(
                [pa.field(f.name, build_arrow_type(f.field_type)) for f in kind.fields]
            )
        case I.ListType():
            return pa.list_(pa.field("element", build_arrow_type(kind.element_type)))
        case I.MapType():
            return pa.map_(build_arrow_type(kind.key_type), build_arrow_type(kind.value_type))
        case _:
            return _PLAIN[type(kind)]


def _project(kind: I.IcebergType, own: I.IcebergType, cells: pa.Array) -> pa.Array:
    if cells.offset and isinstance(cells, pa.ListArray | pa.LargeListArray | pa.MapArray):
        # Copied: `from_arrays` refuses a mask for offsets that are a slice.
        cells = cells.take(pa.array(range(len(cells))))
    match kind, own:
        case I.StructType(), I.StructType():
            return _project_struct(kind, own, cells)
        case I.ListType(), I.ListType():
            # Not `flatten()`, which omits values below null lists: the offsets count them.
            values = _project(kind.element_type, own.element_type, cells.values)
            # Those of a large list have 64 bits, and the plain list that is returned takes 32.
            offsets = cells.offsets.cast(pa.int32())
            return pa.ListArray.from_arrays(
                offsets, values, type=build_arrow_type(kind), mask=cells.is_null()
            )
        case I.MapType(), I.MapType():
            keys = _project(kind.key_type, own.key_type, cells.keys)
            items = _project(kind.value_type, own.value_type, cells.items)
            return pa.MapArray.from_arrays(
                cells.offsets, keys, items, type=build_arrow_type(kind), mask=cells.is_null()
            )
        case _:
            return _project_primitive(kind, cells)


def _project_struct(kind: I.StructType, own: I.StructType, cells: pa.StructArray) -> pa.Array:
    columns = {field.field_id: field for field in own.fields}
    children = []
    for field in kind.fields:
        mine = columns.get(field.field_id)
        if mine is None:
            children.append(_fill(field, len(cells)))
        else:
            children.append(_project(field.field_type, mine.field_type, cells.field(mine.name)))
    if not children:
        # Nothing says how many rows a struct without fields has.
        nulls = cells.is_null().to_pylist()
        return pa.array([None if null else {} for null in nulls], build_arrow_type(kind))
    return pa.StructArray.from_arrays(
        children, fields=list(build_arrow_type(kind)), mask=cells.is_null()
    )


def _project_primitive(kind: I.IcebergType, cells: pa.Array) -> pa.Array:
    match kind:
        case I.TimeType():
            # Files may have milliseconds; the text has six digits always.
            return cells.cast(pa.time64("us")).cast(pa.string())
        case I.TimestampNanoType():
            return _format_nanoseconds(cells)
        case I.TimestamptzNanoType():
            return pc.binary_join_element_wise(_format_nanoseconds(cells), "Z", "")
        case I.UUIDType():
            return _format_uuids(cells)
        case _:
            return cells.cast(build_arrow_type(kind))


def _format_nanoseconds(cells: pa.Array) -> pa.Array:
    """Return nanoseconds as text with nine digits; a moment with a zone is written in UTC."""
    # The second cast takes the zone away, which leaves the moment in UTC.
    plain = cells.cast(pa.timestamp("ns", cells.type.tz)).cast(pa.timestamp("ns"))
    return pc.replace_substring(plain.cast(pa.string()), " ", "T", max_replacements=1)


def _format_uuids(cells: pa.Array) -> pa.Array:
    # Files with the Arrow extension type for uuids, or plain fixed-length bytes.
    plain = cells.storage if isinstance(cells, pa.ExtensionArray) else cells
    texts = [None if raw is None else str(uuid.UUID(bytes=raw)) for raw in plain.to_pylist()]
    return pa.array(texts, pa.string())


def _fill(field: I.NestedField, rows: int) -> pa.Array:
    """Return the values of a field that the file was written without."""
    kind, default = field.field_type, field.initial_default
    if default is None or not isinstance(kind, I.PrimitiveType):
        return pa.nulls(rows, build_arrow_type(kind))
    return pa.repeat(_convert_scalar(kind, default), rows)


def _convert_scalar(kind: I.PrimitiveType, value: Any) -> pa.Scalar:
    """Convert a value in Iceberg's JSON form, or as Python has it."""
    match kind:
        case I.TimestampNanoType():
            return _project_primitive(kind, pa.array([value]).cast(pa.timestamp("ns")))[0]
        case I.TimestamptzNanoType():
            return _project_primitive(kind, pa.array([value]).cast(pa.timestamp("ns", "UTC")))[0]
    plain = from_json(kind, value) if isinstance(value, str) else value
    match kind:
        case I.TimeType():
            return _project_primitive(kind, pa.array([plain]))[0]
        case I.UUIDType():
            return pa.scalar(str(plain), pa.string())
        case _:
            return pa.scalar(plain, build_arrow_type(kind))
