"""Catalog properties of Iceberg's Java library in the words of pyiceberg."""

from typing import Any

import pytest

from icdc_operator.cluster.heads.catalog_properties import CatalogKind, OutOfSight, translate

pytestmark = pytest.mark.unit

FILES = {"s3.connect-timeout": "5", "s3.request-timeout": "5"}
REFS = {"snapshot-loading-mode": "refs"}
DYNAMODB = {"catalog-impl": "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog"}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"type": "rest", "uri": "http://c"}, CatalogKind.REST),
        ({"type": "REST", "uri": "http://c"}, CatalogKind.REST),
        ({"type": "jdbc", "uri": "jdbc:sqlite:/c.db"}, CatalogKind.SQL),
        ({"type": "glue"}, CatalogKind.GLUE),
        ({"type": "hive", "uri": "thrift://c:9083"}, CatalogKind.HIVE),
        (
            {"catalog-impl": "org.apache.iceberg.rest.RESTCatalog", "uri": "http://c"},
            CatalogKind.REST,
        ),
        ({"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog"}, CatalogKind.GLUE),
        (DYNAMODB, CatalogKind.DYNAMODB),
    ],
)
def test_the_kind_is_that_of_the_type_or_of_a_known_implementation(
    given: dict[str, str], kind: CatalogKind
) -> None:
    assert translate("lake", given).kind is kind


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"type": "hadoop", "warehouse": "/w"}, "this type"),
        ({"type": "nessie", "uri": "http://c"}, "this type"),
        ({}, "this type"),
        ({"catalog-impl": "com.example.Own", "uri": "http://c"}, "this catalog-impl"),
        ({"type": "rest", "catalog-impl": "com.example.Own"}, "both type and catalog-impl"),
        ({"type": "rest"}, "no property uri"),
        ({**DYNAMODB, "dynamodb.endpoint": "http://db"}, "dynamodb.endpoint"),
        ({"type": "jdbc", "uri": "jdbc:mysql://db/x"}, "jdbc:postgresql: and jdbc:sqlite:"),
        ({"type": "jdbc", "uri": "jdbc:sqlite::memory:"}, "in memory"),
        ({"type": "jdbc", "uri": "sqlite:////c.db"}, "jdbc:postgresql: and jdbc:sqlite:"),
        ({"type": "rest", "uri": "http://c", "rest.auth.type": "google"}, "rest.auth.type"),
    ],
)
def test_what_pyiceberg_cannot_read_is_refused_with_a_reason(
    given: dict[str, str], text: str
) -> None:
    with pytest.raises(OutOfSight, match=text):
        translate("lake", given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"uri": "http://c", "warehouse": "w", "credential": "a:b", "scope": "s"},
            {"uri": "http://c", "warehouse": "w", "credential": "a:b", "scope": "s", **REFS},
        ),
        (
            {"uri": "http://c", "header.X-Tenant": "t", "snapshot-loading-mode": "ALL"},
            {"uri": "http://c", "header.X-Tenant": "t", **REFS},
        ),
        (
            {"uri": "http://c", "token": "t", "rest.auth.type": "none"},
            {"uri": "http://c", **REFS},
        ),
        (
            {
                "uri": "http://c",
                "rest.auth.type": "basic",
                "rest.auth.basic.username": "u",
                "rest.auth.basic.password": "p",
            },
            {
                "uri": "http://c",
                "auth": {"type": "basic", "basic": {"username": "u", "password": "p"}},
                **REFS,
            },
        ),
        (
            {
                "uri": "http://c",
                "rest.auth.type": "sigv4",
                "rest.signing-region": "r",
                "rest.access-key-id": "k",
            },
            {
                "uri": "http://c",
                "rest.sigv4-enabled": "true",
                "rest.signing-region": "r",
                "client.access-key-id": "k",
                **REFS,
            },
        ),
        # The metadata comes with the answer: no file is read, and nothing is needed to do so.
        (
            {"uri": "http://c", "io-impl": "x", "s3.secret-access-key": "s"},
            {"uri": "http://c", **REFS},
        ),
    ],
)
def test_rest_properties_keep_their_names(given: dict[str, str], expected: dict[str, Any]) -> None:
    assert translate("lake", {"type": "rest", **given}).properties == expected


