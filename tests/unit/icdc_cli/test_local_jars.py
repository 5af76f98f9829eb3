"""Which pipelines of local runs need all the jars of the image: those of docs/catalogs.md do."""

import pytest

from icdc_api.spec.catalog import Catalog
from icdc_cli.local.application import leaves_the_host
from icdc_testing.lake.catalogs.page import read_examples

pytestmark = pytest.mark.unit

EXAMPLES = read_examples()
AT_HOME = {"sqlite", "hadoop"}


@pytest.mark.parametrize("label", sorted(EXAMPLES))
def test_libraries_of_aws_are_left_out_only_where_the_catalog_is_on_this_host(label: str) -> None:
    catalog = Catalog.model_validate(EXAMPLES[label].catalog, by_alias=True, by_name=False)
    assert leaves_the_host(catalog) == (label not in AT_HOME)


@pytest.mark.parametrize(
    "catalog",
    [
        {"properties": {"type": "hadoop", "warehouse": "s3a://lake"}},
        {"properties": {"type": "jdbc", "uri": "jdbc:sqlite:/c.db", "warehouse": "s3://lake"}},
        {"propertiesFrom": [{"secretRef": {"name": "lake"}}]},
    ],
)
def test_files_in_a_store_and_what_a_secret_may_hold_count_as_elsewhere(
    catalog: dict[str, object],
) -> None:
    parsed = Catalog.model_validate(catalog, by_alias=True, by_name=False)
    assert leaves_the_host(parsed)
