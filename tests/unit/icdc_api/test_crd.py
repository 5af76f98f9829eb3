"""Rules of structural schemas that need no API server; the API server's own checks run apart."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api import errors
from icdc_api.base import MAX_COUNT
from icdc_api.crd import generator
from icdc_api.crd.cel import RULES, CelRule
from icdc_api.crd.schema import find_node
from icdc_api.spec import changelog, pipeline, sink, tables
from icdc_api.status import conditions, pipeline_status, runs
from icdc_api.status.pipeline_status import UNOBSERVED

pytestmark = pytest.mark.unit

ROOT = generator.build_root_schema()
OPEN = {
    "spec.sink.opensearch.indexSettings",
    "spec.sink.opensearch.pipeline.adds{}",
    "spec.spark.driver.template",
    "spec.spark.executor.template",
    "spec.tables[].mapping{}",
}
OF_TWO_KINDS = "spec.tables[].fields[]"
"""A text or an object, for which a structural schema has no form: no type, and no bounds. The model
has them, and `spec.limits` those of the whole."""
ALLOWED_KEYWORDS = {
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}
Node = dict[str, Any]


def _walk_nodes(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    yield path, node
    for name, property_ in node.get("properties", {}).items():
        yield from _walk_nodes(property_, f"{path}.{name}" if path else name)
    if "items" in node:
        yield from _walk_nodes(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from _walk_nodes(node["additionalProperties"], f"{path}{{}}")


NODES = dict(_walk_nodes(ROOT))
WITH_TYPE = {path: node for path, node in NODES.items() if path != OF_TWO_KINDS}
FIELDS = {path: node for path, node in NODES.items() if path and path[-1] not in "]}"}


def test_the_committed_file_is_what_the_models_give() -> None:
    assert generator.main(["--check"]) == 0
    assert generator.COMMITTED.read_text(encoding="utf-8") == generator.render()


def test_the_file_is_small_enough_for_an_annotation_of_kubectl_apply() -> None:
    assert len(generator.render().encode()) < 100_000


def test_the_file_is_yaml_of_the_document_without_anchors() -> None:
    text = generator.render()
    assert yaml.safe_load(text) == generator.build_document()
    assert not re.search(r"^\s*(- )?[&*]id\d", text, re.MULTILINE)


def test_a_file_that_differs_is_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "crd.yaml"
    assert generator.main(["--check", str(path)]) == 1
    assert "run `make crds`" in capsys.readouterr().err
    assert generator.main(["--write", str(path)]) == 0
    assert generator.main(["--check", str(path)]) == 0
    assert generator.main([]) == 0
    assert capsys.readouterr().out == path.read_text(encoding="utf-8")


def test_names_are_those_of_the_contract() -> None:
    names = generator.build_document()["spec"]["names"]
    assert generator.build_document()["metadata"]["name"] == "icebergcdcpipelines.icebergcdc.dev"
    assert names["shortNames"] == ["icdc"]
    assert names["categories"] == ["iceberg"]
    assert generator.build_document()["spec"]["versions"][0]["subresources"] == {"status": {}}


def test_columns_are_those_of_the_contract() -> None:
    columns = generator.build_document()["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column["name"] for column in columns if "priority" not in column]
    wide = [column["name"] for column in columns if "priority" in column]
    assert shown == ["Ready", "Phase", "Tables", "Behind", "Lag", "Run", "Age"]
    assert wide == ["Exported", "Export", "Failures", "Message"]


def _list_json_paths() -> list[str]:
    version = generator.build_document()["spec"]["versions"][0]
    every = version["additionalPrinterColumns"] + version["selectableFields"]
    return sorted({column["jsonPath"] for column in every} - {".metadata.creationTimestamp"})


@pytest.mark.parametrize("path", _list_json_paths())
def test_columns_and_selectors_point_to_fields(path: str) -> None:
    plain = re.sub(r"\[\?\(@\.type==\"(\w+)\"\)\]", "[]", path).removeprefix(".")
    assert find_node(ROOT, plain)["type"] in {"string", "integer", "boolean"}
    for kind in re.findall(r"@\.type==\"(\w+)\"", path):
        assert kind in set(conditions.ConditionType)


def test_every_node_is_structural() -> None:
    assert NODES[OF_TWO_KINDS] == {"x-kubernetes-preserve-unknown-fields": True}
    for path, node in WITH_TYPE.items():
        assert node["type"] in {"object", "array", "string", "integer", "number", "boolean"}, path
        assert set(node) <= ALLOWED_KEYWORDS, path
        assert not {"properties", "additionalProperties"} <= set(node), path
        assert (node["type"] == "array") == ("items" in node), path


def test_every_field_has_a_description() -> None:
    for path in FIELDS.keys() - {"metadata"}:
        text = FIELDS[path].get("description", "")
        assert text.endswith("."), path
        assert "\n" not in text, path


def test_every_node_is_bounded() -> None:
    unbounded = [path for path, node in WITH_TYPE.items() if not _is_bounded(node)]
    # Kubernetes bounds metadata itself.
    assert unbounded == ["metadata"]


def _is_bounded(node: Node) -> bool:
    match node["type"]:
        case "string":
            return "maxLength" in node or "enum" in node
        case "array":
            return "maxItems" in node
        case "object":
            return "properties" in node or "maxProperties" in node
        case "integer":
            # The API server reads bounds as doubles: greater ones overflow there.
            bounds: tuple[int, int] = node["minimum"], node.get("maximum", 0)
            return max(map(abs, bounds)) <= MAX_COUNT
    return True


def test_only_what_others_define_is_without_a_schema() -> None:
    keyword = "x-kubernetes-preserve-unknown-fields"
    assert {path for path, node in NODES.items() if keyword in node} == {*OPEN, OF_TWO_KINDS}


@pytest.mark.parametrize("path", [path for path in NODES if "default" in NODES[path]])
def test_a_default_fits_its_schema(path: str) -> None:
    # Of a status only that nobody has written one yet.
    assert path.startswith("spec") or (path, NODES[path]["default"]) == (
        "status",
        {"observedGeneration": UNOBSERVED},
    )
    _check(NODES[path]["default"], NODES[path])


def _check(value: Any, node: Node) -> None:
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    assert type(value) is kinds[node["type"]]
    if isinstance(value, dict):
        assert set(node.get("required", ())) <= set(value) <= set(node["properties"])
        for name, item in value.items():
            _check(item, node["properties"][name])
    elif isinstance(value, str):
        assert value in node.get("enum", [value])
        assert re.search(node.get("pattern", ""), value)
    elif isinstance(value, int) and not isinstance(value, bool):
        assert node["minimum"] <= value <= node.get("maximum", value)


def test_a_default_of_an_object_is_that_of_its_fields() -> None:
    for path, node in NODES.items():
        if path != "status" and isinstance(node.get("default"), dict):
            below = {
                name: property_["default"]
                for name, property_ in node["properties"].items()
                if "default" in property_
            }
            assert node["default"] == below, path


@pytest.mark.parametrize(
    ("path", "enum"),
    [
        ("spec.mode", pipeline.Mode),
        ("spec.changelog.trigger", changelog.Trigger),
        ("spec.changelog.onGap", changelog.OnProblem),
        ("spec.changelog.onIncompatibleSchema", changelog.OnProblem),
        ("spec.changelog.proveBeforeSwitch", changelog.SwitchProof),
        ("spec.changelog.pinSnapshots", changelog.PinSnapshots),
        ("spec.deletionPolicy", pipeline.DeletionPolicy),
        ("spec.resync.mode", runs.ResyncMode),
        ("spec.sink.opensearch.deadLetters.policy", sink.DeadLetterPolicy),
        ("spec.sink.opensearch.strings", sink.Strings),
        ("spec.tables[].strings", sink.Strings),
        ("spec.tables[].startFrom.position", tables.Position),
        ("status.phase", pipeline_status.Phase),
        ("status.mode", runs.RunKind),
        ("status.conditions[].type", conditions.ConditionType),
        ("status.conditions[].status", conditions.ConditionStatus),
        ("status.tables[].state", pipeline_status.TableState),
        ("status.tables[].reason", pipeline_status.TableReason),
        ("status.lastRun.state", runs.RunState),
        ("status.lastRun.kind", runs.RunKind),
        ("status.lastRun.failure.class", errors.FailureClass),
        ("status.lastRun.failure.whoActs", errors.WhoActs),
    ],
)
def test_an_enum_is_that_of_python(path: str, enum: type[StrEnum]) -> None:
    assert find_node(ROOT, path)["enum"] == [member.value for member in enum]


def test_every_enum_of_the_spec_names_its_values_in_the_description() -> None:
    for path, node in NODES.items():
        if path.startswith("spec") and "enum" in node:
            assert all(value in node["description"] for value in node["enum"]), path


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.path)
def test_a_rule_has_a_message_that_names_its_field(rule: CelRule) -> None:
    node = find_node(ROOT, rule.path)
    assert {"rule": rule.rule, "message": rule.message} in node["x-kubernetes-validations"]
    field = re.match(r"[\w.\[\]]+", rule.message)
    assert field is not None
    assert field.group().startswith(rule.path)
    if rule.path:
        assert find_node(ROOT, field.group().rstrip("."))
