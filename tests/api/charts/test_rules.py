"""Each alert fires when it should and only then, by the engine of Prometheus and real metrics."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from icdc_api import errors
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, Verification
from icdc_api.status.runs import Failure, RunState
from icdc_operator.cluster.loop.slots import Limits
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey, WorkQueue
from icdc_operator.core.decide import decide
from icdc_operator.core.limits.usage import measure
from icdc_operator.core.observed import RunPhase
from icdc_testing.kube.charts import promql
from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm, nest_values
from icdc_testing.kube.charts.promql import FoundSeries, PromQuery, Scrape
from icdc_testing.operator.adapter.site import Site
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    make_stalled,
    run_record,
)

pytestmark = pytest.mark.api

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SHOP = PipelineKey("team", "shop")
POD = "icdc-iceberg-cdc-operator-5d89f7c6b8-x7k2p"
OTHER_POD = "other-iceberg-cdc-operator-5d89f7c6b8-x7k2p"
GAP = make_stalled(TableReason.GAP)
PREFIX = "IcebergCDC"
DAILY: dict[str, Any] = {"verify": {"every": "1d"}}
HISTORY = 61
"""Scrapes before the question, one a minute: longer than any alert looks back and waits."""

Rule = dict[str, Any]
Happening = Callable[[Metrics, int], None]
"""What happens in a minute of an operator, from 0; it is scraped at the end of the minute."""


@pytest.fixture(scope="module")
def rules(helm: Helm) -> dict[str, Rule]:
    """The rules as the chart renders them, by the names of the alerts."""
    values = nest_values({"crds.install": False, "metrics.prometheusRule.enabled": True})
    objects = helm.render(OPERATOR, values, "icdc", "lake")
    (found,) = (item for item in objects if item["kind"] == "PrometheusRule")
    return {rule["alert"]: rule for group in found["spec"]["groups"] for rule in group["rules"]}


def list_firing(rule: Rule, story: Sequence[Scrape]) -> list[FoundSeries]:
    """Return what the alert says after the last scrape, for each series for which it fires."""
    at = story[-1].at if story else NOW
    question = PromQuery(rule["expr"], at, rule.get("for", ""), rule["annotations"])
    return promql.ask(story, [question])[0]


def list_minutes(end: datetime) -> Iterator[datetime]:
    for before in reversed(range(HISTORY)):
        yield end - before * MINUTE


def scrape_pipeline(
    status: PipelineStatus, *, after: timedelta = timedelta(0), **spec: Any
) -> Iterator[Scrape]:
    """Yield scrapes up to a time `after` the last reconcile, with nothing done in between."""
    observed = make_observed(make_spec(**spec), status)
    decision = decide(observed, NOW)
    moment = NOW
    metrics = Metrics(now=lambda: moment)
    metrics.show(SHOP, decision.status)
    metrics.show_usage(SHOP, measure(observed, decision.status, None))
    for moment in list_minutes(NOW + after):
        yield make_scrape(metrics, moment)


def scrape_run(age: float) -> Iterator[Scrape]:
    """Yield scrapes while the report of the pipeline's run is as old as that, in seconds."""
    metrics = Metrics()
    run = make_seen(RunPhase.RUNNING, report=make_report(make_caught_up()))
    metrics.show_run(SHOP, replace(run, report_age=age))
    for moment in list_minutes(NOW):
        yield make_scrape(metrics, moment)


def scrape_operator(happening: Happening, pod: str = POD) -> Iterator[Scrape]:
    """Yield scrapes of an operator that leads, up to NOW."""
    metrics = Metrics()
    metrics.leader.set(1)
    for minute, moment in enumerate(list_minutes(NOW)):
        happening(metrics, minute)
        yield make_scrape(metrics, moment, pod)


def make_scrape(metrics: Metrics, moment: datetime, pod: str = POD) -> Scrape:
    return Scrape(moment, metrics.render().decode(), {"namespace": "lake", "pod": pod})


