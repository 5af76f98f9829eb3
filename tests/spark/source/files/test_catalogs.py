"""The examples of docs/catalogs.md in Spark with the jars of the image, and what goes wrong."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from icdc_api import authorities
from icdc_testing.kube.server_process import HeldPort
from icdc_testing.lake.catalogs import service as catalog_service
from icdc_testing.lake.catalogs.page import ASKED, NAMESPACE, TABLE, WITHOUT_SERVICE, read_examples
from icdc_testing.lake.catalogs.service import MANIFESTS, TOKEN, VENDED, CatalogService
from icdc_testing.network.tls import Authority

from .catalog_probe import probe

pytestmark = pytest.mark.spark

EXAMPLES = read_examples()
TABLE_NAME = f"{NAMESPACE}.{TABLE}"
S3 = "org.apache.iceberg.aws.s3.S3FileIO"

ENDS = {
    "hive": ("SourceUnavailable", "thrift.transport.TTransportException.*Connection refused"),
    "jdbc": ("SourceUnavailable", "java.net.ConnectException: Connection refused"),
    "hadoop": ("SourceUnavailable", "java.net.ConnectException: Connection refused"),
    "nessie-api": ("CatalogInvalid", "NessieReferenceNotFoundException"),
    "sqlite": ("TableNotFound", r"no such table.*; a JDBC catalog .*, which is lake, the one"),
}
"""For examples whose service is not there, or whose message says more: how far they come."""

WRONG: dict[str, tuple[dict[str, str], str]] = {
    "a type that is none": ({"type": "gluee"}, "Unknown catalog type: gluee"),
    "no uri": ({"type": "rest"}, "Invalid uri for http client: null"),
    "no warehouse": ({"type": "hadoop"}, "warehousePath must not be null or empty"),
    "no region": (
        {"type": "glue", "glue.endpoint": "http://127.0.0.1:1"},
        "name no region: set client.region",
    ),
    "a catalog that is not in the image": (
        {"catalog-impl": "software.amazon.s3tables.iceberg.S3TablesCatalog"},
        "is missing the class software.amazon.s3tables.iceberg.S3TablesCatalog,.*spec.spark.image",
    ),
    "files that are not in the image": (
        {"type": "hive", "uri": "thrift://127.0.0.1:1", "io-impl": "org.example.FileIO"},
        "is missing the class org.example.FileIO,.*io-impl",
    ),
    "a bundle that is not in the image": (
        {
            "type": "hive",
            "uri": "thrift://127.0.0.1:1",
            "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO",
        },
        "is missing the class com.google.api.client.util.Lists,.*docs/catalogs.md",
    ),
    "a file system that is not in the image": (
        {"type": "hadoop", "warehouse": "s3a://lake/warehouse"},
        "is missing the class org.apache.hadoop.fs.s3a.S3AFileSystem,.*warehouse",
    ),
    "a database without a driver": (
        {"type": "jdbc", "uri": "jdbc:mysql://db/x?password=swordfish", "warehouse": "/w"},
        "is missing a JDBC driver for the uri",
    ),
}
"""Common mistakes and the message that the status shows: reason CatalogInvalid."""

CONSTANTS = [
    f"org.apache.iceberg.{item}"
    for item in (
        "CatalogProperties",
        "CatalogUtil",
        "aws.AwsClientProperties",
        "aws.AwsProperties",
        "jdbc.JdbcUtil",
        "rest.auth.AuthManagers",
        "rest.auth.OAuth2Properties",
    )
] + ["org.projectnessie.client.NessieConfigConstants"]
HEADER, DRIVER = "header.", "jdbc."


class Probed(NamedTuple):
    """The results of all cases."""

    answer: dict[str, Any]
    services: dict[str, CatalogService]

    def read_error(self, label: str) -> tuple[str, str]:
        """Return the class and the message of a case's error."""
        error = self.answer["errors"][label]
        return error["kind"], error["message"]


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Probed]:
    """Load all cases in one Spark."""
    folder = tmp_path_factory.mktemp("catalogs")
    with ExitStack() as stack:
        services = {
            label: stack.enter_context(catalog_service.serve())
            for label in [*ASKED, "denied", "vending"]
        }
        services["denied"].denied = services["vending"].vends = True
        authority = Authority.make(folder / "authority")
        tls = authority.issue("server", names=["IP:127.0.0.1"]).make_server_context()
        services["private"] = stack.enter_context(catalog_service.serve(tls))
        services["private"].vends = True
        port = HeldPort()
        stack.callback(port.release)
        here = {
            label: {
                "name": item.name,
                "properties": item.localize(
                    services[label].url if label in services else "", port.address, folder
                ),
            }
            for label, item in EXAMPLES.items()
        }
        others = {
            label: {
                "name": "lake",
                "properties": EXAMPLES[like].localize(services[label].url, port.address, folder),
            }
            for label, like in (("denied", "glue"), ("vending", "rest"))
        }
        private = EXAMPLES["rest"].localize(services["private"].url, port.address, folder)
        trusting = {**private, authorities.PROPERTY: authority.ca.read_text(encoding="utf-8")}
        # Before all others, as a run trusts them before it opens any, and in this order: the JVM
        # trusts until its end what it was given.
        first = {
            "untrusted": {"name": "lake", "properties": private},
            "private": {"name": "lake", "properties": trusting},
        }
        wrong = {
            label: {"name": "lake", "properties": properties}
            for label, (properties, _) in WRONG.items()
        }
        catalogs = {**first, **here, **others, **wrong}
        question = {"catalogs": catalogs, "table": TABLE_NAME, "constants": CONSTANTS}
        yield Probed(probe(question, folder), services)


