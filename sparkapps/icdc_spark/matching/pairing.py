"""Pair rows of a table with documents of its index, by id or by content.

Both are frames of ids, routings and digests. The result has one line for each row, and for each
document without one, with id, routing and `kind`: equal, missing (a row without a document), extra
(a document without a row) or different. A document of a row's id with another routing, which may
lie on another shard beside the right one, is extra. It must not know how digests are made.

Example, an append-only table in which three rows have the content `x`, and a compaction has moved
two of them to the file g1:

    rows        x at f1:0, g1:0, g1:1
    documents   x at f1:0, f2:0
    by id       f1:0 equal
    by rank     g1:0 with f2:0 equal; g1:1 missing: a repair writes g1:1
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.diff.rows import ID, ROUTING
from icdc_spark.matching.buckets import DIGEST

ADDRESS = [ID, ROUTING]
"""What no two documents of an index share."""


def compare_by_id(table: DataFrame, index: DataFrame) -> DataFrame:
    """Pair what has the same id, and the same routing."""
    left = table.select(*ADDRESS, F.col(DIGEST).alias("of_row"))
    right = index.select(*ADDRESS, F.col(DIGEST).alias("of_document"))
    joined = left.join(right, on=ADDRESS, how="full_outer")
    # The order matters: where one of them is absent its digest is null, and null is never unequal.
    kind = (
        F.when(F.col("of_document").isNull(), "missing")
        .when(F.col("of_row").isNull(), "extra")
        .when(F.col("of_row") != F.col("of_document"), "different")
        .otherwise("equal")
    )
    return joined.select(*ADDRESS, kind.alias("kind"))


def compare_contents(table: DataFrame, index: DataFrame) -> DataFrame:
    """Pair what has the same content, for append-only tables: nothing is different there.

    Each one that is missing or extra has a line with its own id, however many have its content.
    """
    # What has the same id too comes first, or a repair would write documents that are there in
    # place of those that are not. The rest has other ids, of files from before a compaction.
    row, document = F.col("in_table"), F.col("in_index")
    joined = table.withColumn("in_table", F.lit(True)).join(
        index.withColumn("in_index", F.lit(True)), on=[*ADDRESS, DIGEST], how="full_outer"
    )
    members = joined.select(
        *ADDRESS, DIGEST, row.isNotNull().alias("in_table"), document.isNotNull().alias("in_index")
    )
    # A pair is a group of its own: half of a table may have one content, and one task sorts it. It
    # may spill, unlike an array of so many members.
    group = (F.col(DIGEST), F.when(row & document, F.col(ID)))
    of_group, of_members = Window.partitionBy(*group), Window.partitionBy(*group, row)
    ranked = members.select(
        *ADDRESS,
        row,
        document,
        F.row_number().over(of_members.orderBy(ID)).alias("rank"),
        F.count_if(row).over(of_group).alias("rows"),
        F.count_if(document).over(of_group).alias("documents"),
    )
    # The first of the rows is paired with the first of the documents, and so on. Of such a pair the
    # row has the line.
    is_extra = ~row & (F.col("rank") > F.col("rows"))
    kind = (
        F.when(is_extra, "extra").when(F.col("rank") > F.col("documents"), "missing")
    ).otherwise("equal")
    return ranked.where(row | is_extra).select(*ADDRESS, kind.alias("kind"))