POSTGRES = "postgresql+psycopg2://"


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ({"uri": "jdbc:sqlite:/d/c.db"}, "sqlite:///file:/d/c.db?mode=ro&uri=true"),
        ({"uri": "jdbc:sqlite:file:/d/c d.db?x=y"}, "sqlite:///file:/d/c%20d.db?mode=ro&uri=true"),
        ({"uri": "jdbc:postgresql://db/x"}, f"{POSTGRES}db/x?connect_timeout=5"),
        (
            {"uri": "jdbc:postgresql://db:5433/x", "jdbc.user": "u@v", "jdbc.password": "p/:w"},
            f"{POSTGRES}u%40v:p%2F%3Aw@db:5433/x?connect_timeout=5",
        ),
        (
            {"uri": "jdbc:postgresql://db/x?user=u&sslmode=require&ApplicationName=a"},
            f"{POSTGRES}u@db/x?sslmode=require&connect_timeout=5",
        ),
        (
            {"uri": "jdbc:postgresql://db/x?ssl=true&currentSchema=s"},
            f"{POSTGRES}db/x?sslmode=verify-full&options=-csearch_path%3Ds&connect_timeout=5",
        ),
        (
            {"uri": "jdbc:postgresql://a:1,b/x"},
            f"{POSTGRES}/x?connect_timeout=5&host=a%2Cb&port=1%2C5432",
        ),
        (
            {"uri": "jdbc:postgresql://[fd00::1]:1,[fd00::2],b:3/x"},
            f"{POSTGRES}/x?connect_timeout=5&host=fd00%3A%3A1%2Cfd00%3A%3A2%2Cb&port=1%2C5432%2C3",
        ),
        ({"uri": "jdbc:postgresql:x"}, f"{POSTGRES}localhost/x?connect_timeout=5"),
    ],
)
def test_a_jdbc_address_becomes_that_of_sqlalchemy(given: dict[str, str], uri: str) -> None:
    translated = translate("lake", {"type": "jdbc", "jdbc.schema-version": "V1", **given})
    assert translated.properties == {"uri": uri, **FILES}


@pytest.mark.parametrize("name", ["sslcert", "sslkey", "sslrootcert"])
@pytest.mark.parametrize("value", ["/x/e.so:key", "pkcs11:key", "e.pem", "../e.pem", ""])
def test_a_file_of_postgresql_is_an_absolute_path_and_never_a_library(
    name: str, value: str
) -> None:
    address = "jdbc:postgresql://db/x"
    of_driver = {"type": "jdbc", "uri": address, f"jdbc.{name}": value}
    of_address = {"type": "jdbc", "uri": f"{address}?{name}={value or 'e'}"}
    for given in (of_driver, of_address):
        with pytest.raises(OutOfSight, match=name):
            translate("lake", given)
    allowed = translate("lake", {**of_driver, f"jdbc.{name}": "/pki/e.pem"})
    assert f"{name}=%2Fpki%2Fe.pem" in allowed.properties["uri"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"s3.path-style-access": "true"}, {"s3.force-virtual-addressing": "false"}),
        ({"s3.path-style-access": "false"}, {"s3.force-virtual-addressing": "true"}),
        ({"client.assume-role.arn": "a"}, {"client.role-arn": "a"}),
        ({"glue.id": "1", "client.region": "r"}, {"glue.id": "1", "client.region": "r"}),
        ({"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "cache-enabled": "false"}, {}),
    ],
)
def test_properties_of_files_get_their_names(
    given: dict[str, str], expected: dict[str, Any]
) -> None:
    assert translate("lake", {"type": "glue", **given}).properties == {**expected, **FILES}


def test_the_name_of_a_table_of_dynamodb_is_handed_on() -> None:
    given = {**DYNAMODB, "dynamodb.table-name": "t", "client.region": "r", "lock-impl": "x"}
    expected = {"table-name": "t", "client.region": "r", **FILES}
    assert translate("lake", given).properties == expected


@pytest.mark.parametrize("kind", ["rest", "jdbc", "glue", "hive"])
@pytest.mark.parametrize(
    "name",
    ["py-io-impl", "py-catalog-impl", "auth", "s3.signer", "s3.retry-strategy-impl", "ssl"],
)
def test_no_property_that_names_code_reaches_pyiceberg(kind: str, name: str) -> None:
    given = {"type": kind, "uri": "jdbc:sqlite:/c.db", name: "os.system"}
    assert "os.system" not in translate("lake", given).properties.values()


def test_the_same_catalog_has_the_same_digest_and_shows_no_value() -> None:
    one = translate("lake", {"type": "rest", "uri": "http://c", "token": "secret-1"})
    same = translate("lake", {"token": "secret-1", "uri": "http://c", "type": "rest"})
    other = translate("lake", {"type": "rest", "uri": "http://c", "token": "secret-2"})
    assert one.digest == same.digest != other.digest
    assert translate("other", {"type": "rest", "uri": "http://c"}).digest != one.digest
    assert "secret-1" not in repr(one) + one.digest
