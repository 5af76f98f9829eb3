"""The step for tables of format 3, whose rows say themselves when they were last written.

A row of an added file that was not written since the earlier snapshot was only carried over: no
fingerprint is needed, and only ids travel, or less where bitmaps of the keys will do (`bitmaps`).
Rows are never told apart by `_row_id`, because released writers give rows other ones. Whether rows
can be believed is decided where the batch is planned.
"""

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff import key_bitmaps
from icdc_spark.diff.operation_lines import EXPECT, with_expect
from icdc_spark.diff.row_sets import OLD_ID, Sides, observed, winners
from icdc_spark.diff.rows import ID, by_values, values, whole, with_ids
from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.expect import Expect
from icdc_spark.iceberg.scan.planning import FileGroup
from icdc_spark.readers.reader import Reader

LAST_UPDATED = "_last_updated_sequence_number"

_UNKNOWN = (1 << 63) - 1
"""In place of a sequence number: younger than all."""

_LONG_AGO = -1
"""Likewise, older than all: of rows newly deleted in place only keys are read."""

BROADCAST_IDS = 200_000
"""Changed ids up to which the rows are fetched without a shuffle of the added files."""


def by_lineage(
    reader: Reader,
    added: FileGroup,
    sides: Sides,
    spec: DocumentSpec,
    *,
    since: int,
    seen: Observation,
) -> DataFrame | None:
    """The operations; `since` is the sequence number of the earlier snapshot, and `sides` were read
    of `added` and other files.

    None when more rows than BROADCAST_IDS call themselves new: rows that were rewritten by an
    overwrite do so, and to send them all again costs more than to compare them.
    """
    if key_bitmaps.suits(reader, added, sides, spec):
        compared = key_bitmaps.compare(reader, sides, spec, _age(), since=since)
        if compared is not None:
            return _by_bitmaps(compared, sides, spec, since, seen)
    return _by_keys(reader, sides, spec, since, seen)


def _by_bitmaps(
    compared: key_bitmaps.Compared, sides: Sides, spec: DocumentSpec, since: int, seen: Observation
) -> DataFrame | None:
    if compared.upserts > BROADCAST_IDS:
        return None
    known = compared.old.where("lives").select(F.col(ID).alias(OLD_ID))
    rows = _rows(sides, spec, since, upserts=compared.upserts, odd=0)
    met = rows.join(F.broadcast(known), on=F.col(ID) == F.col(OLD_ID), how="left")
    upserts = with_expect(
        met, F.when(F.col(OLD_ID).isNull(), Expect.CREATED).otherwise(Expect.UPDATED)
    )
    deletes = with_expect(compared.old.where("not lives").select(ID), Expect.DELETED)
    # Each added row has a key of its own.
    return observed(upserts.unionByName(deletes, allowMissingColumns=True), F.lit(False), seen)


def _by_keys(
    reader: Reader, sides: Sides, spec: DocumentSpec, since: int, seen: Observation
) -> DataFrame | None:
    ids = reader.keep(_touched(sides, spec, since, seen))
    told = ids.where("fresh > 0").agg(
        F.count(F.lit(1)).alias("upserts"), F.count_if(~_is_plain(since)).alias("odd")
    )
    found = told.first()
    upserts, odd = (found["upserts"], found["odd"]) if found else (0, 0)
    if upserts > BROADCAST_IDS:
        return None
    wanted = ids.where("fresh > 0").select(
        F.col(ID).alias(OLD_ID),
        F.when(F.col("old") > 0, Expect.UPDATED).otherwise(Expect.CREATED).alias(EXPECT),
    )
    rows = _rows(sides, spec, since, upserts=upserts, odd=odd)
    fetched = rows.join(F.broadcast(wanted), on=F.col(ID) == F.col(OLD_ID), how="inner")
    deletes = with_expect(ids.where("fresh = 0").select(ID), Expect.DELETED)
    chosen = winners(fetched) if odd else fetched
    return chosen.unionByName(deletes, allowMissingColumns=True)


def _touched(sides: Sides, spec: DocumentSpec, since: int, seen: Observation) -> DataFrame:
    """By id how many rows it has now (`fresh`) and had (`old`) among those looked at, and when the
    oldest and the youngest of them were written; ids whose only row was carried over are left out.
    """
    now, was = F.lit(True).alias("now"), F.lit(False).alias("now")
    known = _age().alias("last")
    unknown = F.lit(_UNKNOWN).alias("last")
    long_ago = F.lit(_LONG_AGO).cast("long").alias("last")
    looked_at = sides.united(
        (sides.added, lambda rows: values(rows, spec, now, known)),
        (sides.undone, lambda rows: values(rows, spec, now, unknown)),
        (sides.removed, lambda rows: values(rows, spec, was, known)),
        (sides.gone, lambda rows: values(rows, spec, was, long_ago)),
    )
    grouped = by_values(
        looked_at,
        spec,
        F.count_if("now").alias("fresh"),
        F.count_if(~F.col("now")).alias("old"),
        F.min("last").alias("first"),
        F.max("last").alias("last"),
        count=sides.count,
    )
    one_each = (F.col("fresh") == 1) & (F.col("old") == 1)
    # Not older than S alone: an old file that was put back has old rows, but others than S had.
    carried_over = one_each & (F.col("first") == F.col("last")) & (F.col("last") <= since)
    counted = observed(grouped, F.col("fresh") > 1, seen)
    return with_ids(counted.where(~carried_over), spec)


def _is_plain(since: int) -> Column:
    """Whether an id that lives has one row, which was written since, and had one row at most."""
    return (F.col("fresh") == 1) & (F.col("old") <= 1) & (F.col("last") > since)


def _rows(sides: Sides, spec: DocumentSpec, since: int, *, upserts: int, odd: int) -> DataFrame:
    """The whole rows among which those of the upserts are."""

    def made(rows: DataFrame) -> DataFrame:
        return whole(rows, spec, compared=odd > 0)

    def written(rows: DataFrame) -> DataFrame:
        return made(rows.where(_age() > since))

    # Of an id with several rows any may be the document, also one that was carried over.
    rows = sides.united((sides.added, made if odd else written), (sides.undone, made))
    # Without upserts the files are not read again.
    return rows if upserts else rows.where(F.lit(False))


def _age() -> Column:
    """When a row was written; one of unknown age counts as written just now."""
    return F.coalesce(F.col(LAST_UPDATED), F.lit(_UNKNOWN))
