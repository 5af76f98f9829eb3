"""The definition itself: taken by the server, named, explained and shown as the contract says."""

from collections.abc import Iterator

import pytest

from icdc_api import naming
from icdc_api.crd import generator
from icdc_api.crd.schema import find_node
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.stored_pipelines import Pipelines, make_condition, make_minimal

pytestmark = pytest.mark.api


def test_the_definition_is_accepted_and_established(kube: KubeApi) -> None:
    result = kube.kubectl.read_object("get", "crd", naming.CRD_NAME)
    conditions = {
        condition["type"]: condition["status"] for condition in result["status"]["conditions"]
    }
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert result["status"]["acceptedNames"] == generator.build_document()["spec"]["names"]


def test_the_server_keeps_the_definition_word_for_word(kube: KubeApi) -> None:
    result = kube.kubectl.read_object("get", "crd", naming.CRD_NAME)["spec"]
    assert result.pop("conversion") == {"strategy": "None"}
    assert result == generator.build_document()["spec"]


def test_applying_the_definition_again_changes_nothing(kube: KubeApi) -> None:
    def read_version() -> str:
        result = kube.kubectl.read_object("get", "crd", naming.CRD_NAME)["metadata"]
        return str(result["resourceVersion"])

    before = read_version()
    how = ("--server-side", "--field-manager=icdc-tests", "-f", str(generator.COMMITTED))
    kube.kubectl.run_ok("apply", *how)
    assert read_version() == before


@pytest.mark.parametrize(
    "resource",
    [naming.PLURAL, naming.SINGULAR, naming.SHORT_NAME, naming.CATEGORY, naming.CRD_NAME],
)
def test_pipelines_are_found_by_each_of_their_names(pipelines: Pipelines, resource: str) -> None:
    pipelines.apply(make_minimal("shop"))
    assert (
        pipelines.run_ok("get", resource, "-o", "name")
        == f"{naming.SINGULAR}.{naming.GROUP}/shop\n"
    )


@pytest.mark.parametrize(
    "path",
    [
        "spec",
        "spec.changelog",
        "spec.changelog.trigger",
        "spec.tables[].identifierColumns",
        "spec.resync.nonce",
        "status.conditions[].lastTransitionTime",
    ],
)
def test_kubectl_explains_a_field_in_our_words(kube: KubeApi, path: str) -> None:
    shown = kube.kubectl.run_ok("explain", f"{naming.SHORT_NAME}.{path.replace('[]', '')}")
    # kubectl wraps long descriptions.
    assert find_node(generator.build_root_schema(), path)["description"] in " ".join(shown.split())


STATUS = {
    "phase": "Streaming",
    "conditions": [
        make_condition("Ready", "True", message="All tables follow."),
        make_condition("Exported", "True"),
    ],
    "summary": {"tables": "1/1", "snapshotsBehind": 2, "lagSeconds": 7, "export": "1/4"},
    "currentRun": {"name": "shop-c4-1", "kind": "Changelog", "sequence": 4, "epoch": 9},
    "consecutiveFailures": 3,
}
SHOWN = {
    "NAME": "shop",
    "READY": "True",
    "PHASE": "Streaming",
    "TABLES": "1/1",
    "BEHIND": "2",
    "LAG": "7",
    "RUN": "shop-c4-1",
}
WIDE = {"EXPORTED": "True", "EXPORT": "1/4", "FAILURES": "3", "MESSAGE": "All tables follow."}


@pytest.mark.parametrize(("flags", "expected"), [([], SHOWN), (["-o", "wide"], SHOWN | WIDE)])
def test_kubectl_get_shows_the_columns(
    pipelines: Pipelines, flags: list[str], expected: dict[str, str]
) -> None:
    pipelines.apply(make_minimal("shop"))
    pipelines.patch_status(STATUS)
    head, row = pipelines.run_ok("get", "icdc", *flags).splitlines()
    names = head.split()
    cells = dict(zip(names, row.split(maxsplit=len(names) - 1), strict=True))
    assert cells.pop("AGE")
    assert {name: value.strip() for name, value in cells.items()} == expected


def test_a_new_pipeline_is_shown_without_a_status(pipelines: Pipelines) -> None:
    pipelines.apply(make_minimal("shop"))
    head, row = pipelines.run_ok("get", "icdc").splitlines()
    assert head.split() == [*SHOWN, "AGE"]
    assert row.split()[0] == "shop"


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("spec.suspend=true", ["idle"]),
        ("spec.suspend=false", ["once", "shop"]),
        ("spec.mode=ExportOnly", ["once"]),
        ("spec.mode!=ExportOnly", ["idle", "shop"]),
        ("spec.deletionPolicy=DeleteIndices", ["shop"]),
        ("status.phase=Streaming", ["shop"]),
        ("status.currentRun.name=shop-c4-1", ["shop"]),
        ("spec.suspend=false,spec.deletionPolicy=Retain", ["once"]),
    ],
)
def test_pipelines_are_selected_by_fields(
    three_pipelines: Pipelines, selector: str, selected: list[str]
) -> None:
    assert three_pipelines.list_names("--field-selector", selector) == selected


@pytest.fixture(scope="module")
def three_pipelines(kube: KubeApi) -> Iterator[Pipelines]:
    """Pipelines that differ in every field that can be selected; they are only read."""
    with kube.create_namespace() as name:
        pipelines = Pipelines(kube.kubectl, name)
        pipelines.apply(make_minimal("shop", deletionPolicy="DeleteIndices"))
        pipelines.patch_status(STATUS)
        pipelines.apply(make_minimal("idle", suspend=True))
        pipelines.apply(make_minimal("once", mode="ExportOnly"))
        yield pipelines


def test_a_field_that_is_not_selectable_is_refused(pipelines: Pipelines) -> None:
    ran = pipelines.run("get", "icdc", "--field-selector", "spec.restartNonce=0")
    assert ran.code != 0
    assert "field label not supported: spec.restartNonce" in ran.err
