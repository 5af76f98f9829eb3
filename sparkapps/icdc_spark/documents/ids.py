"""Build the `_id` of a document, and its routing to a shard.

One function builds ids everywhere: export, changelog, verify.

Key values become text and are joined so that two keys never share an id:

| key | type | id | why |
|---|---|---|---|
| `42` | long | `42` | the value as text |
| `'a|b'`, `7` | string, int | `a\\|b|7` | a bar joins values; inside a value it is escaped |
| `NULL`, `7` | string, int | `\\N|7` | null; the text `\\N` becomes `\\\\N` |
| `''` | string | `\\E` | OpenSearch refuses an empty id |
| 600 letters | string | `\\H` and a SHA-256 | OpenSearch takes 512 bytes |
| bytes that are no UTF-8 | string | the same | as text, all of them would be one character |
| file and position | append-only | a SHA-256 | rows without a key |

A routing is made of the id alone, so that no two requests for one document differ in it, whatever
else is known where they are made. It is the parts of the id that come from its columns. With the
key (`tenant`, `n`) routed by `tenant`:

| id | routing | why |
|---|---|---|
| `a\\|b|7` | `a\\|b` | the part as it is in the id |
| `|7` | `\\E` | OpenSearch takes an empty routing for none |
| `\\H..|a` | `a` | the hash of a long id hides its parts, so its routing is behind it |
| `..|7`, of 450 letters | `\\H` and a SHA-256 | it would not fit behind such a hash |

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
_HASH_LENGTH = len(_HASHED) + 64
"""Characters of a hashed text."""
MAX_ROUTING_BYTES = MAX_ID_BYTES - _HASH_LENGTH - len(_BAR)
"""The longest routing that is not hashed, in bytes of UTF-8."""
_PART = r"([^\\|]*(?:\\.[^\\|]*)*)"
"""One part of an id, as a regular expression: no bar but an escaped one."""


def build_id(rows: DataFrame, spec: DocumentSpec) -> Column:
    """Return the id of each row.

    An append-only table needs the metadata columns `_file` and `_pos`.
    """
    if spec.append_only:
        position = F.concat_ws(_BAR, F.col("_file"), F.col("_pos").cast("string"))
        # Hashed always: locations are longer than an id may be.
        return F.sha2(position.cast("binary"), 256)
    parts = [(read_cell(rows, path), path[-1]) for path in spec.identifiers]
    return join_key(parts, spec.routing)


def join_key(parts: Sequence[tuple[Column, Field]], routing: Sequence[int] = ()) -> Column:
    """Return one id for the values of a key, in the order given.

    `routing` are the positions of those by which the document is routed.
    """
    texts = [_escape(value, entry) for value, entry in parts]
    # `concat_ws` leaves nulls out, by which two keys could share an id: `_escape` gives none.
    joined = F.concat_ws(_BAR, *texts)
    if len(parts) == 1:
        # Of several parts at least the bar remains.
        joined = F.when(joined == "", F.lit(_EMPTY)).otherwise(joined)
    if all(_is_short(entry) for _, entry in parts) and len(parts) <= MAX_ID_BYTES // 64:
        return joined
    hashed = _hash(joined)
    if routing:
        route = _finish_routing(F.concat_ws(_BAR, *[texts[position] for position in routing]))
        hashed = F.concat(hashed, F.lit(_BAR), route)
    return F.when(_is_unfit(joined, MAX_ID_BYTES), hashed).otherwise(joined)


def build_routing(identifier: Column, spec: DocumentSpec) -> Column:
    """Return the routing of documents by their ids, of a table that has `routing`.

    An id that this table cannot have, such as that of a document of somebody else's, has one too.
    """
    pattern = "\\A" + r"\|".join([_PART] * len(spec.identifiers)) + "\\z"
    # Parts count from 1.
    parts = [F.regexp_extract(identifier, pattern, position + 1) for position in spec.routing]
    behind_hash = F.substr(identifier, F.lit(_HASH_LENGTH + len(_BAR) + 1))
    is_hashed = F.startswith(identifier, F.lit(_HASHED))
    return _finish_routing(F.when(is_hashed, behind_hash).otherwise(F.concat_ws(_BAR, *parts)))


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


def _finish_routing(text: Column) -> Column:
    """Return the text as a routing; a routing stays as it is."""
    return (
        F.when(text == "", F.lit(_EMPTY))
        .when(_is_unfit(text, MAX_ROUTING_BYTES), _hash(text))
        .otherwise(text)
    )


def _is_unfit(text: Column, most: int) -> Column:
    """Return whether the text has more bytes, or bytes that JSON cannot hold."""
    # Spark makes a string of any bytes, and JSON has one character for all that are no UTF-8.
    return (F.octet_length(text) > most) | ~F.is_valid_utf8(text)


def _hash(text: Column) -> Column:
    return F.concat(F.lit(_HASHED), F.sha2(text.cast("binary"), 256))


def _is_short(entry: Field) -> bool:
    """Return whether the text has at most 64 bytes in any case, so that no length is checked."""
    return isinstance(entry.type, Primitive) and entry.type.name not in {
        "string",
        "binary",
        "fixed",
    }
