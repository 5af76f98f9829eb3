"""The request in its ConfigMap is what the application reads."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icdc_api.base import MAX_TABLES
from icdc_api.crd import loading
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import Reexport, RunRequest
from icdc_api.json_size import measure_stored
from icdc_api.spec.limits import MAX_SPEC_BYTES
from icdc_api.status.runs import RunKind
from icdc_api.status.triggers import MAX_ASK_BYTES, Ask
from icdc_operator.manifests.config_map import UNREAD, build_config_map, build_request
from icdc_operator.manifests.launch import Launch
from icdc_testing.operator.deciding.worst_cases import make_many_tables

pytestmark = pytest.mark.unit
LoadLaunch = Callable[[Path], tuple[Launch, dict[str, Any]]]
FULL = Path(__file__).parent / "pipelines" / "full.yaml"


def test_the_application_reads_the_request_that_was_made(
    launch_of: LoadLaunch, tmp_path: Path
) -> None:
    launch, resource = launch_of(FULL)
    request = build_request(replace(launch, continuous=True), resource)
    mounted = tmp_path / "request.json"
    mounted.write_text(build_config_map(launch, request)["data"]["request.json"])
    read = RunRequest.read(mounted)
    assert read == request
    spec = loading.parse_pipeline(read.pipeline, source="request").spec
    unread = {name: getattr(launch.spec, name) for name in UNREAD}
    assert spec.model_copy(update=unread) == launch.spec
    assert (read.owner, read.epoch, read.run_id) == (
        "retail/shop",
        1772366400000,
        "shop-e12-3.1772366400000",
    )
    assert (read.continuous, read.poll_seconds, read.end_with_stdin) == (True, 30, False)


def test_no_variable_is_replaced_in_a_cluster(launch_of: LoadLaunch) -> None:
    launch, resource = launch_of(FULL)
    request = build_request(launch, resource)
    properties = request.pipeline["spec"]["catalog"]["properties"]
    assert properties["s3.secret-access-key"] == "${SECRET_KEY}"


def test_only_the_name_of_the_metadata_and_no_status_is_passed_on(launch_of: LoadLaunch) -> None:
    launch, resource = launch_of(FULL)
    resource["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    resource["status"] = {"phase": "Streaming"}
    resource["spec"] |= {"verify": {"every": "24h"}, "resync": {"nonce": 1, "mode": "Rollback"}}
    resource["spec"] |= {"history": {"successful": 1}, "timeouts": {"deleteSeconds": 60}}
    request = build_request(launch, resource)
    assert request.pipeline["metadata"] == {"name": "shop", "namespace": "retail"}
    assert "status" not in request.pipeline
    # Only the operator reads them: an older image would refuse a new one.
    assert set(request.pipeline["spec"]) == set(resource["spec"]) - set(UNREAD)


@pytest.mark.parametrize("named", [True, False])
def test_the_request_knows_a_directory_of_secrets_only_where_there_is_one(
    named: bool, launch: Callable[..., Launch]
) -> None:
    source = {"secretRef": {"name": "lake"}}
    catalog = {"properties": {"type": "rest"}, "propertiesFrom": [source] if named else []}
    made = launch(catalog=catalog)
    request = build_request(made, {"spec": {}})
    assert request.secrets_dir == ("/etc/icdc/secrets" if named else None)


@pytest.mark.parametrize(
    ("kind", "mode", "tables"),
    [
        (RunKind.CHANGELOG, RunMode.RUN, None),
        (RunKind.VERIFY, RunMode.VERIFY, ("shop.orders",)),
        (RunKind.REPAIR, RunMode.REPAIR, ("shop.orders",)),
    ],
)
def test_a_comparison_is_asked_for_the_tables_of_the_resync_and_never_stays(
    launch: Callable[..., Launch], kind: RunKind, mode: RunMode, tables: tuple[str, ...] | None
) -> None:
    run = launch().run.model_copy(update={"kind": kind})
    made = replace(launch(run=run), tables=tables, continuous=True)
    request = build_request(made, {"spec": {}})
    assert (request.mode, request.tables) == (mode, tables)
    assert request.continuous == (mode is RunMode.RUN)


def test_a_question_about_dead_letters_reaches_the_application_with_its_details(
    launch: Callable[..., Launch],
) -> None:
    ask = Ask(
        id="q", mode=RunKind.DEAD_LETTERS, tables=("shop.orders",), ids=("7",), documents=True
    )
    run = launch().run.model_copy(update={"kind": ask.mode, "ask": ask.id})
    request = build_request(replace(launch(run=run), ask=ask), {"spec": {}})
    assert (request.mode, request.tables) == (RunMode.DEAD_LETTERS, None)
    assert (request.only, request.ids, request.documents) == (("shop.orders",), ("7",), True)


def test_the_request_says_what_reexport_is_owed_whatever_the_spec_says_by_now(
    launch: Callable[..., Launch],
) -> None:
    owed = Reexport(nonce=3, tables=("shop.orders",), id=7)
    made = replace(launch(resync={"nonce": 3, "mode": "Verify"}), reexport=owed)
    assert build_request(made, {"spec": {}}).reexport == owed


def test_the_map_cannot_be_changed(launch: Callable[..., Launch]) -> None:
    made = launch()
    assert build_config_map(made, build_request(made, {"spec": {}}))["immutable"]


LONG = ("x" * 160, "\u00e4" * 240, "\U0001f40b" * 160, '"' * 240, "\x01" * 110, "<" * 110)


@pytest.mark.parametrize("text", LONG, ids=lambda text: repr(text[0]))
@pytest.mark.parametrize("named", [False, True])
def test_the_largest_spec_fits_into_the_map_whatever_is_asked_of_all_its_tables(
    text: str, named: bool, launch: Callable[..., Launch]
) -> None:
    """The names are half of the spec, and all of them are named by the resync or the question."""
    names = [f"`{number:03d}{text}`.t" for number in range(MAX_TABLES)]
    resource = make_many_tables()
    resource["spec"]["tables"] = [{"name": name, "index": f"t{i}"} for i, name in enumerate(names)]
    left = MAX_SPEC_BYTES - measure_stored(resource["spec"])
    # As much as fits of what makes the most lines in an indented text.
    fields = {f"f{number}": {"type": "text"} for number in range(left // 26)}
    resource["spec"]["tables"][0]["mapping"] = fields
    assert MAX_SPEC_BYTES * 0.9 < measure_stored(resource["spec"]) <= MAX_SPEC_BYTES
    ask = Ask(id="q", mode=RunKind.REPLAY, ids=("i" * 990,) * 100)
    assert len(ask.to_annotation()) > MAX_ASK_BYTES * 0.9
    owed = Reexport(nonce=1, tables=tuple(names), id=1)
    made = replace(launch(), ask=ask, reexport=owed if named else None)
    made = replace(made, tables=None if named else tuple(names))
    data = build_config_map(made, build_request(made, resource))["data"]
    assert sum(len(key) + len(value.encode()) for key, value in data.items()) <= 1 << 20
    assert json.loads(data["request.json"])["pipeline"]["spec"] == resource["spec"]


def test_a_small_request_is_written_for_people(launch: Callable[..., Launch]) -> None:
    made = launch()
    text = build_config_map(made, build_request(made, {"spec": {"x": "\u00e4"}}))["data"]
    assert '\n  "spec": {\n   "x": "\u00e4"\n  }\n' in text["request.json"]


def test_a_request_that_spaces_would_make_too_large_has_none(
    launch: Callable[..., Launch],
) -> None:
    made, nested = launch(), dict[str, Any]()
    for _ in range(150):
        nested = {"properties": nested}
    mapping = {f"f{number}": nested for number in range(60)}
    resource = make_many_tables(1, mapping=mapping)
    assert measure_stored(resource["spec"]) < MAX_SPEC_BYTES
    text = build_config_map(made, build_request(made, resource))["data"]["request.json"]
    assert len(text) < MAX_SPEC_BYTES * 1.1
    assert len(json.dumps(json.loads(text), indent=1)) > 1 << 20
