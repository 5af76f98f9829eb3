"""`sink.opensearch.pipeline`: what can be refused without the cluster."""

from typing import Any

import pytest

from icdc_api.crd.loading import parse_pipeline
from icdc_api.errors import BadSpec
from icdc_testing.kube.stored_pipelines import make_minimal

pytestmark = pytest.mark.unit


def make_resource(pipeline: dict[str, Any]) -> dict[str, Any]:
    """Return a pipeline whose documents go through an ingest pipeline."""
    one = make_minimal()
    one["spec"]["sink"]["opensearch"]["pipeline"] = pipeline
    return one


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ({"name": "_none"}, "name: '_none' is not allowed: it must be the name of an ingest "),
        ({"name": " x"}, "ingest pipeline, without blanks around it, and not _none"),
        ({"adds": {"a": {}}}, "name: missing; name the pipeline that adds these fields"),
        ({"name": "x", "adds": {"a.b": {}}}, "'a.b' is not allowed: it must be a top-level field"),
        ({"name": "x", "adds": {"_id": {}}}, "'_id' is not allowed: OpenSearch reserves the name"),
        ({"name": "x", "adds": {" ": {}}}, "' ' is not allowed: a name, and each part of it"),
        ({"name": "x", "adds": {"a": 1}}, "1 is not allowed: it must be a mapping"),
        ({"name": "x", "add": {}}, "add: unknown field; did you mean adds?"),
    ],
)
def test_a_pipeline_that_makes_no_sense_is_refused_with_its_field(
    pipeline: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadSpec) as caught:
        parse_pipeline(make_resource(pipeline), source="x")
    line = caught.value.message
    assert line.startswith("x: spec.sink.opensearch.pipeline"), line
    assert words in line


def test_an_empty_name_is_no_pipeline() -> None:
    parsed = parse_pipeline(make_resource({"name": "", "adds": {}}), source="x")
    assert parsed.spec.sink.opensearch.ingest_pipeline is None
    named = parse_pipeline(make_resource({"name": "x"}), source="x").spec.sink.opensearch
    assert named.ingest_pipeline is not None
