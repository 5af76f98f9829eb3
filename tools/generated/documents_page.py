"""Writes docs/reference/documents.md: what a value of each Iceberg type becomes in a document.

The values are examples that a test sends through Spark and OpenSearch; mappings, and which types an
id may have, are asked of `icdc_spark.documents` here.

`--check` fails where the page differs, `--write` writes it (`pages`).
"""

import json
import sys

from icdc_api.errors import UnsupportedType
from icdc_spark.documents.document_spec import DocumentSpec, resolve_spec
from icdc_spark.documents.forms import WITHOUT_FORM
from icdc_spark.documents.mapping import build_index_mapping
from icdc_spark.documents.wishes import DocumentWishes
from icdc_testing.lake.document_examples import IDS, VALUES, IdExample, ValueExample, build_schema
from pages import REFERENCE, escape_bars, write_or_check

PAGE = REFERENCE / "documents.md"
_TOP = """\
<!-- Made from sparkapps/icdc_spark/documents and examples by `make reference`. Do not edit. -->
# Documents

A row becomes one document: its `_id` from the key columns, its `_source` from the columns, or from
[`fields`](../shaping-documents.md) where a table has them. `icdc preview -f PIPELINE.yaml` shows
the documents and the mapping of your own tables.

## Values
| type | value | in `_source` | mapping | as `_id` |
|---|---|---|---|---|
"""
_RULES = """
- A null, NaN or infinity is left out, at every depth of objects. In lists and maps it is null.
  `status.tables[].lastBatch.nonFinite` counts NaN and infinities, and so does the log of the run.
- A `decimal` is text, so that no digit is lost. OpenSearch searches it as a number up to 15 digits,
  and as a keyword above.
- A `timestamptz` is in UTC. A `timestamp` has no zone, and OpenSearch takes it for UTC.
- A `variant` that is no object is wrapped in one, with the name `value`.
- A list has the mapping of its elements: every field of OpenSearch may have several values. The
  keys of a map are text.
- A string is a keyword up to 8,191 characters, and searched by words in its subfield `text`. The
  fields [`strings`](spec.md#spec.sink.opensearch.strings) and
  [`mapping`](spec.md#spec.tables[].mapping) of a spec change that.
"""
_IDS = """
## Ids
The values of the key columns, in the order of
[`identifierColumns`](spec.md#spec.tables[].identifierColumns). Without these, the identifier fields
of the table itself, by field id. A table that is `appendOnly` has no key: its ids are the SHA-256
of a row's file and position.

| key | `_id` | why |
|---|---|---|
"""
_INDEX = """
## Index
Readers search the alias, such as `orders`. Behind it is one physical index, `orders-000001`; each
new export fills the next one, and then moves the alias. Its mapping is `strict`: a field that the
mapping does not have is refused, not guessed. The `_meta` of the mapping has the owner, the UUID
and the schema of the table, and what shaped the documents. Do not change it.
"""


def render_page() -> str:
    """Return the whole page."""
    values = (_render_value(example) for example in VALUES)
    refused = ", ".join(f"`{kind}`" for kind in sorted(WITHOUT_FORM))
    without = f"- {refused} have no form: the table stalls with `UnsupportedType`.\n"
    ids = (_render_id(example) for example in IDS)
    return "".join((_TOP, *values, _RULES, without, _IDS, *ids, _INDEX))


def resolve_example(example: ValueExample, *, as_key: bool) -> DocumentSpec:
    """Return the documents of a table with a column of the type, which may be its key.

    UnsupportedType where the type cannot be part of an id.
    """
    # With a second column, which can be the key where the type cannot.
    schema = build_schema([example.kind, "int"])
    return resolve_spec(
        "example", schema, DocumentWishes(identifier_columns=("c0" if as_key else "c1",))
    )


def _render_value(example: ValueExample) -> str:
    spec = resolve_example(example, as_key=False)
    properties = build_index_mapping(spec, table_uuid="")["properties"]
    try:
        resolve_example(example, as_key=True)
    except UnsupportedType:
        identifier = "not in a key"
    else:
        identifier = _quote(str(example.identifier))
    source = "left out" if example.source is None else _quote(example.source)
    mapping = _quote(json.dumps(properties["c0"], separators=(",", ":")))
    name = _quote(example.name or str(example.kind))
    return f"| {name} | {_quote(example.value)} | {source} | {mapping} | {identifier} |\n"


def _render_id(example: IdExample) -> str:
    cells = (_quote(example.key), _quote(example.identifier), example.why)
    return f"| {' | '.join(cells)} |\n"


def _quote(text: str) -> str:
    return f"`{escape_bars(text)}`"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: render_page}, "reference"))
