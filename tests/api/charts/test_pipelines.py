"""What the pipelines chart makes of defaults and of what is special of a pipeline."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api import naming
from icdc_testing.kube.charts import files
from icdc_testing.kube.charts.files import PIPELINES
from icdc_testing.kube.charts.helm import Helm, Object
from icdc_testing.kube.stored_pipelines import SAMPLES, load_sample

pytestmark = pytest.mark.api

SINK = {"opensearch": {"hosts": ["http://search"]}}
TABLES = [{"name": "shop.orders"}]
LEAST = {"sink": SINK, "tables": TABLES}
CHOSEN_BY_CLUSTER = {"spec": {"securityContext": {"runAsUser": None, "fsGroup": None}}}


def render(helm: Helm, values: dict[str, Any]) -> list[Object]:
    return helm.render(PIPELINES, values, "lake", "shops")


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    """The chart with its notes as a manifest: of these Helm 3 shows none without a cluster."""
    chart = shutil.copytree(PIPELINES, tmp_path / PIPELINES.name)
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    manifest = 'notes: |\n  {{- tpl (.Files.Get "notes.txt") . | nindent 2 }}\n'
    (chart / "templates" / "notes.yaml").write_text(manifest, encoding="utf-8")
    return chart


def show_notes(helm: Helm, chart: Path, values: dict[str, Any], *more: str) -> str:
    """Return what an installation prints."""
    only = ("--namespace", "shops", "--show-only", "templates/notes.yaml")
    return helm.run_ok("template", "lake", str(chart), *only, *more, values=values)


@pytest.mark.parametrize(
    ("defaults", "special", "spec"),
    [
        ({"suspend": True}, {"suspend": False}, {"suspend": False}),
        ({"retry": {"maxAttempts": 3}}, {"retry": {"maxSeconds": 60}}, None),
        (
            {"timeouts": {"runSeconds": 60}},
            {"timeouts": {"runSeconds": 0}},
            {"timeouts": {"runSeconds": 0}},
        ),
        (
            {"tables": [{"name": "a.a"}, {"name": "a.b"}]},
            {"tables": [{"name": "b.a"}]},
            {"tables": [{"name": "b.a"}]},
        ),
        (
            {"spark": {"conf": {"a": "1", "b": "2"}, "executor": {"instances": 2}}},
            {"spark": {"conf": {"a": None, "c": "3"}}},
            {"spark": {"conf": {"b": "2", "c": "3"}, "executor": {"instances": 2}}},
        ),
        ({"spark": {"image": "a"}}, {"spark": None}, {}),
        ({}, {"spark": {"conf": {"a": None}}}, {"spark": {"conf": {}}}),
        # In a pod template null is a value: the cluster chooses it.
        (
            {"spark": {"driver": {"template": CHOSEN_BY_CLUSTER}}},
            {"spark": {"executor": {"template": CHOSEN_BY_CLUSTER}}},
            {
                "spark": {
                    "driver": {"template": CHOSEN_BY_CLUSTER},
                    "executor": {"template": CHOSEN_BY_CLUSTER},
                }
            },
        ),
        (
            {"spark": {"driver": {"template": {"spec": {"securityContext": {"runAsUser": 7}}}}}},
            {"spark": {"driver": {"template": CHOSEN_BY_CLUSTER, "cores": None}}},
            {"spark": {"driver": {"template": CHOSEN_BY_CLUSTER}}},
        ),
        (
            {"spark": {"driver": {"template": CHOSEN_BY_CLUSTER}}},
            {"spark": {"driver": {"template": None}}},
            {"spark": {"driver": {}}},
        ),
        (
            {"sink": {"opensearch": {"bulk": {"maxBytes": 16777216}}}},
            {},
            {"sink": {"opensearch": {**SINK["opensearch"], "bulk": {"maxBytes": 16777216}}}},
        ),
        (
            {},
            {"tables": [{"name": "a.b", "startFrom": {"snapshotId": "8130123456789012345"}}]},
            {"tables": [{"name": "a.b", "startFrom": {"snapshotId": 8130123456789012345}}]},
        ),
    ],
)
def test_a_pipeline_is_laid_over_the_defaults(
    defaults: dict[str, Any], special: dict[str, Any], spec: dict[str, Any] | None, helm: Helm
) -> None:
    sink = {"opensearch": {**SINK["opensearch"], **defaults.get("sink", {}).get("opensearch", {})}}
    values = {
        "defaults": {"tables": TABLES, **defaults, "sink": sink},
        "pipelines": {"shop": special},
    }
    (made,) = render(helm, values)
    wanted = {"retry": {"maxAttempts": 3, "maxSeconds": 60}} if spec is None else spec
    assert made["spec"] == {"tables": TABLES, "sink": SINK, **wanted}


def test_one_pipeline_does_not_change_what_another_one_gets(helm: Helm) -> None:
    special = {"a": {"spark": {"conf": {"only.a": "1"}}}, "b": {}}
    values = {"defaults": {**LEAST, "spark": {"conf": {"both": "1"}}}, "pipelines": special}
    first, second = render(helm, values)
    assert first["spec"]["spark"]["conf"] == {"both": "1", "only.a": "1"}
    assert second["spec"]["spark"]["conf"] == {"both": "1"}


def test_every_value_is_in_the_pipelines(helm: Helm) -> None:
    own = {"namespace": "other", "labels": {"team": "data"}, "annotations": {"a": "b"}}
    specs = {"defaults": LEAST, "pipelines": {"shop": {}}}
    assert {*own, *specs} == set(files.read_values(PIPELINES))
    (plain,) = render(helm, specs)
    (made,) = render(helm, {**own, **specs})
    assert (made["apiVersion"], made["kind"]) == (naming.API_VERSION, naming.KIND)
    assert plain["metadata"]["namespace"] == "shops"
    assert made["metadata"]["namespace"] == "other"
    assert made["metadata"]["labels"] == {**plain["metadata"]["labels"], "team": "data"}
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert "annotations" not in plain["metadata"]


def test_names_that_are_something_else_in_yaml_are_names(helm: Helm) -> None:
    names = ["no", "null", "on", "true", "y"]
    made = render(helm, {"defaults": LEAST, "pipelines": {name: {} for name in names}})
    assert [item["metadata"]["name"] for item in made] == names


@pytest.mark.parametrize(
    "values", [{}, {"pipelines": None, "defaults": None}, {"pipelines": {"shop": None}}], ids=str
)
def test_no_pipelines_make_nothing(values: dict[str, Any], helm: Helm, noted: Path) -> None:
    assert render(helm, values) == []
    assert "There are no pipelines yet" in show_notes(helm, noted, values)


def test_null_in_a_later_file_removes_a_pipeline(helm: Helm, noted: Path, tmp_path: Path) -> None:
    (earlier := tmp_path / "earlier.yaml").write_text(
        json.dumps({"defaults": LEAST, "pipelines": {"shop": {}, "web": {"suspend": True}}})
    )
    later = {"pipelines": {"web": None}}
    chart = (str(PIPELINES), "--values", str(earlier))
    text = helm.run_ok("template", "lake", *chart, values=later)
    assert [item["metadata"]["name"] for item in yaml.safe_load_all(text)] == ["shop"]
    assert "Pipelines in shops: shop." in show_notes(helm, noted, later, "--values", str(earlier))


def test_defaults_that_are_left_empty_are_none(helm: Helm) -> None:
    (made,) = render(helm, {"defaults": None, "pipelines": {"shop": LEAST}})
    assert made["spec"] == LEAST


def test_every_sample_passes_through_the_chart_unchanged(helm: Helm) -> None:
    samples = {path.stem: load_sample(path.stem)["spec"] for path in SAMPLES.glob("*.yaml")}
    made = render(helm, {"pipelines": samples})
    assert {item["metadata"]["name"]: item["spec"] for item in made} == samples
