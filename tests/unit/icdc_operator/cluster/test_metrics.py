"""What `/metrics` shows of pipelines and runs."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from icdc_api.errors import OutOfMemory
from icdc_api.job.resources import ResourceKind
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import LastBatch, PipelineStatus, Verification
from icdc_api.status.runs import Failure, RunState
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey, WorkQueue
from icdc_operator.core.decide import decide
from icdc_operator.core.limits.usage import Usage, Used
from icdc_operator.core.observed import RunPhase
from icdc_testing.operator.adapter.fakes.memory import MemoryCluster
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    run_record,
)

pytestmark = pytest.mark.unit

SHOP, TAXI = PipelineKey("default", "shop"), PipelineKey("default", "taxi")
OF_SHOP = {"namespace": "default", "name": "shop"}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def get_value(metrics: Metrics, sample: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(sample, labels)


def make_status(**more: object) -> PipelineStatus:
    pipeline_status = PipelineStatus(observed_generation=1, tables=(make_caught_up(lag_seconds=0),))
    fresh = decide(make_observed(make_spec(suspend=True), pipeline_status), NOW).status
    return fresh.model_copy(update=more)


def test_a_pipeline_shows_where_it_stands(metrics: Metrics) -> None:
    good = run_record(state=RunState.SUCCEEDED, finished_at=NOW)
    metrics.show(SHOP, make_status(recent_runs=(good,), consecutive_failures=2))
    assert get_value(metrics, "icdc_lag_seconds", **OF_SHOP) == 0
    assert get_value(metrics, "icdc_snapshots_behind", **OF_SHOP) == 0
    assert get_value(metrics, "icdc_consecutive_failures", **OF_SHOP) == 2
    assert get_value(metrics, "icdc_last_success_timestamp_seconds", **OF_SHOP) == NOW.timestamp()
    ready = OF_SHOP | {"type": "Ready", "status": "True"}
    assert get_value(metrics, "icdc_pipeline_condition", **ready) == 1
    assert get_value(metrics, "icdc_pipelines", phase="Suspended") == 1


def list_conditions(metrics: Metrics) -> dict[str, str]:
    """Return the status of each condition that is shown, each by one series."""
    (family,) = [one for one in metrics.registry.collect() if one.name == "icdc_pipeline_condition"]
    statuses = {sample.labels["type"]: sample.labels["status"] for sample in family.samples}
    assert len(statuses) == len(family.samples)
    assert {sample.value for sample in family.samples} <= {1.0}
    return statuses


def test_every_condition_has_one_series_with_its_status(metrics: Metrics) -> None:
    for spec in (make_spec(suspend=True), make_spec(), make_spec(suspend=True)):
        observed = make_observed(spec, PipelineStatus(observed_generation=1))
        after = decide(observed, NOW).status
        metrics.show(SHOP, after)
        assert list_conditions(metrics) == {
            condition.type.value: condition.status.value for condition in after.conditions
        }
    assert set(list_conditions(metrics)) == set(ConditionType)
    assert set(list_conditions(metrics).values()) == {"True", "False", "Unknown"}


def test_results_of_comparisons_are_counted_over_all_tables(metrics: Metrics) -> None:
    found = [
        None,
        Verification(at=NOW, equal=True, missing=0, extra=0, different=0),
        Verification(at=NOW, equal=False, missing=2, extra=1, different=0, repaired=3),
        Verification(at=NOW, equal=False, missing=4, extra=0, different=5),
        Verification(at=NOW, reason="SourceUnavailable"),
    ]
    tables = [make_caught_up(f"s.t{n}", verification=one) for n, one in enumerate(found)]
    metrics.show(SHOP, make_status(tables=tables))
    for result in ("Equal", "Repaired", "Different", "NotVerified"):
        assert get_value(metrics, "icdc_compared_tables", result=result, **OF_SHOP) == 1
    for kind, documents in (("missing", 6), ("extra", 1), ("different", 5)):
        assert get_value(metrics, "icdc_differing_documents", kind=kind, **OF_SHOP) == documents
    metrics.show(SHOP, make_status(tables=tables[:2]))
    assert get_value(metrics, "icdc_compared_tables", result="Different", **OF_SHOP) == 0
    metrics.show(SHOP, make_status(tables=tables[:1]))
    assert b"icdc_compared_tables{" not in metrics.render()
    assert b"icdc_differing_documents{" not in metrics.render()


def test_the_process_shows_its_version_and_what_it_takes(metrics: Metrics) -> None:
    metrics.show_process("1.2.3")
    assert get_value(metrics, "icdc_build_info", version="1.2.3") == 1
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"):
        assert (get_value(metrics, name) or 0) > 0
    assert b"python_gc_collections_total" in metrics.render()


def test_the_lag_grows_between_two_reconciles_until_the_index_is_caught_up() -> None:
    moment = NOW
    metrics = Metrics(now=lambda: moment)
    late = make_caught_up(snapshots_behind=1, behind_since=NOW - timedelta(seconds=5))
    metrics.show(SHOP, make_status(tables=(make_caught_up("s.new"), late)))
    for passed in (0, 1, 3600):
        moment = NOW + timedelta(seconds=passed)
        assert get_value(metrics, "icdc_lag_seconds", **OF_SHOP) == 5 + passed
    # A clock that was set back.
    moment = NOW - timedelta(days=1)
    assert get_value(metrics, "icdc_lag_seconds", **OF_SHOP) == 0
    moment = NOW
    metrics.show(SHOP, make_status())
    assert get_value(metrics, "icdc_lag_seconds", **OF_SHOP) == 0
    metrics.show(SHOP, PipelineStatus())
    assert get_value(metrics, "icdc_lag_seconds", **OF_SHOP) is None


def test_the_longest_wait_for_limits_is_shown_while_there_is_one(metrics: Metrics) -> None:
    waited = [
        make_caught_up(str(millis), last_batch=LastBatch(at=NOW, limited_millis=millis))
        for millis in (None, 1_500, 200)
    ]
    metrics.show(SHOP, make_status(tables=waited))
    assert get_value(metrics, "icdc_limited_seconds", **OF_SHOP) == 1.5
    metrics.show(SHOP, make_status(tables=waited[:1]))
    assert get_value(metrics, "icdc_limited_seconds", **OF_SHOP) is None


def test_phases_are_counted_once_for_each_pipeline(metrics: Metrics) -> None:
    for _ in range(3):
        metrics.show(SHOP, make_status())
        metrics.show(TAXI, make_status())
    assert get_value(metrics, "icdc_pipelines", phase="Suspended") == 2
    metrics.show(SHOP, PipelineStatus())
    assert get_value(metrics, "icdc_pipelines", phase="Suspended") == 1
    assert get_value(metrics, "icdc_pipelines", phase="Pending") == 1


def test_a_pipeline_that_is_gone_leaves_nothing(metrics: Metrics) -> None:
    metrics.show(SHOP, make_status())
    for _ in range(2):
        metrics.forget(SHOP)
    assert b'name="shop"' not in metrics.render()
    assert get_value(metrics, "icdc_pipelines", phase="Suspended") == 0


def test_sessions_are_shown_while_their_run_is_alive(metrics: Metrics) -> None:
    reported = make_report(make_caught_up()).model_copy(update={"open_sessions": ("shop.orders",)})
    metrics.show_run(SHOP, make_seen(RunPhase.RUNNING, report=reported))
    assert get_value(metrics, "icdc_open_sessions", **OF_SHOP) == 1
    metrics.show_run(SHOP, make_seen(RunPhase.SUCCEEDED, report=reported))
    assert get_value(metrics, "icdc_open_sessions", **OF_SHOP) is None
    metrics.show_run(SHOP, make_seen(RunPhase.RUNNING, report=reported))
    metrics.forget(SHOP)
    assert get_value(metrics, "icdc_open_sessions", **OF_SHOP) is None


def test_the_age_of_a_report_is_shown_while_its_run_is_alive(metrics: Metrics) -> None:
    name, reported = "icdc_report_age_seconds", make_report(make_caught_up())
    metrics.show_run(SHOP, make_seen(RunPhase.RUNNING, report=reported, report_age=90.0))
    assert get_value(metrics, name, **OF_SHOP) == 90
    metrics.show_run(SHOP, make_seen(RunPhase.RUNNING, report=reported))
    assert get_value(metrics, name, **OF_SHOP) is None, "an image that renews no report"
    metrics.show_run(SHOP, make_seen(RunPhase.RUNNING, report=reported, report_age=600.0))
    metrics.show_run(SHOP, None)
    assert get_value(metrics, name, **OF_SHOP) is None
    metrics.show_run(SHOP, make_seen(RunPhase.RUNNING, report=reported, report_age=600.0))
    metrics.forget(SHOP)
    assert b'name="shop"' not in metrics.render()


def test_what_is_used_of_each_limit_stands_beside_the_limit(metrics: Metrics) -> None:
    spec, of_status, report_size = (OF_SHOP | {"kind": k} for k in ("spec", "status", "report"))
    used = Usage(
        spec=Used(300, 400),
        status=Used(500, None),
        report=Used(None, 600),
        dead_letters=Used(7, 10),
        pinned_tables=2,
        proof=Used(1700000000, 86400),
        resources={kind: Used(at, 10 * at) for at, kind in enumerate(ResourceKind, start=1)},
    )
    metrics.show_usage(SHOP, used)
    assert get_value(metrics, "icdc_state_bytes", **spec) == 300
    assert get_value(metrics, "icdc_state_limit_bytes", **spec) == 400
    assert get_value(metrics, "icdc_state_bytes", **of_status) == 500
    assert get_value(metrics, "icdc_state_limit_bytes", **of_status) is None
    # A run that has ended has no report any more, and leaves no limit either.
    assert get_value(metrics, "icdc_state_limit_bytes", **report_size) is None
    assert get_value(metrics, "icdc_dead_letters", **OF_SHOP) == 7
    assert get_value(metrics, "icdc_dead_letters_limit", **OF_SHOP) == 10
    assert get_value(metrics, "icdc_pinned_tables", **OF_SHOP) == 2
    assert get_value(metrics, "icdc_oldest_proof_timestamp_seconds", **OF_SHOP) == 1700000000
    assert get_value(metrics, "icdc_proof_limit_seconds", **OF_SHOP) == 86400
    for at, kind in enumerate(ResourceKind, start=1):
        name = "icdc_state" if kind.startswith("state_") else "icdc_run"
        assert get_value(metrics, f"{name}_bytes", **OF_SHOP, kind=kind.value) == at
        assert get_value(metrics, f"{name}_limit_bytes", **OF_SHOP, kind=kind.value) == 10 * at
    metrics.show_usage(SHOP, replace(used, dead_letters=Used(7, None), resources={}))
    assert get_value(metrics, "icdc_run_bytes", **OF_SHOP, kind="python_worker") is None
    assert get_value(metrics, "icdc_dead_letters_limit", **OF_SHOP) is None
    metrics.forget(SHOP)
    assert b'name="shop"' not in metrics.render()


def test_each_reconcile_shows_what_it_observed_of_the_limits(metrics: Metrics) -> None:
    observed = replace(make_observed(make_spec()), status_room=900_000)
    asyncio.run(MemoryCluster(observed).make_reconciler(metrics).reconcile(SHOP))
    of_status = OF_SHOP | {"kind": "status"}
    assert get_value(metrics, "icdc_state_limit_bytes", **of_status) == 900_000
    assert get_value(metrics, "icdc_state_bytes", **of_status)


def test_the_last_success_outlives_the_log_of_runs(metrics: Metrics) -> None:
    good = run_record(state=RunState.SUCCEEDED, finished_at=NOW)
    bad = run_record(state=RunState.FAILED, failure=Failure.of(OutOfMemory("heap")))
    metrics.show(SHOP, make_status(recent_runs=(good,)))
    metrics.show(SHOP, make_status(recent_runs=(bad,) * 10))
    assert get_value(metrics, "icdc_last_success_timestamp_seconds", **OF_SHOP) == NOW.timestamp()


@pytest.mark.parametrize(
    ("failure", "state", "kind"),
    [
        (None, RunState.SUCCEEDED, ""),
        (Failure.of(OutOfMemory("heap")), RunState.FAILED, "OutOfMemory"),
    ],
)
def test_a_run_that_ends_is_counted_once_with_its_class(
    metrics: Metrics, failure: Failure | None, state: RunState, kind: str
) -> None:
    before = PipelineStatus(current_run=run_record())
    after = PipelineStatus(last_run=run_record(state=state, failure=failure))
    metrics.count_change(before, after)
    metrics.count_change(after, after.model_copy(update={"consecutive_failures": 1}))
    labels = {"kind": "Export", "result": state.value, "class": kind}
    assert get_value(metrics, "icdc_runs_total", **labels) == 1
    assert get_value(metrics, "icdc_status_writes_total") == 2


def test_the_time_a_run_took_to_start_is_observed_once(metrics: Metrics) -> None:
    planned = PipelineStatus(current_run=run_record(planned_at=NOW, started_at=None))
    started = PipelineStatus(
        current_run=run_record(planned_at=NOW, started_at=NOW + timedelta(seconds=42))
    )
    for before, after in ((planned, planned), (planned, started), (started, started)):
        metrics.count_change(before, after)
    assert get_value(metrics, "icdc_run_start_latency_seconds_count") == 1
    assert get_value(metrics, "icdc_run_start_latency_seconds_sum") == 42


def test_the_queue_is_shown_as_it_is_at_each_scrape(metrics: Metrics) -> None:
    now = [0.0]
    queue = WorkQueue(lambda: now[0])
    metrics.follow_queue(queue)
    queue.add(SHOP)
    queue.add(TAXI)
    queue.take()
    now[0] = 7.0
    assert get_value(metrics, "icdc_queue_depth") == 1
    assert get_value(metrics, "icdc_queue_oldest_seconds") == 7.0
    assert get_value(metrics, "icdc_queue_active") == 1


def test_requests_are_counted_by_verb_kind_and_answer(metrics: Metrics) -> None:
    metrics.count_request("get", "icebergcdcpipelines", 200)
    metrics.count_request("get", "icebergcdcpipelines", 200)
    labels = {"verb": "get", "kind": "icebergcdcpipelines", "code": "200"}
    assert get_value(metrics, "icdc_api_requests_total", **labels) == 2


def test_two_operators_in_one_process_do_not_share_metrics(metrics: Metrics) -> None:
    metrics.watch_restarts.inc()
    assert get_value(Metrics(), "icdc_watch_restarts_total") == 0


def test_every_metric_has_the_prefix_and_a_text(metrics: Metrics) -> None:
    for family in metrics.registry.collect():
        assert family.name.startswith("icdc_")
        assert family.documentation.endswith((".", "report."))
