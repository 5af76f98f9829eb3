"""A cheap number per row that is equal exactly when the row's documents are equal.

Building the JSON of every row that a copy-on-write commit carried over costs more than the rest of
a diff, so rows are compared by this number and serialised only when they are written. A plain
`xxhash64(columns)` would lose updates: it skips nulls and empty arrays, takes -0.0 for 0.0, and
refuses maps.

Two rows that differ have one fingerprint with a chance of 2^-64. xxHash can be inverted, though, so
that whoever writes two columns of a row can choose values that give any fingerprint. Where two rows
are compared, a salt goes first that nobody knows before: it is another one for each batch.
"""

from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.documents.schema import Primitive
from icdc_spark.documents.serialise import Cells, serialise_columns, to_canonical

_BITS = 63
"""Flags in one number: of the 64 bits of a `bigint` those without the sign."""


def compute_fingerprint(cells: Cells, *, salt: int | None = None) -> Column:
    """64 bits over the values and over which of them are null.

    Without a salt it is the same in every batch, for the choice among rows of one key.
    """
    flags: list[Column] = []
    values: list[Column] = []
    for entry, cell in cells:
        if isinstance(entry.type, Primitive) and entry.type.name != "variant":
            is_float = entry.type.name in {"float", "double"}
            value = to_canonical(cell, entry.type) if is_float else cell
            flags.append(value.isNull())
            values.append(value)
            if is_float:
                # Text is dear, and needed for zeros alone: the hash takes both for one.
                values.append(F.when(cell == 0, cell.cast("string")))
        else:
            values.append(serialise_columns([to_canonical(cell, entry.type).alias("x")]))
    # Flags first: the sequence that is hashed can then be read in one way only.
    first = [] if salt is None else [F.lit(salt)]
    return F.xxhash64(*first, *_packed(flags), *values)


def _packed(flags: Sequence[Column]) -> Iterator[Column]:
    """Flags as numbers: each value that is hashed has to wait for the hash of the one before."""
    for start in range(0, len(flags), _BITS):
        few = enumerate(flags[start : start + _BITS])
        bits = [F.shiftleft(flag.cast("bigint"), position) for position, flag in few]
        yield reduce(Column.bitwiseOR, bits)
