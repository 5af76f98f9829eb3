"""Build the `_id` of a document. One function builds ids everywhere: export, changelog, verify.

Key values become text and are joined so that two keys never share an id:

| key | type | id | why |
|---|---|---|---|
| `42` | long | `42` | the value as text |
| `'a|b'`, `7` | string, int | `a\\|b|7` | a bar joins values; inside a value it is escaped |
| `NULL`, `7` | string, int | `\\N|7` | null; the text `\\N` becomes `\\\\N` |
| `''` | string | `\\E` | OpenSearch refuses an empty id |
| 600 letters | string | `\\H` and a SHA-256 | OpenSearch takes 512 bytes |
| file and position | append-only | a SHA-256 | rows without a key |

It must not know indices.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from icdc_spark.documents.document_spec import DocumentSpec
from icdc_spark.documents.schema import Field, Primitive
from icdc_spark.documents.serialise import format_as_text

MAX_ID_BYTES = 512
"""The longest `_id` that OpenSearch takes, in bytes of UTF-8."""

_NULL, _EMPTY, _HASHED = "\\N", "\\E", "\\H"
_BACKSLASH, _BAR = "\\", "|"


def build_id(rows: DataFrame, spec: DocumentSpec) -> Column:
    """Return the id of each row.

    An append-only table needs the metadata columns `_file` and `_pos`.
    """
    if spec.append_only:
        position = F.concat_ws(_BAR, F.col("_file"), F.col("_pos").cast("string"))
        # Hashed always: locations are longer than an id may be.
        return F.sha2(position.cast("binary"), 256)
    return join_key([(read_cell(rows, path), path[-1]) for path in spec.identifiers])


def join_key(parts: Sequence[tuple[Column, Field]]) -> Column:
    """Return one id for the values of a key, in the order given."""
    joined = F.concat_ws(_BAR, *[_escape(value, entry) for value, entry in parts])
    if len(parts) == 1:
        # Of several parts at least the bar remains.
        joined = F.when(joined == "", F.lit(_EMPTY)).otherwise(joined)
    if all(_is_short(entry) for _, entry in parts) and len(parts) <= MAX_ID_BYTES // 64:
        return joined
    hashed = F.concat(F.lit(_HASHED), F.sha2(joined.cast("binary"), 256))
    return F.when(F.octet_length(joined) > MAX_ID_BYTES, hashed).otherwise(joined)


def read_cell(rows: DataFrame, path: Sequence[Field]) -> Column:
    """Return the expression that reads a field by its path."""
    column = rows[quote_name(path[0].name)]
    for entry in path[1:]:
        column = column.getField(entry.name)
    return column


def quote_name(name: str) -> str:
    """Return the name of a column as Spark takes it, whatever it holds."""
    # A name may hold dots; a backtick inside is doubled.
    return f"`{name.replace('`', '``')}`"


def _escape(value: Column, entry: Field) -> Column:
    plain = format_as_text(value, entry.type)
    if entry.type == Primitive("string"):
        # The text of other types holds neither. Backslashes first, or those of bars double.
        plain = F.replace(plain, F.lit(_BACKSLASH), F.lit(_BACKSLASH * 2))
        plain = F.replace(plain, F.lit(_BAR), F.lit(_BACKSLASH + _BAR))
    return F.coalesce(plain, F.lit(_NULL))


def _is_short(entry: Field) -> bool:
    """Return whether the text has at most 64 bytes in any case, so that no length is checked."""
    return isinstance(entry.type, Primitive) and entry.type.name not in {
        "string",
        "binary",
        "fixed",
    }
