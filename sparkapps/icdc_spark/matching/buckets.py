"""Proves rows and documents equal by sums, so that equal ones are never sorted nor joined.

Each row and each document goes into one of 1,024 buckets, by its id. Of each bucket the members and
their hashes are added up, where they are read; sums are all that leaves a task. Where those of rows
and documents are the same, so are the rows and the documents; by chance less often than once in
10^30 comparisons. Only what is in other buckets has to be looked at one by one.

Example, hashes of two digits:

    bucket   rows                 documents            sums      equal
    0        1 (17), 4 (52)       4 (52), 1 (17)       69, 69    yes
    1        2 (30)               2 (31)               30, 31    no: 2 is looked at again
    2        3 (08), refused      -                     0,  0    yes: a dead letter has no document

In an append-only table a compaction moves a row to another file, and so to another id, without
changing it: there the content decides on the bucket, and ids are no part of the hash.

It must not know how rows become documents, nor what is done about a difference.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.rows import ID, ROUTING

DIGEST = "digest"
REFUSED_ID = "refused_id"
BUCKETS = 1024
"""A difference has a thousandth of all rows and documents looked at, and a task returns 64 KB of
sums at most."""
_BUCKET = "bucket"
_MEMBERS, _REFUSED = "members", "refused"
_SUMS = ("sum0", "sum1", "sum2", "sum3")
_LOW = 0xFFFF_FFFF


class BucketSums(NamedTuple):
    """What is added up of one bucket."""

    members: int
    """Rows or documents, without refused ones."""
    refused: int
    """Rows that are dead letters; documents with their ids."""
    sums: tuple[int, ...]
    """Sums of the halves of two hashes of each member, 32 bits each; none of refused ones."""


NOTHING = BucketSums(0, 0, (0,) * len(_SUMS))
"""The sums of a bucket without members."""


@dataclass(frozen=True)
class Buckets:
    """Some of all buckets of ids."""

    numbers: frozenset[int]
    """Which ones."""

    def hold(self, document_id: str) -> bool:
        """Return whether a document is in one of them."""
        # An id has no lone surrogate unless somebody else wrote it.
        return zlib.crc32(document_id.encode("utf-8", "surrogatepass")) % BUCKETS in self.numbers

    def select(self, rows: DataFrame) -> DataFrame:
        """Return the rows (with column `id`) that are in one of them."""
        return rows.where(_number(ID).isin(*self.numbers))


@dataclass(frozen=True)
class ProvenBuckets:
    """What the sums of rows and documents prove."""

    is_equal: bool
    """Whether all rows and documents are the same."""
    differing: Buckets | None
    """The buckets that are not; None where all rows and documents have to be looked at."""
    others: BucketSums
    """The sums of the rows of all other buckets, which are equal to their documents, or refused."""


def add_up(rows: DataFrame, refused: DataFrame | None, *, by_content: bool) -> DataFrame:
    """Return the sums of each bucket of rows or documents: id, routing and digest of the text.

    One row for each bucket that has members. Those with ids of `refused` (column `refused_id`) are
    counted apart.
    """
    is_refused = F.lit(False)
    if refused is not None:
        rows = rows.join(F.broadcast(refused), F.col(ID) == F.col(REFUSED_ID), "left")
        is_refused = F.col(REFUSED_ID).isNotNull()
    counts = F.count_if(~is_refused).alias(_MEMBERS), F.count_if(is_refused).alias(_REFUSED)
    parts = _list_hash_parts(by_content=by_content)
    sums = (F.sum(F.when(is_refused, 0).otherwise(part)) for part in parts)
    named = (made.alias(name) for name, made in zip(_SUMS, sums, strict=True))
    number = _number(DIGEST if by_content else ID)
    return rows.groupBy(number.alias(_BUCKET)).agg(*counts, *named)


def collect_sums(sums: DataFrame) -> dict[int, BucketSums]:
    """Return the sums of each bucket by its number; several of one bucket are added up."""
    total: dict[int, BucketSums] = {}
    for row in sums.collect():
        one = BucketSums(row[_MEMBERS], row[_REFUSED], tuple(row[name] for name in _SUMS))
        total[row[_BUCKET]] = _add(total.get(row[_BUCKET], NOTHING), one)
    return total


def compare_sums(
    rows: Mapping[int, BucketSums], documents: Mapping[int, BucketSums], *, by_content: bool
) -> ProvenBuckets:
    """Return what the sums of rows and documents prove, each given by the buckets' numbers."""
    differing = frozenset(
        number
        for number in rows.keys() | documents.keys()
        if not _are_same(rows.get(number, NOTHING), documents.get(number, NOTHING))
    )
    # By content a bucket of texts has a part of those that mean the same; and where most buckets
    # differ, to choose is dearer than to look at all.
    if by_content or len(differing) > BUCKETS // 2:
        everything = reduce(_add, rows.values(), NOTHING)
        return ProvenBuckets(not differing, None, NOTHING if differing else everything)
    others = (sums for number, sums in rows.items() if number not in differing)
    return ProvenBuckets(not differing, Buckets(differing), reduce(_add, others, NOTHING))


def _add(one: BucketSums, other: BucketSums) -> BucketSums:
    sums = tuple(a + b for a, b in zip(one.sums, other.sums, strict=True))
    return BucketSums(one.members + other.members, one.refused + other.refused, sums)


def _are_same(rows: BucketSums, documents: BucketSums) -> bool:
    # A document with the id of a dead letter may be equal to its row all the same.
    is_clear = not documents.refused
    return is_clear and (rows.members, rows.sums) == (documents.members, documents.sums)


def _number(column: str) -> Column:
    """Return the bucket of a row, as `Buckets.hold` does."""
    return F.crc32(column) % BUCKETS


def _list_hash_parts(*, by_content: bool) -> list[Column]:
    # Halves, because a sum of whole hashes would not fit into 64 bits.
    hashed = (DIGEST,) if by_content else (ID, ROUTING, DIGEST)
    hashes = F.xxhash64(*hashed), F.xxhash64(F.lit(1), *hashed)
    return [
        part
        for one in hashes
        for part in (one.bitwiseAND(F.lit(_LOW)), F.shiftrightunsigned(one, 32))
    ]