def make_status(behind: timedelta | None, *, dead_letters: int = 0, **more: Any) -> PipelineStatus:
    """Return a pipeline that waits for its next attempt, its only table so far behind."""
    fields: dict[str, Any] = {"dead_letters": dead_letters}
    if behind is not None:
        fields |= {"snapshots_behind": 1, "behind_since": NOW - behind}
    failed = run_record(
        state=RunState.FAILED,
        finished_at=NOW,
        failure=Failure.of(errors.SourceUnavailable("no answer")),
    )
    waits: dict[str, Any] = {"last_run": failed, "next_attempt_time": NOW + DAY}
    return PipelineStatus(
        observed_generation=1,
        **(waits | {"tables": (make_caught_up(**fields),)} | more),
    )


def make_compared(
    ago: timedelta = timedelta(0), *, different: int = 0, **result: Any
) -> PipelineStatus:
    """Return a pipeline whose only table was compared with its index."""
    verification = Verification(
        at=NOW - ago, equal=not different, missing=0, extra=0, different=different, **result
    )
    return make_status(None, tables=(make_caught_up(verification=verification),))


def scrape_overdue(since: int) -> Iterator[Scrape]:
    """Yield scrapes of an operator that a catalog does not answer from that minute on."""
    overdue = 0

    def happen(metrics: Metrics, minute: int) -> None:
        nonlocal overdue
        overdue = int(minute >= since)
        if minute == 0:
            metrics.follow("icdc_catalogs_overdue", "", lambda: overdue)

    return scrape_operator(happen)


def scrape_waiting(since: int) -> Iterator[Scrape]:
    """Yield scrapes of an operator in which a pipeline waits for a worker from that minute on."""
    seconds = 0.0
    queue = WorkQueue(lambda: seconds)

    def happen(metrics: Metrics, minute: int) -> None:
        nonlocal seconds
        seconds = 60.0 * minute
        if minute == 0:
            metrics.follow_queue(queue)
        if minute == since:
            queue.add(SHOP)

    return scrape_operator(happen)


def scrape_queued(before: int) -> Iterator[Scrape]:
    """Yield an hour's scrapes of an operator whose only slot another pipeline has, for whose end
    one has been waiting for so many minutes before."""
    site = Site(Limits(total=1))
    site.want(PipelineKey("other", "first"), SHOP)

    def happen(metrics: Metrics, minute: int) -> None:
        site.seconds = 60.0 * (before + minute)
        if minute == 0:
            wait = site.admission.find_longest_wait
            metrics.follow("icdc_runs_waiting_oldest_seconds", "", lambda: wait(site.now))

    return scrape_operator(happen)


def request(code: int, *, once: bool = False) -> Happening:
    """Let the API server answer with this code: in each minute, or once, half an hour ago."""

    def happen(metrics: Metrics, minute: int) -> None:
        if minute == 30 or not once:
            metrics.count_request("create", "sparkapplications", code)

    return happen


def reconcile(result: str, every: int) -> Happening:
    def happen(metrics: Metrics, minute: int) -> None:
        if minute % every == 0:
            metrics.reconciles.labels(result).inc()

    return happen


def fail(at: int) -> Happening:
    def happen(metrics: Metrics, minute: int) -> None:
        if minute == at:
            metrics.unexpected_errors.inc()

    return happen


def lead(until: int, again: int = HISTORY) -> Happening:
    def happen(metrics: Metrics, minute: int) -> None:
        metrics.leader.set(int(minute < until or minute >= again))

    return happen


