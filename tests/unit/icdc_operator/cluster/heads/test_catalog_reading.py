"""The newest snapshots of real tables, through pyiceberg, and what its errors become."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError, ServerError, ValidationError
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import StringType

from icdc_api.errors import IcdcError, SourceUnavailable, TableNotFound, Unauthorized
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.reader.branches import parse_file
from icdc_operator.cluster.heads.reader.catalog_reading import OpenCatalog
from icdc_operator.cluster.heads.reader.foreign_errors import map_errors
from icdc_operator.cluster.heads.reader.metadata_files import read
from icdc_operator.cluster.heads.reader.tables import read_tables
from icdc_operator.cluster.heads.table_facts import TableFacts
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.lake.catalogs.readers import ON_LOOPBACK, open_catalog
from icdc_testing.lake.catalogs.rest_catalog import RestCatalog

pytestmark = pytest.mark.unit

ORDERS = ("shop", "orders")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[HeadLake]:
    made = HeadLake(tmp_path)
    yield made
    made.close()


@pytest.fixture
def catalog(lake: HeadLake) -> Iterator[OpenCatalog]:
    reading = open_catalog(lake.properties)
    yield reading
    reading.close()


@pytest.fixture
def rest() -> Iterator[RestCatalog]:
    with rest_catalog.serve() as served:
        yield served


def test_the_head_of_a_branch_moves_with_each_commit(lake: HeadLake, catalog: OpenCatalog) -> None:
    lake.create()
    assert catalog.read_heads(ORDERS) == {}
    first = lake.commit()
    assert catalog.read_heads(ORDERS) == {"main": int(first)}
    lake.create_branch("audit")
    second = lake.commit(branch="audit")
    assert catalog.read_heads(ORDERS) == {"main": int(first), "audit": int(second)}
    assert first != second


@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_a_person_learns_what_a_table_has(lake: HeadLake, rest: RestCatalog, kind: str) -> None:
    lake.create()
    lake.commit()
    lake.create_branch("audit")
    rest.put("shop.orders", json.loads(lake.find_metadata_file().read_text(encoding="utf-8")))
    properties = lake.properties if kind == "jdbc" else rest.properties
    facts = read_tables("lake", properties, ["shop.orders", "shop.none"])
    assert facts["shop.orders"] == TableFacts(("audit", "main"), ("id",), ())
    absent = facts["shop.none"]
    assert isinstance(absent, TableNotFound)
    assert ("is catalog.name, which is lake, the one" in absent.message) == (kind == "jdbc")


def test_a_person_learns_what_columns_were_called(lake: HeadLake) -> None:
    table = lake.create()
    with table.update_schema() as update:
        update.add_column("name", StringType()).add_column("gone", StringType())
    for column, name in (("id", "key"), ("key", "number"), ("name", "label")):
        with table.update_schema() as update:
            update.rename_column(column, name)
    with table.update_schema() as update:
        update.add_column("name", StringType()).delete_column("gone")
    facts = read_tables("lake", lake.properties, ["shop.orders"])["shop.orders"]
    assert isinstance(facts, TableFacts)
    assert facts.columns == ("number", "label", "name")
    assert facts.renamed == {"id": "number", "key": "number"}


def test_a_person_learns_why_no_table_can_be_read(tmp_path: Path) -> None:
    away = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/none.db"}
    assert isinstance(read_tables("lake", away, ["a.b"])["a.b"], SourceUnavailable)
    assert not list(tmp_path.iterdir())
    assert isinstance(read_tables("lake", {"type": "hadoop"}, ["a.b"])["a.b"], OutOfSight)


def test_a_table_that_is_not_there_or_was_dropped_is_not_found(
    lake: HeadLake, catalog: OpenCatalog
) -> None:
    with pytest.raises(TableNotFound, match=r"shop\.orders"):
        catalog.read_heads(ORDERS)
    lake.create()
    catalog.read_heads(ORDERS)
    lake.drop()
    with pytest.raises(TableNotFound, match=r"is catalog\.name, which is lake, the one"):
        catalog.read_heads(ORDERS)


def test_no_file_is_read_again_while_the_pointer_stands(
    lake: HeadLake, catalog: OpenCatalog
) -> None:
    lake.create()
    head = lake.commit()
    catalog.read_heads(ORDERS)
    lake.find_metadata_file().unlink()
    assert catalog.read_heads(ORDERS) == {"main": int(head)}


def test_metadata_that_cannot_be_read_is_no_snapshot_and_is_not_repeated(
    lake: HeadLake, catalog: OpenCatalog
) -> None:
    lake.create()
    lake.find_metadata_file().write_text('{"password": "swordfish"}', encoding="utf-8")
    with pytest.raises(SourceUnavailable) as raised:
        catalog.read_heads(ORDERS)
    assert "swordfish" not in raised.value.message
    assert raised.value.__cause__ is not None


def test_properties_of_a_table_choose_no_code(
    lake: HeadLake, catalog: OpenCatalog, rest: RestCatalog
) -> None:
    lake.create()
    file = lake.find_metadata_file()
    metadata = json.loads(file.read_text(encoding="utf-8"))
    # pyiceberg imports what this names, and calls it with the properties.
    metadata["properties"]["py-io-impl"] = "no_such_module.Trap"
    file.write_text(json.dumps(metadata), encoding="utf-8")
    assert catalog.read_heads(ORDERS) == {}
    rest.put("shop.orders", metadata)
    assert open_catalog(rest.properties).read_heads(ORDERS) == {}


@pytest.mark.parametrize(
    ("version", "kind"), [(3, "variant"), (3, "geometry(srid:4326)"), (4, "int")]
)
def test_a_table_that_pyiceberg_does_not_understand_has_its_heads(
    lake: HeadLake, catalog: OpenCatalog, rest: RestCatalog, version: int, kind: str
) -> None:
    lake.create()
    head = lake.commit()
    file = lake.find_metadata_file()
    metadata = json.loads(file.read_text(encoding="utf-8"))
    metadata["format-version"] = version
    metadata["next-row-id"] = 1
    metadata["schemas"][0]["fields"][0]["type"] = kind
    file.write_text(json.dumps(metadata), encoding="utf-8")
    with pytest.raises((ValueError, ValidationError), match=f"{re.escape(kind)}|version: 4"):
        TableMetadataUtil.parse_obj(metadata)
    assert catalog.read_heads(ORDERS) == {"main": int(head)}
    rest.put("shop.orders", metadata)
    assert open_catalog(rest.properties).read_heads(ORDERS) == {"main": int(head)}


@pytest.mark.parametrize(
    ("metadata", "heads"),
    [
        ({}, {}),
        ({"current-snapshot-id": None}, {}),
        ({"current-snapshot-id": -1}, {}),
        ({"current-snapshot-id": -1, "refs": {}}, {}),
        ({"current-snapshot-id": 5}, {"main": 5}),
        (
            {
                "current-snapshot-id": 2**63 - 1,
                "refs": {
                    "main": {"snapshot-id": 2**63 - 1, "type": "branch", "max-ref-age-ms": 1},
                    "audit": {"snapshot-id": 7, "type": "branch"},
                    "release": {"snapshot-id": 7, "type": "tag"},
                },
            },
            {"main": 2**63 - 1, "audit": 7},
        ),
    ],
)
def test_heads_are_the_branches_and_the_snapshot_of_tables_without_any(
    metadata: dict[str, object], heads: dict[str, int]
) -> None:
    assert parse_file(json.dumps({"format-version": 1, **metadata}).encode()) == heads


@pytest.mark.parametrize(
    "content",
    [{"current-snapshot-id": 5}, {"format-version": 2, "refs": {"main": {}}}, [], None, "x"],
)
def test_what_is_no_metadata_has_no_heads(content: object) -> None:
    with pytest.raises(SourceUnavailable), map_errors("shop.orders"):
        parse_file(json.dumps(content).encode())


def test_compressed_metadata_is_read(tmp_path: Path) -> None:
    file = tmp_path / "00001-x.gz.metadata.json"
    file.write_bytes(gzip.compress(b'{"format-version": 2, "current-snapshot-id": 5}'))
    assert parse_file(read({}, f"file://{file}", ON_LOOPBACK)) == {"main": 5}


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"
    catalog = open_catalog({"type": "jdbc", "uri": f"jdbc:sqlite:{missing}"})
    with pytest.raises(SourceUnavailable, match="OperationalError"):
        catalog.read_heads(ORDERS)
    assert not missing.exists()


def test_a_rest_catalog_sends_the_metadata_and_no_file_is_read(
    lake: HeadLake, rest: RestCatalog
) -> None:
    lake.create()
    head = lake.commit()
    rest.put("shop.orders", json.loads(lake.find_metadata_file().read_text(encoding="utf-8")))
    catalog = open_catalog(rest.properties)
    assert catalog.read_heads(ORDERS) == {"main": int(head)}
    asked, headers = rest.requests[-1]
    assert asked == "/v1/namespaces/shop/tables/orders?snapshots=refs"
    # Credentials for the files would cost the catalog a request of its own.
    assert "X-Iceberg-Access-Delegation" not in headers
    with pytest.raises(TableNotFound):
        catalog.read_heads(("shop", "missing"))
    catalog.close()


@pytest.mark.parametrize("etags", [True, False])
def test_an_answer_of_a_rest_catalog_that_is_known_is_not_looked_into(
    lake: HeadLake, rest: RestCatalog, etags: bool
) -> None:
    rest.etags = etags
    lake.create()
    head = lake.commit()
    rest.put("shop.orders", json.loads(lake.find_metadata_file().read_text(encoding="utf-8")))
    rest.put("shop.others", json.loads(lake.find_metadata_file().read_text(encoding="utf-8")))
    catalog = open_catalog(rest.properties)
    for table in ("orders", "others"):
        assert catalog.read_heads(("shop", table)) == {"main": int(head)}
    first = catalog.read_heads(ORDERS)
    # The very object: what is read is made anew.
    assert catalog.read_heads(ORDERS) is first
    assert ("If-None-Match" in rest.requests[-1][1]) == etags
    moved = lake.commit()
    rest.put("shop.orders", json.loads(lake.find_metadata_file().read_text(encoding="utf-8")))
    assert catalog.read_heads(ORDERS) == {"main": int(moved)}
    assert catalog.read_heads(("shop", "others")) == {"main": int(head)}
    catalog.close()


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (401, "NotAuthorizedException", Unauthorized),
        (403, "ForbiddenException", Unauthorized),
        (500, "InternalServerError", SourceUnavailable),
        (503, "SlowDownException", SourceUnavailable),
    ],
)
def test_refusals_of_a_rest_catalog_are_told_apart(
    rest: RestCatalog, status: int, kind: str, expected: type[IcdcError]
) -> None:
    rest.refuse(status, kind, "the password is swordfish")
    with pytest.raises(expected) as raised:
        open_catalog(rest.properties)
    assert "swordfish" not in raised.value.message


def test_a_catalog_that_nobody_serves_is_unavailable() -> None:
    with pytest.raises(SourceUnavailable, match="ConnectionError"):
        open_catalog({"type": "rest", "uri": "http://127.0.0.1:1"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (NoSuchNamespaceError("x"), TableNotFound),
        (ForbiddenError("x"), Unauthorized),
        (ServerError("x"), SourceUnavailable),
        (ModuleNotFoundError("boto3"), OutOfSight),
        (FileNotFoundError("x"), SourceUnavailable),
        (KeyError("x"), SourceUnavailable),
    ],
)
def test_foreign_errors_end_at_the_border(given: Exception, expected: type[IcdcError]) -> None:
    with pytest.raises(expected) as raised, map_errors("shop.orders"):
        raise given
    assert raised.value.__cause__ is given


def test_a_metastore_that_is_not_there_is_a_passing_fault() -> None:
    # The libraries of every kind are installed with the operator.
    with pytest.raises(SourceUnavailable):
        open_catalog({"type": "hive", "uri": "thrift://127.0.0.1:1"}).read_heads(ORDERS)
