"""The examples of docs/catalogs.md on a real server: pipelines with their Secrets."""

import json

import pytest

from icdc_api.crd.loading import parse_pipeline
from icdc_testing.kube.stored_pipelines import Pipelines, make_minimal
from icdc_testing.lake.catalogs.page import read_examples

pytestmark = pytest.mark.api


def test_every_example_is_stored_as_it_stands_in_the_page(pipelines: Pipelines) -> None:
    result = read_examples()
    objects = [
        make_minimal(label, catalog=example.catalog) for label, example in result.items()
    ] + [example.secret for example in result.values() if example.secret]
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    pipelines.run_ok("apply", "--validate=strict", "-f", "-", stdin=json.dumps(listed))
    for label, example in result.items():
        stored = pipelines.get(label)
        assert stored["spec"]["catalog"] == {"name": "lake", **example.catalog}
        assert parse_pipeline(stored, source="the server").spec.catalog is not None
