"""Pipelines of 500 tables on a real API server and etcd: spec, request, report and status full."""

import json
from typing import Any

import pytest

from icdc_api.base import MAX_TABLES, MAX_TEXT
from icdc_api.job import report_text
from icdc_api.json_size import measure_stored
from icdc_api.spec.limits import MAX_SPEC_BYTES
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableStatus, parse_status
from icdc_api.status.runs import RunState
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.core.limits import status_size
from icdc_testing.kube.stored_pipelines import Pipelines, Resource
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.worst_cases import (
    make_full_status,
    make_full_table,
    make_long_name,
    make_longest_names,
    make_many_tables,
)

pytestmark = [
    pytest.mark.api,
    # Of aiohttp, which Python does not show by default: such a request is sent in milliseconds.
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]

ETCD_BYTES = 3 << 19
"""What etcd takes in one request, by its default."""
RUN = "shop-e1-1"


def make_entries(resource: Resource, text: str) -> list[TableStatus]:
    """Return the largest entry of each table."""
    tables = resource["spec"]["tables"]
    return [
        make_full_table(table["name"], table.get("index", table["name"]), text) for table in tables
    ]


def write_largest_status(cluster: SteppedCluster, resource: Resource, text: str) -> Observation:
    """Write the largest status that the operator would, and return what is there afterwards."""
    before = cluster.observe()
    status = make_full_status(make_entries(resource, text))
    fitted = status_size.fit(status, before.observed.status_room)
    cluster.adapt(lambda adapter: adapter.save(before, fitted))
    after = cluster.observe()
    assert after.observed.status == fitted
    return after


def read_stored_size(pipelines: Pipelines) -> int:
    return measure_stored(pipelines.get())


def test_a_run_of_500_tables_with_the_longest_names_is_made_and_reported(
    admin: SteppedCluster, cluster: SteppedCluster
) -> None:
    resource = make_longest_names()
    names = [table["name"] for table in resource["spec"]["tables"]]
    cluster.pipelines.apply(resource)
    cluster.step()
    cluster.step()
    (request,) = cluster.list_objects("configmap")
    written = json.loads(request["data"]["request.json"])["pipeline"]["spec"]
    assert [table["name"] for table in written["tables"]] == names
    cluster.start_driver(RUN)
    run = cluster.observe().observed.status.current_run
    assert run is not None
    text = report_text.to_annotation(make_report(run, *make_entries(resource, "m")))
    annotations = {"metadata": {"annotations": {report_text.ANNOTATION_REPORT: text}}}
    namespace = cluster.pipelines.namespace
    admin.ask(lambda api: api.merge_patch(kinds.POD, namespace, f"{RUN}-driver", annotations))
    status = cluster.step().status
    assert status.current_run is not None
    assert status.current_run.state == RunState.RUNNING
    assert [table.name for table in status.tables] == names
    assert cluster.observe().observed.status == status
    for kind in ConditionType:
        condition = status.find_condition(kind)
        assert condition is not None
        assert len(condition.message) <= MAX_TEXT
    assert cluster.pipelines.run_ok("get", "icdc").splitlines()[1].split()[3] == f"0/{MAX_TABLES}"


def fill(resource: Resource, **field: Any) -> Resource:
    """`resource` with `field` in as many tables as the limit of a spec allows."""
    for table in resource["spec"]["tables"]:
        table.update(field)
        # Defaults are added, and as much is needed for managed fields.
        if measure_stored(resource["spec"]) > MAX_SPEC_BYTES * 0.75:
            for name in field:
                del table[name]
            break
    return resource


FULL = {
    "names": make_longest_names(),
    "filters": fill(make_many_tables(), rowFilter="x" * 1000),
    "columns": fill(make_many_tables(), columns=[f"column_{number}" for number in range(25)]),
    "mappings": fill(make_many_tables(), mapping={f"f{n}": {"type": "text"} for n in range(40)}),
    "catalogs": fill(
        make_many_tables(),
        catalog={"properties": {"type": "rest", **{f"k{n}": "v" for n in range(60)}}},
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("names", "m"),
        ("filters", "<"),
        ("columns", "m"),
        ("mappings", "\U0001f40b"),
        ("catalogs", "<"),
    ],
)
def test_the_largest_status_fits_beside_the_largest_spec_and_is_read_as_written(
    cluster: SteppedCluster, what: str, text: str
) -> None:
    cluster.pipelines.apply(FULL[what])
    seen = cluster.observe().observed
    assert seen.problem is None
    assert seen.status_room is not None
    assert seen.spec is not None
    assert status_size.compute_least_bytes(seen.spec) <= seen.status_room
    after = write_largest_status(cluster, FULL[what], text)
    assert len(after.observed.status.tables) == MAX_TABLES
    assert read_stored_size(cluster.pipelines) < ETCD_BYTES
    # Who wrote which field of which table is not stored beside it.
    (fields,) = (
        entry["fieldsV1"]
        for entry in after.pipeline["metadata"]["managedFields"]
        if entry.get("subresource") == "status"
    )
    assert fields["f:status"]["f:tables"] == {}


def test_a_pipeline_whose_status_may_not_fit_says_so_in_its_status(cluster: SteppedCluster) -> None:
    """30,000 names of columns are twice as many bytes once more in the managed fields."""
    columns = [f"column_{number}" for number in range(60)]
    cluster.pipelines.apply(make_many_tables(columns=columns))
    status = cluster.step().status
    valid = status.find_condition(ConditionType.SPEC_VALID)
    assert valid is not None
    assert valid.message.startswith(f"spec.tables: the status of {MAX_TABLES} tables may need ")
    assert parse_status(cluster.pipelines.get()["status"]) == status


def test_500_tables_are_applied_as_users_do(pipelines: Pipelines) -> None:
    text = json.dumps(make_many_tables(identifierColumns=["id"], rowFilter="amount > 0"))
    for _ in range(2):
        pipelines.run_ok("apply", "-f", "-", stdin=text)
    stored_spec = pipelines.get()
    assert stored_spec["metadata"]["generation"] == 1
    assert len(stored_spec["spec"]["tables"]) == MAX_TABLES


@pytest.mark.parametrize("wrong", [False, True])
def test_any_number_of_500_tables_may_be_named_by_a_resync(
    pipelines: Pipelines, wrong: bool
) -> None:
    resource = make_longest_names()
    names = [table["name"] for table in resource["spec"]["tables"]]
    if wrong:
        names[-1] = make_long_name(MAX_TABLES)
    resource["spec"]["resync"] = {"nonce": 1, "tables": names}
    ran = pipelines.try_to_apply(resource)
    assert (ran.code != 0) == wrong, ran.err
    assert (
        "spec.resync.tables: each must be the name of a table in spec.tables" in ran.err
    ) == wrong
