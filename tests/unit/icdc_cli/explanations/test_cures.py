"""A cure can be typed: its commands parse, and the fields that it names exist."""

import json
import re
import shlex
from functools import cache
from typing import Any

import pytest
import yaml

from icdc_api import naming
from icdc_api.crd import generator
from icdc_cli.explanations import lookup
from icdc_cli.explanations.entry import PLACEHOLDERS
from icdc_cli.main import build_parser
from icdc_testing.kube.charts.files import OPERATOR

pytestmark = pytest.mark.unit

CURES = sorted({command for entry in lookup.list_all() for command in entry.cure})
CLUSTER_WIDE = (
    "crd",
    "validatingwebhookconfigurations,validatingadmissionpolicies",
    "validatingwebhookconfigurations,mutatingwebhookconfigurations",
)


def parse_words(command: str) -> list[str]:
    return shlex.split(command, comments=True)


@cache
def load_schema() -> dict[str, Any]:
    crd = yaml.safe_load(generator.render())
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def find_field(path: str) -> dict[str, Any] | None:
    """Return the schema of a field such as `spec.tables[].index`; None if there is none."""
    schema: dict[str, Any] | None = load_schema()
    for name in path.split("."):
        schema = (schema or {}).get("properties", {}).get(name.removesuffix("[]"))
        if schema is not None and name.endswith("[]"):
            schema = schema["items"]
    return schema


@pytest.mark.parametrize("command", [one for one in CURES if one.startswith("icdc ")])
def test_a_command_of_icdc_parses(command: str) -> None:
    assert build_parser().parse_args(parse_words(command)[1:]).command


@pytest.mark.parametrize("command", [one for one in CURES if one.startswith("helm ")])
def test_a_command_of_helm_sets_a_value_that_the_chart_has(command: str) -> None:
    words = parse_words(command)
    path, _, _ = words[words.index("--set") + 1].partition("=")
    value = yaml.safe_load((OPERATOR / "values.yaml").read_text(encoding="utf-8"))
    for key in path.split("."):
        assert key in value
        value = value[key]


@pytest.mark.parametrize(
    "command", [one for one in CURES if not one.startswith(("icdc ", "helm "))]
)
def test_any_other_command_is_one_of_kubectl_or_curl_and_names_its_namespace(command: str) -> None:
    program, verb, *rest = parse_words(command)
    assert program in ("kubectl", "curl")
    if program == "curl":
        assert "SEARCH/" in command
        return
    assert verb in ("annotate", "auth", "describe", "edit", "get", "logs", "patch")
    wide = "--all-namespaces" in rest or rest[0] in CLUSTER_WIDE
    assert wide or rest[rest.index("-n") + 1] in ("NAMESPACE", "OPERATOR")


@pytest.mark.parametrize("command", CURES)
def test_every_word_in_capitals_is_a_placeholder_that_the_page_explains(command: str) -> None:
    code = " ".join(parse_words(command))
    # N is a number, and the others are options and methods of curl.
    words = set(re.findall(r"\b[A-Z]+\b", code)) - {"N", "PUT", "POST", "DELETE", "X", "H"}
    assert words <= set(PLACEHOLDERS)


@pytest.mark.parametrize("command", [one for one in CURES if " -p '" in one or " -d '" in one])
def test_a_body_is_json_and_a_patch_names_fields_of_the_spec(command: str) -> None:
    words = parse_words(command)
    body = json.loads(words[words.index("-p" if "-p" in words else "-d") + 1])
    assert body
    for field in body.get("spec", {}):
        assert find_field(f"spec.{field}")


@pytest.mark.parametrize("command", [one for one in CURES if "  # spec." in one])
def test_a_field_that_a_cure_changes_is_in_the_crd(command: str) -> None:
    named = re.search(r"  # (spec\.[\w.\[\]]+): ", command)
    assert named
    assert find_field(named[1])


def test_a_label_and_a_short_name_in_cures_are_those_of_the_product() -> None:
    assert any(f"-l {naming.LABEL_PIPELINE}=NAME" in command for command in CURES)
    edited = [parse_words(command)[2] for command in CURES if command.startswith("kubectl edit")]
    assert set(edited) == {naming.SHORT_NAME, "secret"}