def test_every_example_stands_in_a_table() -> None:
    assert set(EXAMPLES) == ASKED.keys() | WITHOUT_SERVICE


@pytest.mark.parametrize("label", sorted(ASKED))
def test_the_service_of_an_example_is_asked_for_the_table(label: str, after: Probed) -> None:
    assert after.services[label].asked == list(ASKED[label])


@pytest.mark.parametrize("label", sorted(EXAMPLES))
def test_an_example_comes_as_far_as_it_can_without_its_service(label: str, after: Probed) -> None:
    kind, text = ENDS.get(label, ("TableNotFound", "the catalog has no such table"))
    error, message = after.read_error(label)
    assert error == kind, message
    assert re.search(text, message), message


@pytest.mark.parametrize("label", sorted(WRONG))
def test_what_is_wrong_in_the_properties_is_said_with_what_to_do(label: str, after: Probed) -> None:
    kind, message = after.read_error(label)
    assert kind == "CatalogInvalid", message
    assert re.search(WRONG[label][1], message), message
    assert "swordfish" not in message


def test_keys_that_aws_does_not_know_are_refused_credentials(after: Probed) -> None:
    assert after.read_error("denied")[0] == "Unauthorized"


def test_every_property_of_the_page_is_one_that_iceberg_or_the_driver_knows(after: Probed) -> None:
    names = {text.removeprefix("nessie.") for text in after.answer["constants"]}
    driver = {f"{DRIVER}{text}" for text in after.answer["postgres"]}
    for label, example in EXAMPLES.items():
        unknown = {
            key
            for key in example.properties
            # A header is Iceberg's to send whatever its name: see the test of what arrives.
            if key not in names | driver and not key.startswith(HEADER)
        }
        assert unknown == set(), label


@pytest.mark.parametrize("label", ["rest", "polaris", "unity"])
def test_a_secret_is_exchanged_for_the_token_that_is_used_from_then_on(
    label: str, after: Probed
) -> None:
    first, *others = after.services[label].all
    scope = EXAMPLES[label].properties["scope"].replace(":", "%3A")
    assert first.body == (
        "grant_type=client_credentials&client_id=client-id&client_secret=client-secret"
        f"&scope={scope}"
    )
    assert {item.headers["authorization"] for item in others} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("label", ["rest", "polaris", "unity", "nessie"])
def test_vended_credentials_are_asked_for_with_the_table(label: str, after: Probed) -> None:
    asked = after.services[label].all[-1].headers
    assert asked["x-iceberg-access-delegation"] == "vended-credentials"


def test_files_are_asked_for_with_the_credentials_that_a_catalog_vends(after: Probed) -> None:
    asked = after.services["vending"].all[-1]
    assert asked.what.endswith(f" {MANIFESTS}")
    assert f"Credential={VENDED}/" in asked.headers["authorization"]
    assert after.read_error("vending")[0] == "DataFileMissing"


def test_an_authority_of_the_catalog_is_trusted_for_it_its_tokens_and_its_files(
    after: Probed,
) -> None:
    error, message = after.read_error("untrusted")
    assert error == "Unauthorized", message
    assert "catalog.tls.caFrom names a Secret" in message
    assert "unable to find valid certification path" in message
    asked = [what.partition(" ")[2] for what in after.services["private"].asked]
    assert len(asked) == 4, asked
    assert "/oauth/tokens" in asked[0]
    assert asked[-1] == MANIFESTS
    assert after.read_error("private")[0] == "DataFileMissing"
    assert after.answer["errors"]["private"]["authority"].startswith("-----BEGIN CERTIFICATE")
    # The usual authorities stay, of which no server is here.
    assert after.answer["trusted"] > 2


@pytest.mark.parametrize(
    ("label", "scope"),
    [
        ("s3tables", "eu-west-1/s3tables"),
        ("glue", "eu-west-1/glue"),
        ("dynamodb", "eu-west-1/dynamodb"),
    ],
)
def test_requests_to_aws_are_signed_for_region_and_service(
    label: str, scope: str, after: Probed
) -> None:
    signed = {item.headers["authorization"] for item in after.services[label].all}
    assert all(f"/{scope}/aws4_request" in item for item in signed)


def test_the_token_of_a_secret_goes_to_nessie(after: Probed) -> None:
    assert after.services["nessie-api"].all[-1].headers["authorization"] == "Bearer change-me"