ALWAYS = lead(HISTORY)
CASES = [
    ("PipelineLags", "caught up", scrape_pipeline(make_status(None), after=9 * HOUR), False),
    ("PipelineLags", "half an hour behind", scrape_pipeline(make_status(HOUR / 2)), False),
    ("PipelineLags", "waits since", scrape_pipeline(make_status(HOUR / 2), after=HOUR), True),
    ("PipelineLags", "ten minutes too long", scrape_pipeline(make_status(70 * MINUTE)), False),
    ("PipelineLags", "two hours behind", scrape_pipeline(make_status(2 * HOUR)), True),
    ("PipelineLags", "suspended", scrape_pipeline(make_status(2 * HOUR), suspend=True), False),
    ("PipelineStalled", "no table", scrape_pipeline(make_status(None)), False),
    ("PipelineStalled", "a gap", scrape_pipeline(make_status(None, tables=(GAP,))), True),
    ("PipelineFailing", "three", scrape_pipeline(make_status(None, consecutive_failures=3)), False),
    ("PipelineFailing", "four", scrape_pipeline(make_status(None, consecutive_failures=4)), True),
    ("DeadLetters", "8000", scrape_pipeline(make_status(None, dead_letters=8000)), False),
    ("DeadLetters", "8001", scrape_pipeline(make_status(None, dead_letters=8001)), True),
    ("ProofOverdue", "in time", scrape_pipeline(make_compared(HOUR), **DAILY), False),
    ("ProofOverdue", "too old", scrape_pipeline(make_compared(2 * DAY), **DAILY), True),
    ("ProofOverdue", "not promised", scrape_pipeline(make_compared(2 * DAY)), False),
    ("IndexDiffers", "never compared", scrape_pipeline(make_status(None)), False),
    ("IndexDiffers", "equal", scrape_pipeline(make_compared()), False),
    ("IndexDiffers", "differs", scrape_pipeline(make_compared(different=2)), True),
    ("IndexDiffers", "repaired", scrape_pipeline(make_compared(different=2, repaired=2)), False),
    ("DriverNotResponding", "renews its report", scrape_run(120), False),
    ("DriverNotResponding", "six minutes late", scrape_run(360), True),
    ("OperatorDown", "leads", scrape_operator(ALWAYS), False),
    ("OperatorDown", "never was there", iter(()), True),
    ("OperatorDown", "leads no more", scrape_operator(lead(50)), True),
    ("OperatorDown", "leads again", scrape_operator(lead(40, again=58)), False),
    ("OperatorDown", "another release leads", scrape_operator(ALWAYS, OTHER_POD), True),
    ("OperatorError", "now", scrape_operator(fail(58)), True),
    ("OperatorError", "half an hour ago", scrape_operator(fail(30)), False),
    ("OperatorForbidden", "each minute", scrape_operator(request(403)), True),
    ("OperatorForbidden", "once", scrape_operator(request(403, once=True)), False),
    ("OperatorForbidden", "not found", scrape_operator(request(404)), False),
    ("OperatorBehind", "for twenty minutes", scrape_waiting(40), True),
    ("OperatorBehind", "for ten minutes", scrape_waiting(50), False),
    ("RunQueued", "for eighty minutes", scrape_queued(20), True),
    ("RunQueued", "for seventy minutes", scrape_queued(10), False),
    ("CatalogOverdue", "for twenty minutes", scrape_overdue(40), True),
    ("CatalogOverdue", "for ten minutes", scrape_overdue(50), False),
    ("ReconcilesFail", "of one pipeline", scrape_operator(reconcile("failed", 2)), True),
    ("ReconcilesFail", "by time-out", scrape_operator(reconcile("timeout", 2)), True),
    ("ReconcilesFail", "now and then", scrape_operator(reconcile("failed", 5)), False),
    ("ReconcilesFail", "never", scrape_operator(reconcile("done", 1)), False),
]


@pytest.mark.parametrize(
    ("alert", "story", "fires"),
    [pytest.param(*case[::2], case[3], id=f"{case[0]}: {case[1]}") for case in CASES],
)
def test_an_alert_fires_when_it_should(
    alert: str, story: Iterator[Scrape], fires: bool, rules: dict[str, Rule]
) -> None:
    firing = list_firing(rules[f"{PREFIX}{alert}"], list(story))
    assert bool(firing) is fires
    for said in firing:
        # What a template cannot fill is left out, or stays in braces.
        assert not re.search(r"\{\{|<no value>|\bNaN\b| {2}|pipeline /", str(said.texts))


def test_every_alert_has_a_case_that_fires_and_one_that_does_not(rules: dict[str, Rule]) -> None:
    assert len(rules) >= 12
    tried = {(f"{PREFIX}{alert}", fires) for alert, _, _, fires in CASES}
    assert tried == {(alert, fires) for alert in rules for fires in (True, False)}


def test_an_alert_says_which_pipeline_and_how_much(rules: dict[str, Rule]) -> None:
    story = list(scrape_pipeline(make_status(2 * HOUR)))
    (said,) = list_firing(rules["IcebergCDCPipelineLags"], story)
    assert said.texts["summary"] == "Pipeline team/shop is 2h 0m 0s behind its tables"
