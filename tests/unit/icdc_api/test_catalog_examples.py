"""The examples of docs/catalogs.md by the models of a pipeline."""

import pytest

from icdc_api.spec.catalog import Catalog
from icdc_testing.lake.catalogs.page import Example, read_examples
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

EXAMPLES = read_examples()


def list_secrets(example: Example) -> list[str]:
    """Return the names of the Secrets that its catalog has."""
    catalog = Catalog.model_validate(example.catalog, by_alias=True, by_name=False)
    return [source.secret_ref.name for source in catalog.properties_from]


@pytest.mark.parametrize("label", sorted(EXAMPLES))
def test_an_example_is_a_catalog_with_the_secret_that_it_names(label: str) -> None:
    example = EXAMPLES[label]
    assert make_spec(catalog=example.catalog).catalog is not None
    assert list_secrets(example) == ([example.secret["metadata"]["name"]] if example.secret else [])


@pytest.mark.parametrize("label", sorted(EXAMPLES))
def test_what_is_secret_stands_in_no_pipeline(label: str) -> None:
    words = ("credential", "password", "token", "secret")
    keys = [key for key in EXAMPLES[label].catalog["properties"] if key.endswith(words)]
    assert keys == []
