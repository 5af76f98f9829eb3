"""The examples of docs/catalogs.md as the operator itself looks at them, through pyiceberg."""

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icdc_api.errors import SourceUnavailable, TableNotFound
from icdc_operator.cluster.heads.catalog_properties import OutOfSight
from icdc_operator.cluster.heads.reader.branches import Heads
from icdc_testing.kube.server_process import HeldPort
from icdc_testing.lake.catalogs import service as catalog_service
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.lake.catalogs.page import ASKED, NAMESPACE, PAGE, TABLE, Example, read_examples
from icdc_testing.lake.catalogs.readers import ON_LOOPBACK, open_catalog
from icdc_testing.lake.catalogs.service import CatalogService

pytestmark = pytest.mark.unit

EXAMPLES = read_examples()
ON_AWS = dataclasses.replace(ON_LOOPBACK, use_cloud_role=True)
SERVED = sorted(ASKED.keys() - {"nessie-api"})
UNSERVED = {"hive": "TTransportException", "jdbc": "OperationalError", "sqlite": "OperationalError"}
OUT_OF_SIGHT = ("hadoop", "nessie-api")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogService]:
    with catalog_service.serve() as running:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOFTHETEST")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
        # Java has a property for it, pyiceberg leaves it to the library of AWS.
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", running.url)
        yield running


@pytest.fixture
def closed() -> Iterator[str]:
    port = HeldPort()
    yield port.address
    port.release()


def read_heads(example: Example, service: str, closed: str, folder: Path) -> Heads:
    """Return the head of the table, or why it could not be read."""
    properties = example.localize(service, closed, folder)
    properties.pop("dynamodb.endpoint", None)
    catalog = open_catalog(properties, example.name, settings=ON_AWS)
    try:
        return catalog.read_heads((NAMESPACE, TABLE))
    finally:
        catalog.close()


def test_every_example_stands_in_a_table() -> None:
    assert sorted([*SERVED, *UNSERVED, *OUT_OF_SIGHT]) == sorted(EXAMPLES)


@pytest.mark.parametrize("label", SERVED)
def test_the_service_of_an_example_is_asked_for_the_table(
    label: str, service: CatalogService, tmp_path: Path
) -> None:
    with pytest.raises(TableNotFound):
        read_heads(EXAMPLES[label], service.url, "", tmp_path)
    # That the table of DynamoDB is there is no concern of who only reads.
    wanted = [request for request in ASKED[label] if "DescribeTable" not in request]
    # pyiceberg asks for a token twice.
    assert list(dict.fromkeys(service.asked)) == wanted


@pytest.mark.parametrize("label", sorted(UNSERVED))
def test_a_service_that_does_not_answer_is_a_passing_fault(
    label: str, closed: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceUnavailable, match=UNSERVED[label]):
        read_heads(EXAMPLES[label], "", closed, tmp_path)


@pytest.mark.parametrize("label", OUT_OF_SIGHT)
def test_the_page_says_which_catalogs_only_a_run_can_look_at(label: str, tmp_path: Path) -> None:
    with pytest.raises(OutOfSight, match="pyiceberg cannot read catalogs of this type"):
        read_heads(EXAMPLES[label], "http://127.0.0.1:1", "127.0.0.1:1", tmp_path)
    by_runs = re.findall(r"^\|(.*)\|.*\| by runs \|$", PAGE.read_text(encoding="utf-8"), re.M)
    assert any("Hadoop" in line and "Nessie's own API" in line for line in by_runs)


def build_metadata_location(lake: HeadLake) -> str:
    return f"file://{lake.find_metadata_file()}"


def point_in_dynamodb(service: CatalogService, location: str) -> None:
    # As Iceberg's Java library writes it.
    service.item = {
        "identifier": {"S": f"{NAMESPACE}.{TABLE}"},
        "namespace": {"S": NAMESPACE},
        "v": {"S": "1"},
        "created_at": {"N": "1772366400000"},
        "updated_at": {"N": "1772366400000"},
        "p.table_type": {"S": "ICEBERG"},
        "p.metadata_location": {"S": location},
    }


def point_in_glue(service: CatalogService, location: str) -> None:
    parameters = {"table_type": "ICEBERG", "metadata_location": location}
    service.glue = {"DatabaseName": NAMESPACE, "Name": TABLE, "Parameters": parameters}


@pytest.mark.parametrize(
    ("label", "point"), [("dynamodb", point_in_dynamodb), ("glue", point_in_glue)]
)
def test_a_pointer_leads_to_a_snapshot_and_its_file_is_read_once(
    label: str,
    point: Callable[[CatalogService, str], None],
    service: CatalogService,
    tmp_path: Path,
) -> None:
    lake = HeadLake(tmp_path)
    lake.create()
    first = lake.commit()
    properties = EXAMPLES[label].localize(service.url, "", tmp_path)
    properties.pop("dynamodb.endpoint", None)
    catalog = open_catalog(properties, EXAMPLES[label].name, settings=ON_AWS)
    point(service, build_metadata_location(lake))
    assert catalog.read_heads((NAMESPACE, TABLE)) == {"main": int(first)}
    lake.find_metadata_file().unlink()
    assert catalog.read_heads((NAMESPACE, TABLE)) == {"main": int(first)}
    lake.drop()
    lake.create()
    second = lake.commit()
    point(service, build_metadata_location(lake))
    assert catalog.read_heads((NAMESPACE, TABLE)) == {"main": int(second)}
    catalog.close()
    lake.close()
