"""Find the rows that a rewrite only carried over, by bitmaps of their keys.

For keys of whole numbers that lie close together, as a sequence gives them. The last number of a
key becomes a word and a bit in it: `word = k >> 6`, `bit = 1 << (k & 63)`, 64 keys to a word. Each
word has two bitmaps of the added rows: `carried` for rows last written up to the earlier snapshot,
`written` for the others. An example with the keys 130, 131 and 133 (all of word 2):

| key | removed row | added row, last written | word 2 | fate of the removed row |
|---|---|---|---|---|
| 130 | yes | before S | `carried` bit 2 | carried over: nothing to do |
| 131 | yes | after S | `written` bit 3 | written anew: index operation |
| 133 | yes | none | neither | deleted: delete operation |

A million rows that lie close together need 16,000 words of some 60 bytes. They are broadcast to
where the removed rows are read, so that of these only the keys 131 and 133 travel.

Three things bitmaps cannot see, and `compare_keys` returns None for each:
1. A key that occurs twice among the added rows: it sets one bit, so there are fewer bits than rows.
2. A row that says it was carried over, of which the earlier snapshot had none: an old file was put
   back. There are more carried rows among the added than among the removed.
3. The same with another age: the hashes of all carried keys and ages differ.

It must not know what becomes of the keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.row_sets import RowSets
from icdc_spark.diff.rows import (
    build_number_of_batch,
    merge_into_few_tasks,
    name_key_columns,
    replace_keys_by_ids,
    select_keys,
)
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.schema import Primitive
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.snapshot_reader import SnapshotReader

MAX_WORDS = 500_000
"""Words up to which all of them are held by each executor, some 60 bytes each. That is 32 million
keys where none is missing between them."""

MAX_NUMBERS_PER_KEY = 8
"""Whole numbers per key up to which words are tried. Beyond, a word has too few keys for words to
be fewer than rows."""

_WHOLE = frozenset({"int", "long"})

_KEYS_OF_WORD = 64

_NO_WORD = -(1 << 63)
"""The word of keys whose last number is null; no number has it."""

_CARRIED, _WRITTEN, _DELETED = range(3)
"""The fates of a removed row: carried over; its key was written anew; its key was deleted."""


@dataclass(frozen=True, kw_only=True)
class KeyComparison:
    """The rows that are not merely carried over."""

    upserts: int
    """Number of added rows that were written after the earlier snapshot."""
    changed_rows: DataFrame
    """Removed rows that were not carried over: `id`, and `is_rewritten`, true where an added row
    has the same id."""


class _Sums(NamedTuple):
    """The totals over all words."""

    words: int
    """Words, each with the bits of 64 possible keys: what is sent to every executor."""
    rows: int
    """Added rows."""
    keys: int
    """Different keys of the added rows: fewer than rows where a key occurs twice."""
    carried: int
    """Keys of added rows that were carried over."""
    written: int
    """Keys of added rows that were written after the earlier snapshot."""
    hash: int
    """64 bits over the keys and ages of all carried rows, salted: one changed age changes it."""


def can_compare_keys(
    reader: SnapshotReader, added: FileGroup, row_sets: RowSets, spec: DocumentSpec
) -> bool:
    """Return whether bitmaps are worth a try, as far as the table's metadata says."""
    # Bitmaps need the age of every row, and files of both snapshots are read without it.
    only_files = row_sets.deleted_rows is None and row_sets.undeleted_rows is None
    if not only_files or row_sets.added_rows is None or row_sets.removed_rows is None:
        return False
    keys = [path[-1] for path in spec.identifiers]
    if not all(isinstance(key.type, Primitive) and key.type.name in _WHOLE for key in keys):
        return False
    key_range = reader.estimate_key_range(added, [key.id for key in keys])
    max_range = min(MAX_NUMBERS_PER_KEY * added.records, MAX_WORDS * _KEYS_OF_WORD)
    return key_range is not None and key_range <= max_range


