"""Compute a number per row that is equal exactly when the row's documents are equal.

Building the JSON of every row that a copy-on-write commit carried over costs more than the rest of
a diff. So rows are compared by this number, and serialised only when they are written. It is
`xxhash64(salt, flags, values)`, where bit i of the flags is set if value i is null. A plain
`xxhash64(values)` would lose updates, because it skips nulls and takes -0.0 for 0.0:

| row before | row after | plain hash | this one |
|---|---|---|---|
| `(NULL, 'a')` | `('a', NULL)` | equal | differs: other flags |
| `(0.0)` | `(-0.0)` | equal | differs: a zero is hashed as text as well |
| `([])` | `(NULL)` | equal | differs: arrays, structs and maps are hashed as JSON text |
| `(map(..))` | | refused | JSON text |
| `(NaN)` | `(Infinity)` | differs | equal: both are null in a document |

An expression may tell the last two apart, so of the columns that one reads both are hashed as well.

Two rows that differ have one fingerprint with a chance of 2^-64. xxHash can be inverted, though:
whoever writes two columns of a row can choose values that give any fingerprint. Where two rows are
compared, a salt goes first that nobody knows before, another one for each batch.

Which of several rows of a key is its document is chosen by another number, `compute_choice`: it
stays the same when a column is added, moved or widened, by which no document changes. It must not
know what is compared.
"""

from collections.abc import Iterator, Sequence, Set
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.documents.forms import has_type
from icdc_spark.documents.schema import Field, Primitive
from icdc_spark.documents.serialise import FLOATS, Cells, serialise_columns, to_canonical

_BITS = 63
"""Flags in one number: of the 64 bits of a `bigint` those without the sign."""


def compute_choice(cells: Cells, *, exact: Set[int] = frozenset()) -> Column:
    """Return 64 bits over the values, the same in every batch; equal documents have equal ones.

    `exact` as below.
    """
    # A null counts for nothing, so a column that is added to a row without a value does not either.
    hashes = [_hash_alone(entry, cell) for entry, cell in cells]
    for entry, cell in cells:
        if entry.id in exact and has_type(entry, FLOATS):
            raw = F.xxhash64(F.lit("raw"), F.lit(entry.id), serialise_columns([cell.alias("x")]))
            hashes.append(F.when(cell.isNull(), F.lit(0)).otherwise(raw))
    return reduce(Column.bitwiseXOR, hashes)


def compute_fingerprint(
    cells: Cells, *, salt: str | None = None, exact: Set[int] = frozenset()
) -> Column:
    """Return 64 bits over the values and over which of them are null.

    `exact` are the ids of columns in which NaN and infinities differ from each other and from null.
    """
    flags: list[Column] = []
    values: list[Column] = []
    for entry, cell in cells:
        if isinstance(entry.type, Primitive) and entry.type.name != "variant":
            is_float = entry.type.name in FLOATS
            # NaN and infinities are null in documents, so they are null here.
            value = to_canonical(cell, entry.type) if is_float else cell
            flags.append(value.isNull())
            values.append(value)
            if is_float:
                # Text is expensive, and needed for zeros alone: the hash takes both for one.
                values.append(F.when(cell == 0, cell.cast("string")))
        else:
            # No flag: the JSON text of a null is `{}`, which no value has.
            values.append(serialise_columns([to_canonical(cell, entry.type).alias("x")]))
        if entry.id in exact and has_type(entry, FLOATS):
            values.append(serialise_columns([cell.alias("x")]))
    # Flags first: the sequence that is hashed can then be read in one way only.
    salts = [] if salt is None else [F.lit(salt)]
    return F.xxhash64(*salts, *_pack_flags(flags), *values)


def _pack_flags(flags: Sequence[Column]) -> Iterator[Column]:
    """Return the flags as numbers of 63 bits each."""
    # Packed, because each value that is hashed has to wait for the hash of the one before.
    for start in range(0, len(flags), _BITS):
        numbered = enumerate(flags[start : start + _BITS])
        bits = [F.shiftleft(flag.cast("bigint"), position) for position, flag in numbered]
        yield reduce(Column.bitwiseOR, bits)


def _hash_alone(entry: Field, cell: Column) -> Column:
    """Return the hash of a column and its value; 0 for null, and for what is null in a document."""
    value = to_canonical(cell, entry.type)
    match entry.type:
        case Primitive("int"):
            # Of an int and a long of one value Spark makes different hashes.
            text = value.cast("bigint")
        case Primitive(name) if name != "variant" and name not in FLOATS:
            text = value
        case _:
            text = serialise_columns([value.alias("x")])
    return F.when(value.isNull(), F.lit(0)).otherwise(F.xxhash64(F.lit(entry.id), text))
