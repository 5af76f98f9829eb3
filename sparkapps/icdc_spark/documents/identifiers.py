"""Decide which columns are the key of a table, and by which of them its documents are routed.

The routing of a document is a function of its id, so that versions, deletes and replays of one
document meet on one shard, also where nothing is known of it but its id. So only columns of the key
can be in it. Pure: it must know neither Spark nor OpenSearch.
"""

from collections.abc import Sequence

from icdc_api.errors import ColumnNotFound, FieldInvalid, NoIdentifier, UnsupportedType
from icdc_spark.documents.forms import refuse_undocumentable
from icdc_spark.documents.schema import Field, Primitive, Schema, describe_columns

_NOT_IN_IDS = frozenset({"float", "double", "variant"})
"""Types whose equal values have no single text: 0.0 and -0.0, NaN, objects in any order."""

Path = tuple[Field, ...]
"""The fields from a top-level column down to one of an id."""


def resolve_identifiers(table: str, schema: Schema, wanted: Sequence[str]) -> tuple[Path, ...]:
    """Return the columns of the key: those `wanted`, or the table's own identifier fields.

    ColumnNotFound, NoIdentifier or UnsupportedType where they do not fit the table.
    """
    paths = [_resolve_identifier(table, schema, name) for name in wanted]
    if not wanted:
        # Iceberg has them as a set: by field id their order is the same in every run.
        own_paths = (schema.find_path(number) for number in sorted(schema.identifier_ids))
        paths = [path for path in own_paths if path is not None]
    if not paths:
        raise NoIdentifier(
            f"{table} has no identifier fields of its own: name its key in identifierColumns, "
            "or declare the table appendOnly"
        )
    for path in paths:
        _refuse_as_identifier(table, path)
    return tuple(paths)


def find_routing(table: str, identifiers: Sequence[Path], wanted: Sequence[str]) -> tuple[int, ...]:
    """Return the positions in `identifiers` of the columns by which documents are routed.

    FieldInvalid where one is not among them.
    """
    names = [".".join(entry.name for entry in path) for path in identifiers]
    for name in wanted:
        if name not in names:
            raise FieldInvalid(
                f"{table}: routing names `{name}`, which is not among the identifier columns "
                f"({', '.join(f'`{column}`' for column in names) or 'none'}): by another one, "
                "versions of a document would be on several shards"
            )
    return tuple(names.index(name) for name in wanted)


def _resolve_identifier(table: str, schema: Schema, name: str) -> Path:
    path = schema.find(name)
    if path is None:
        raise ColumnNotFound(
            f"{table}: identifierColumns names `{name}`, which is not a column; "
            f"{describe_columns(schema)}"
        )
    return path


def _refuse_as_identifier(table: str, path: Path) -> None:
    name, kind = ".".join(entry.name for entry in path), path[-1].type
    if not isinstance(kind, Primitive) or kind.name in _NOT_IN_IDS:
        raise UnsupportedType(
            f"{table}: column `{name}` of type {kind} cannot be part of an id; "
            "name other identifierColumns"
        )
    # The key need not be among the columns of the document, which were checked before.
    refuse_undocumentable(table, path[-1], name=name)
