from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from icdc_api.base import ApiModel
from icdc_api.crd.loading import load_resource
from icdc_api.spec.pipeline import Metadata, Pipeline, PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_testing.kube.stored_pipelines import load_pipeline

pytestmark = pytest.mark.unit

SAMPLES = Path(__file__).parents[3] / "crds" / "samples"
# Fields of the full sample that have no default: they are examples.
EXAMPLES = {
    "catalog",
    "tables",
    "sink.opensearch.hosts",
    "sink.opensearch.credentialsFrom",
    "sink.opensearch.tls.caFrom",
    "sink.opensearch.indexSettings",
    "spark.image",
    "spark.driver.template",
    "spark.executor.template",
    "spark.localVolumes",
    "spark.dynamicAllocation",
    "spark.conf",
    # Their defaults are not in the CRD, and so not in a spec: see `changelog`.
    "changelog.lingerSeconds",
    "changelog.rebuildAbove",
    "changelog.proveBeforeSwitch",
    "sink.opensearch.strings",
    "sink.opensearch.keepIndices",
    "sink.opensearch.pipeline",
    "verify",
    "sink.opensearch.limits",
}


def _flatten(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, item in value.items():
        path = prefix + name
        if path in EXAMPLES:
            continue
        if isinstance(item, dict):
            result |= _flatten(item, f"{path}.")
        else:
            result[path] = item
    return result


def test_the_defaults_are_those_that_the_full_sample_shows() -> None:
    shown = _flatten(load_resource(SAMPLES / "full.yaml", {})["spec"])
    defaults = _flatten(load_pipeline(SAMPLES / "minimal.yaml", {}).to_resource()["spec"])
    assert defaults == shown


def test_the_full_sample_sets_every_field_but_start_from() -> None:
    spec = load_pipeline(SAMPLES / "full.yaml", {}).spec
    unset = [
        name
        for name in _list_unset(spec)
        # Each is excluded by another field that the sample sets.
        if name not in {"tables[].startFrom", "tables[].fields", "spark.localVolumes[].ephemeral"}
        and name != "spark.localVolumes[].hostPath"
    ]
    assert unset == []


def _list_unset(model: BaseModel, prefix: str = "") -> list[str]:
    result: list[str] = []
    for name, field in type(model).model_fields.items():
        path = f"{prefix}{field.alias or name}"
        value = getattr(model, name)
        if value is None:
            result.append(path)
        elif isinstance(value, BaseModel):
            result += _list_unset(value, f"{path}.")
        elif isinstance(value, tuple):
            below = [item for item in value if isinstance(item, BaseModel)]
            result += [name for item in below for name in _list_unset(item, f"{path}[].")]
    return result


def _list_models(base: type[ApiModel]) -> list[type[ApiModel]]:
    return [model for child in base.__subclasses__() for model in (child, *_list_models(child))]


@pytest.mark.parametrize("model", _list_models(ApiModel), ids=lambda model: model.__name__)
def test_every_model_is_frozen_strict_and_described(model: type[ApiModel]) -> None:
    assert model.model_config["frozen"]
    assert model.model_config["extra"] == "forbid"
    described = {name for name, field in model.model_fields.items() if field.description}
    if model not in (Metadata, Pipeline):
        assert described == set(model.model_fields)


def test_every_field_with_a_default_that_matters_names_it() -> None:
    missing = [path for path, text in _list_texts(PipelineSpec) if "efault" not in text]
    # Required, or an object whose fields name theirs.
    assert set(missing) <= {
        "Catalog.name",
        "CatalogTls.caFrom",
        "Changelog",
        "HostPath.path",
        "EphemeralVolume.size",
        "LocalVolume.hostPath",
        "LocalVolume.ephemeral",
        "OpenSearch.hosts",
        "OpenSearch.tls",
        "OpenSearch.bulk",
        "OpenSearch.deadLetters",
        "PipelineSpec.catalog",
        "PipelineSpec.changelog",
        "PipelineSpec.history",
        "PipelineSpec.resync",
        "PipelineSpec.retry",
        "PipelineSpec.sink",
        "PipelineSpec.spark",
        "PipelineSpec.tables",
        "PipelineSpec.timeouts",
        "SecretRef.name",
        "SecretSource.secretRef",
        "Sink.opensearch",
        "Spark.driver",
        "Spark.executor",
        "StartFrom.position",
        "StartFrom.snapshotId",
        "StartFrom.timestamp",
        "Table.name",
    }


def _list_texts(model: type[BaseModel]) -> list[tuple[str, str]]:
    definitions = model.model_json_schema()["$defs"] | {model.__name__: model.model_json_schema()}
    return [
        (f"{name}.{field}", property_.get("description", ""))
        for name, definition in definitions.items()
        for field, property_ in definition.get("properties", {}).items()
    ]


def test_a_value_cannot_be_changed() -> None:
    status = PipelineStatus()
    with pytest.raises(ValidationError, match="frozen"):
        status.consecutive_failures = 1  # type: ignore[misc]


def test_python_names_are_for_python_only() -> None:
    assert PipelineStatus(consecutive_failures=2).to_resource()["consecutiveFailures"] == 2


def test_a_table_uses_its_own_catalog_and_else_the_shared_one() -> None:
    spec = load_pipeline(SAMPLES / "multi-table.yaml", {}).spec
    kinds = [spec.get_catalog(table).properties["type"] for table in spec.tables]
    assert kinds == ["rest", "rest", "hadoop"]
    assert [table.index_name for table in spec.tables] == ["orders", "customers", "web-shop.visits"]
