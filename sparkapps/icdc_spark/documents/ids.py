"""The `_id` of a document. One function makes ids everywhere: export, changelog, verify, repair.

It knows how key values become text and how texts are joined so that two keys never share an id.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.schema import Field, Primitive
from icdc_spark.documents.serialise import format_as_text

MAX_ID_BYTES = 512
"""What OpenSearch takes as `_id`, in bytes of UTF-8."""

_NULL, _EMPTY, _HASHED = "\\N", "\\E", "\\H"
_BACKSLASH, _BAR = "\\", "|"


def build_id(rows: DataFrame, spec: DocumentSpec) -> Column:
    """The id of each row; an append-only table needs the metadata columns `_file` and `_pos`."""
    if spec.append_only:
        place = F.concat_ws(_BAR, F.col("_file"), F.col("_pos").cast("string"))
        return F.sha2(place.cast("binary"), 256)
    return join_key([(read_cell(rows, path), path[-1]) for path in spec.identifiers])


def join_key(parts: Sequence[tuple[Column, Field]]) -> Column:
    """One id out of the key's values, in the order given."""
    whole = F.concat_ws(_BAR, *[_part(value, entry) for value, entry in parts])
    if len(parts) == 1:
        whole = F.when(whole == "", F.lit(_EMPTY)).otherwise(whole)
    if all(_is_short(entry) for _, entry in parts) and len(parts) <= MAX_ID_BYTES // 64:
        return whole
    hashed = F.concat(F.lit(_HASHED), F.sha2(whole.cast("binary"), 256))
    return F.when(F.octet_length(whole) > MAX_ID_BYTES, hashed).otherwise(whole)


def read_cell(rows: DataFrame, path: Sequence[Field]) -> Column:
    """The expression that reads a nested field; its names are taken word for word."""
    column = rows[f"`{path[0].name.replace('`', '``')}`"]
    for entry in path[1:]:
        column = column.getField(entry.name)
    return column


def _part(value: Column, entry: Field) -> Column:
    plain = format_as_text(value, entry.type)
    if entry.type == Primitive("string"):
        plain = F.replace(plain, F.lit(_BACKSLASH), F.lit(_BACKSLASH * 2))
        plain = F.replace(plain, F.lit(_BAR), F.lit(_BACKSLASH + _BAR))
    return F.coalesce(plain, F.lit(_NULL))


def _is_short(entry: Field) -> bool:
    """True when the text cannot pass 64 bytes, so that no length need be looked at."""
    return isinstance(entry.type, Primitive) and entry.type.name not in {
        "string",
        "binary",
        "fixed",
    }
