"""Which rows were only carried over, by bitmaps of their keys.

For keys of whole numbers that lie close together, as a sequence gives them. Sixty-four keys, alike
but for the last number, share a word of the added rows; the words are so few that they go to where
removed rows are read, and of these only the keys travel that were not carried over. What bits
cannot tell is noticed, and left to others: keys that occur twice, and rows that call themselves
carried over of which the earlier snapshot had none, or one of another age.

It must not know what becomes of the keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.row_sets import Sides
from icdc_spark.diff.rows import in_few_tasks, value_names, values, with_ids
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.schema import Primitive
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.reader import Reader

MOST_WORDS = 500_000
"""Words up to which all of them are held by each executor, some 60 bytes each. That is 32 million
keys where none is missing between them."""

SPARSEST = 8
"""Whole numbers per key from which on words have too few keys to be fewer than rows."""

_WHOLE = frozenset({"int", "long"})

_KEYS_OF_WORD = 64

_NO_WORD = -(1 << 63)
"""The word of keys whose last number is null; no number has it."""

_CARRIED, _WRITTEN, _GONE = range(3)
"""What became of a removed row: it was carried over; its key was written anew; it is gone."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """`upserts` added rows were written; `old` are the removed rows that were not carried over:
    `id`, and whether there is an added row of that id (`lives`)."""

    upserts: int
    old: DataFrame


class _Sums(NamedTuple):
    """What all words add up to: `rows` have `keys` different ones, of which those `carried` over
    have the hash `mix` together.

    64 bits for all of them, with a salt: they guard against old files that were put back.
    """

    words: int
    rows: int
    keys: int
    carried: int
    written: int
    mix: int


def suits(reader: Reader, added: FileGroup, sides: Sides, spec: DocumentSpec) -> bool:
    """Whether bitmaps are worth a try, as far as the table's metadata says."""
    only_files = sides.gone is None and sides.undone is None
    if not only_files or sides.added is None or sides.removed is None:
        return False
    keys = [path[-1] for path in spec.identifiers]
    if not all(isinstance(key.type, Primitive) and key.type.name in _WHOLE for key in keys):
        return False
    spread = reader.spread(added, [key.id for key in keys])
    most = min(SPARSEST * added.records, MOST_WORDS * _KEYS_OF_WORD)
    return spread is not None and spread <= most


def compare(
    reader: Reader, sides: Sides, spec: DocumentSpec, age: Column, *, since: int
) -> Compared | None:
    """What differs; None where bits cannot tell. Runs two passes at once.

    `age` is the sequence number of a row: up to `since` it may have been carried over.
    """

    def keys(rows: DataFrame) -> DataFrame:
        return _keys(rows, spec, age, sides.salt)

    words = reader.keep(_words(sides.united((sides.added, keys)), spec, since))
    sums = _sums(words)
    if sums.words > MOST_WORDS or sums.rows != sums.keys:
        return None
    met = reader.keep(_met(sides.united((sides.removed, keys)), words, spec))
    if _carried(met) != (sums.carried, sums.mix):
        return None
    old = met.where(F.col("fate").isin(_WRITTEN, _GONE))
    lives = (F.col("fate") == _WRITTEN).alias("lives")
    return Compared(
        upserts=sums.written,
        old=with_ids(old.select(*value_names(spec), lives), spec),
    )


def mix(columns: Sequence[str], salt: int) -> str:
    """What a row adds to the hash of many, as Spark SQL. Without the salt, numbers could be chosen
    whose hashes cancel each other out."""
    return f"xxhash64({salt}L, {', '.join(columns)})"


def _keys(rows: DataFrame, spec: DocumentSpec, age: Column, salt: int) -> DataFrame:
    """Of each row its key, age, word and bit there."""
    *_, last = names = value_names(spec)
    shift = _KEYS_OF_WORD.bit_length() - 1
    return values(rows, spec, age.alias("age")).selectExpr(
        *names,
        "age",
        f"coalesce(shiftright(bigint({last}), {shift}), bigint('{_NO_WORD}')) as word",
        f"coalesce(shiftleft(1L, int({last} & {_KEYS_OF_WORD - 1})), 1L) as bit",
        f"{mix([*names, 'age'], salt)} as mix",
    )


def _words(keys: DataFrame, spec: DocumentSpec, since: int) -> DataFrame:
    """By word, and the numbers before it, the bits of rows carried over and of those written, and
    what they add up to."""
    words = keys.groupBy(*value_names(spec)[:-1], "word").agg(
        F.expr(f"coalesce(bit_or(if(age <= {since}, bit, null)), 0L) as carried"),
        F.expr(f"coalesce(bit_or(if(age > {since}, bit, null)), 0L) as written"),
        F.expr("count(*) as rows"),
        F.expr(f"bit_xor(if(age <= {since}, mix, null)) as mix"),
    )
    return in_few_tasks(words)


def _met(keys: DataFrame, words: DataFrame, spec: DocumentSpec) -> DataFrame:
    """What became of removed rows: all that were carried over as one, of others each key once."""
    names = value_names(spec)
    place = [*names[:-1], "word"]
    known = F.broadcast(words.selectExpr(*place, "carried", "written"))
    in_carried, in_written = (f"coalesce({of} & bit, 0L) != 0" for of in ("carried", "written"))
    met = keys.join(known, on=place, how="left").selectExpr(
        f"if({in_carried}, {_CARRIED}, if({in_written}, {_WRITTEN}, {_GONE})) as fate",
        *(f"if({in_carried}, null, {name}) as {name}" for name in names),
        "mix",
    )
    told = (F.expr("count(*) as rows"), F.expr("bit_xor(mix) as mix"))
    return in_few_tasks(met.groupBy("fate", *names).agg(*told))


def _sums(words: DataFrame) -> _Sums:
    found = words.selectExpr(
        "count(*) as words",
        "sum(rows) as rows",
        "sum(bit_count(carried | written)) as keys",
        "sum(bit_count(carried)) as carried",
        "sum(bit_count(written)) as written",
        "bit_xor(mix) as mix",
    ).first()
    return _Sums(*(value or 0 for value in found or ()))


def _carried(met: DataFrame) -> tuple[int, int]:
    """How many removed rows were carried over, and the hash of them all."""
    found = met.where(F.col("fate") == _CARRIED).select("rows", "mix").collect()
    return (found[0]["rows"], found[0]["mix"]) if found else (0, 0)
