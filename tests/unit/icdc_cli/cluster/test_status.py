"""`icdc status`: the text, the whole resource, and exit codes that scripts can rely on."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from icdc_api import errors
from icdc_api.base import MAX_TABLES
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, TableStatus
from icdc_api.status.runs import Failure, RunState
from icdc_cli import main
from icdc_cli.cluster import status
from icdc_operator.core.conditions import summary as core
from icdc_operator.core.observed import Observed, Queued
from icdc_testing.kube.api_stub import ApiStub, Object
from icdc_testing.operator.deciding.pipelines import (
    make_caught_up,
    make_observed,
    make_spec,
    make_stalled,
    make_unheard,
    run_record,
)

pytestmark = pytest.mark.unit

NOW = datetime.now(UTC)
SPEC = make_spec("shop.orders", "shop.customers")


def summarize_world(world: Observed | None = None, **fields: Any) -> Object:
    """Return the status that the operator would write."""
    world = world or make_observed(SPEC)
    value = PipelineStatus(observed_generation=1, **fields)
    value = value.model_copy(update={"conditions": core.build_conditions(value, world, now=NOW)})
    return core.summarise(value).to_resource()


def make_good_status() -> Object:
    last = run_record(state=RunState.SUCCEEDED, finished_at=NOW)
    return summarize_world(
        tables=(make_caught_up(), make_caught_up("shop.customers")), last_run=last
    )


def make_stalled_status() -> Object:
    return summarize_world(tables=(make_stalled(TableReason.GAP), make_caught_up("shop.customers")))


def make_status_after_many_failures() -> Object:
    failure = Failure.of(errors.TargetUnavailable("search refuses connections"))
    last = run_record(state=RunState.FAILED, finished_at=NOW, failure=failure)
    soon = datetime.now(UTC) + timedelta(minutes=9, seconds=30)
    return summarize_world(
        tables=(make_caught_up(),), last_run=last, consecutive_failures=8, next_attempt_time=soon
    )


def make_status_of_wrong_spec() -> Object:
    world = Observed("default", "shop", 1, None, PipelineStatus(), problem="spec.tables: empty")
    return summarize_world(world)


def make_status_before_retry() -> Object:
    failure = Failure.of(errors.TargetUnavailable("search refuses connections"))
    last = run_record(state=RunState.FAILED, finished_at=NOW, failure=failure)
    soon = datetime.now(UTC) + timedelta(hours=3, minutes=30)
    return summarize_world(
        tables=(make_caught_up(),), last_run=last, consecutive_failures=1, next_attempt_time=soon
    )


def make_status_in_queue() -> Object:
    location = Queued(60.0, "--max-active-runs", allowed=1, position=2, waiting=3)
    return summarize_world(replace(make_observed(SPEC), queued=location), next_attempt_time=NOW)


def make_status_of_frozen_driver() -> Object:
    tables = (make_caught_up(),)
    world = make_unheard(SPEC, *tables)
    written = summarize_world(world, tables=tables, current_run=world.status.current_run)
    for condition in written["conditions"]:
        condition["lastTransitionTime"] = (NOW - timedelta(hours=3, minutes=30)).isoformat()
    return written


def make_status_in_pause() -> Object:
    world = make_observed(make_spec("shop.orders", suspend=True))
    return summarize_world(world, tables=(make_stalled(TableReason.GAP),))


@pytest.mark.parametrize(
    ("written", "code", "complaint"),
    [
        (make_good_status, 0, ""),
        (dict, 0, ""),
        (make_status_before_retry, 0, ""),
        (make_status_in_pause, 0, ""),
        (make_stalled_status, 1, "icdc: shop.orders: Gap"),
        (make_status_of_wrong_spec, 2, "icdc: spec.tables: empty\n"),
        (
            make_status_after_many_failures,
            3,
            "icdc: failed 8 times in a row: TargetUnavailable: search refuses",
        ),
    ],
)
@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_the_exit_code_says_how_the_pipeline_does(
    output: str,
    written: Callable[[], Object],
    code: int,
    complaint: str,
    shop: Object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["status"] = written()
    assert main.main(["status", "shop", "-o", output]) == code
    printed = capsys.readouterr()
    assert printed.err.startswith(complaint)
    assert bool(printed.err) == bool(complaint)
    assert printed.out


def test_the_text_has_the_columns_of_kubectl_then_tables_then_conditions(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = make_good_status()
    created = NOW - timedelta(days=5)
    shop["metadata"]["creationTimestamp"] = created.isoformat(timespec="seconds")
    assert main.main(["status", "shop"]) == 0
    pipeline, tables, conditions = capsys.readouterr().out.split("\n\n")
    head, row = pipeline.splitlines()
    assert head.split() == ["NAME", "READY", "PHASE", "TABLES", "BEHIND", "LAG", "RUN", "AGE"]
    assert row.split() == ["shop", "True", "Streaming", "2/2", "0", "0s", "-", "5d"]
    assert [line.split()[:2] for line in tables.splitlines()[1:]] == [
        ["shop.orders", "Streaming"],
        ["shop.customers", "Streaming"],
    ]
    ready = conditions.splitlines()[1].split()
    assert ready[:3] == ["Ready", "True", "Streaming"]
    assert len(conditions.splitlines()) == 1 + len(shop["status"]["conditions"])


def make_status_of_many(*others: TableStatus) -> Object:
    """500 tables: these, and else such as are well."""
    well = [make_caught_up(f"shop.t{number}") for number in range(len(others), MAX_TABLES)]
    return summarize_world(tables=(*well[:100], *others, *well[100:]))


def make_lagging(name: str, lag: int) -> TableStatus:
    return make_caught_up(name, snapshots_behind=1, lag_seconds=lag)


def test_of_many_tables_those_with_a_problem_are_shown_and_the_others_counted(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    fails = make_caught_up("shop.fails", reason=TableReason.SOURCE_UNAVAILABLE, message="no answer")
    stalled = make_stalled(TableReason.GAP).model_copy(update={"name": "shop.stalled"})
    new = TableStatus(name="shop.new", index="new")
    shop["status"] = make_status_of_many(
        make_lagging("shop.a", 5), fails, new, stalled, make_lagging("shop.b", 50)
    )
    assert main.main(["status", "shop"]) == 1
    _, counts, rows, hint, _ = capsys.readouterr().out.split("\n\n")
    assert counts == "500 tables: 1 Stalled, 1 Pending, 498 Streaming; 2 behind"
    assert [line.split()[0] for line in rows.splitlines()] == [
        *("NAME", "shop.stalled", "shop.new", "shop.fails", "shop.b", "shop.a")
    ]
    assert hint == "icdc status shop --all shows every table"


def test_no_more_than_a_screen_of_problems_is_shown(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = make_status_of_many(
        *(make_lagging(f"shop.late{number}", number) for number in range(50))
    )
    assert main.main(["status", "shop"]) == 0
    _, _, rows, hint, _ = capsys.readouterr().out.split("\n\n")
    names = [line.split()[0] for line in rows.splitlines()[1:]]
    assert names == [f"shop.late{number}" for number in range(49, 29, -1)]
    assert hint == "and 30 more of these; icdc status shop --all shows every table"


def test_many_tables_that_are_well_are_one_line(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = make_status_of_many()
    assert main.main(["status", "shop"]) == 0
    _, counts, hint, _ = capsys.readouterr().out.split("\n\n")
    assert (counts, hint) == (
        *("500 tables: 500 Streaming", "icdc status shop --all shows every table"),
    )


def test_all_tables_are_shown_where_somebody_asks_for_them(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = make_status_of_many()
    assert main.main(["status", "shop", "--all"]) == 0
    _, rows, _ = capsys.readouterr().out.split("\n\n")
    assert [line.split()[0] for line in rows.splitlines()[1:]] == [
        table["name"] for table in shop["status"]["tables"]
    ]
    assert main.main(["status", "shop", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["status"]["tables"]) == MAX_TABLES


@pytest.mark.parametrize(
    ("written", "note"),
    [
        (dict, "No operator has seen the pipeline yet."),
        (lambda: {**make_good_status(), "observedGeneration": 0}, "has not seen generation 1 yet."),
        (make_status_before_retry, "The next attempt starts in 3h."),
        (
            lambda: {**make_status_before_retry(), "nextAttemptTime": "2026-01-01T00:00:00Z"},
            "The next attempt is due.",
        ),
        (
            make_status_in_queue,
            "waits for its turn: queue position 2 of 3: "
            "the limit --max-active-runs (1) is reached.",
        ),
        (
            make_status_of_frozen_driver,
            "The lag has not been known for 3h; tables are shown as of the last report of the run: "
            "the driver has not renewed its report since 11:53.",
        ),
    ],
)
def test_what_a_reader_would_misjudge_is_said(
    written: Callable[[], Object],
    note: str,
    shop: Object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["status"] = written()
    assert main.main(["status", "shop"]) == 0
    assert note in capsys.readouterr().out


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_whole_resource_without_managed_fields(
    output: str,
    parse: Callable[[str], Any],
    shop: Object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop["status"] = make_good_status()
    assert main.main(["status", "shop", "--output", output]) == 0
    expected = {**shop, "metadata": {**shop["metadata"]}}
    del expected["metadata"]["managedFields"]
    assert parse(capsys.readouterr().out) == expected


def test_a_status_of_another_version_is_still_there_for_programs(
    shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = {"operatorVersion": "9.9", "phase": "Dreaming"}
    assert main.main(["status", "shop", "-o", "json"]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)["status"]["phase"] == "Dreaming"
    assert "written by another version (operator 9.9)" in printed.err
    with pytest.raises(
        errors.BadSpec, match=r"\(operator unknown\).* read: status: Input should be"
    ):
        status.parse_status_of({"status": "Dreaming"})
    assert "status.phase: " in printed.err


def test_an_age_is_never_below_zero() -> None:
    resource = {"metadata": {"name": "shop", "creationTimestamp": "2026-01-01T00:00:10Z"}}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    text = status.describe_pipeline(resource, PipelineStatus(), every=False, now=now)
    assert text.splitlines()[1].split()[-1] == "0s"


def test_a_status_is_asked_for_once(shop: Object, api: ApiStub) -> None:
    assert main.main(["status", "shop"]) == 0
    (request,) = api.asked
    assert request.endswith("/namespaces/default/icebergcdcpipelines/shop")