def compare_keys(
    reader: SnapshotReader, row_sets: RowSets, spec: DocumentSpec, age: Column, *, since: int
) -> KeyComparison | None:
    """Compare added and removed rows; None where bitmaps cannot. Runs two passes at once.

    `age` is the sequence number of a row: up to `since` it may have been carried over.
    """

    def select_bits(rows: DataFrame) -> DataFrame:
        return _select_bits(rows, spec, age, row_sets.salt)

    added = row_sets.combine((row_sets.added_rows, select_bits))
    words = reader.persist(_build_words(added, spec, since))
    sums = _sum_words(words)
    # The range was an estimate from file bounds; only now the words are counted.
    if sums.words > MAX_WORDS or sums.rows != sums.keys:
        return None
    removed = row_sets.combine((row_sets.removed_rows, select_bits))
    # Persisted: summed here, and read again for the keys that changed.
    fates = reader.persist(_find_fates(removed, words, spec))
    # The cases 2 and 3 of the module: other carried rows were removed than were added.
    if _sum_carried(fates) != (sums.carried, sums.hash):
        return None
    changed = fates.where(F.col("fate").isin(_WRITTEN, _DELETED))
    is_rewritten = (F.col("fate") == _WRITTEN).alias("is_rewritten")
    return KeyComparison(
        upserts=sums.written,
        changed_rows=replace_keys_by_ids(
            changed.select(*name_key_columns(spec), is_rewritten), spec
        ),
    )


def build_hash_sql(columns: Sequence[str], salt: str) -> str:
    """Return Spark SQL for the hash of a row; the hash of many rows is the XOR of theirs.

    Without the salt, numbers could be chosen whose hashes cancel each other out.
    """
    return f"xxhash64('{salt}', {', '.join(columns)})"


def _select_bits(rows: DataFrame, spec: DocumentSpec, age: Column, salt: str) -> DataFrame:
    """Return the key of each row, its age, its word, its bit in the word, and its hash."""
    *_, last = names = name_key_columns(spec)
    shift = _KEYS_OF_WORD.bit_length() - 1
    return select_keys(rows, spec, age.alias("age")).selectExpr(
        *names,
        "age",
        # An arithmetic shift: negative numbers have words of their own; -1 is bit 63 of word -1.
        f"coalesce(shiftright(bigint({last}), {shift}), bigint('{_NO_WORD}')) as word",
        f"coalesce(shiftleft(1L, int({last} & {_KEYS_OF_WORD - 1})), 1L) as bit",
        f"{build_hash_sql([*names, 'age'], salt)} as hash",
    )


def _build_words(rows: DataFrame, spec: DocumentSpec, since: int) -> DataFrame:
    """Return one row per word, and per the numbers of the key before the last."""
    is_carried = f"age <= {build_number_of_batch(since, 'age')}"
    words = rows.groupBy(*name_key_columns(spec)[:-1], "word").agg(
        F.expr(f"coalesce(bit_or(if({is_carried}, bit, null)), 0L) as carried"),
        F.expr(f"coalesce(bit_or(if({is_carried}, null, bit)), 0L) as written"),
        F.expr("count(*) as rows"),
        F.expr(f"bit_xor(if({is_carried}, hash, null)) as hash"),
    )
    return merge_into_few_tasks(words)


def _find_fates(rows: DataFrame, words: DataFrame, spec: DocumentSpec) -> DataFrame:
    """Return the fates of removed rows: one row for all carried over, else one for each key."""
    names = name_key_columns(spec)
    word_key = [*names[:-1], "word"]
    bitmaps = F.broadcast(words.selectExpr(*word_key, "carried", "written"))
    in_carried, in_written = (f"coalesce({of} & bit, 0L) != 0" for of in ("carried", "written"))
    fates = rows.join(bitmaps, on=word_key, how="left").selectExpr(
        f"if({in_carried}, {_CARRIED}, if({in_written}, {_WRITTEN}, {_DELETED})) as fate",
        # Without their keys all carried rows are one group, which is summed where they are read.
        *(f"if({in_carried}, null, {name}) as {name}" for name in names),
        "hash",
    )
    sums = (F.expr("count(*) as rows"), F.expr("bit_xor(hash) as hash"))
    return merge_into_few_tasks(fates.groupBy("fate", *names).agg(*sums))


def _sum_words(words: DataFrame) -> _Sums:
    row = words.selectExpr(
        "count(*) as words",
        "sum(rows) as rows",
        "sum(bit_count(carried | written)) as keys",
        "sum(bit_count(carried)) as carried",
        "sum(bit_count(written)) as written",
        "bit_xor(hash) as hash",
    ).first()
    return _Sums(*(value or 0 for value in row or ()))


def _sum_carried(fates: DataFrame) -> tuple[int, int]:
    """Return how many removed rows were carried over, and the hash of them all."""
    rows = fates.where(F.col("fate") == _CARRIED).select("rows", "hash").collect()
    return (rows[0]["rows"], rows[0]["hash"]) if rows else (0, 0)
