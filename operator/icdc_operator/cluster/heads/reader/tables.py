"""Read what a person must know of a table before it is followed: branches, columns, identifiers.

For `icdc doctor` on a host, whose user has chosen the catalog himself, so nothing is confined here,
unlike the rest of `reader`. Reads whole metadata once; writes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.catalog import AVAILABLE_CATALOGS, CatalogType

from icdc_api import authorities, naming
from icdc_api.errors import IcdcError, TableNotFound
from icdc_api.spec.catalog import JDBC_NAME_RULE
from icdc_api.spec.indices.renamed_columns import find_renamed
from icdc_operator.cluster.heads import catalog_properties
from icdc_operator.cluster.heads.catalog_properties import CatalogKind, OutOfSight
from icdc_operator.cluster.heads.reader.foreign_errors import map_errors
from icdc_operator.cluster.heads.reader.limits import trust
from icdc_operator.cluster.heads.table_facts import TableFacts


def read_tables(
    name: str, properties: Mapping[str, str], tables: Sequence[str]
) -> dict[str, TableFacts | IcdcError]:
    """Return each table's facts, or why they cannot be read; the catalog is opened once."""
    try:
        catalog = _open(name, properties)
    except IcdcError as error:
        return dict.fromkeys(tables, error)
    is_jdbc = catalog_properties.translate(name, properties).kind is CatalogKind.SQL
    hint = f"; {JDBC_NAME_RULE.format(name=name)}" if is_jdbc else ""
    try:
        return {table: _read(catalog, table, hint) for table in tables}
    finally:
        catalog.close()


def _open(name: str, properties: Mapping[str, str]) -> Any:
    translated = catalog_properties.translate(name, properties)
    # pyiceberg would create the table of the catalog where it is missing.
    if translated.kind is CatalogKind.DYNAMODB:
        raise OutOfSight("catalogs in DynamoDB are not read from a host")
    more = {"init_catalog_tables": "false"} if translated.kind is CatalogKind.SQL else {}
    certificates = properties.get(authorities.PROPERTY)
    if certificates is not None:
        # For the rest of this process, as the JVM of a run trusts it for all catalogs.
        trust.install(certificates)
    with map_errors("the catalog"):
        load = AVAILABLE_CATALOGS[CatalogType(translated.kind.value)]
        return load(name, {**translated.properties, **more})


def _read(catalog: Any, table: str, hint: str) -> TableFacts | IcdcError:
    """Return the facts or the error; `hint` is added where there is no such table."""
    try:
        with map_errors(table):
            loaded = catalog.load_table(naming.parse_table_name(table))
            schema = loaded.schema()
            refs = loaded.metadata.refs
            return TableFacts(
                branches=tuple(
                    sorted(n for n, r in refs.items() if r.snapshot_ref_type == "branch")
                ),
                columns=tuple(schema.column_names),
                identifiers=tuple(sorted(schema.identifier_field_names())),
                renamed=find_renamed(_list_ids(schema), map(_list_ids, loaded.schemas().values())),
            )
    except TableNotFound as error:
        return TableNotFound(f"{error.message}{hint}")
    except IcdcError as error:
        return error


def _list_ids(schema: Any) -> dict[str, int]:
    return {name: schema.find_field(name).field_id for name in schema.column_names}
