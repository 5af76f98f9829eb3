"""Dashboards as Grafana's sidecar finds them, and what Prometheus answers to their queries."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, cast

import pytest

from icdc_api import errors, naming
from icdc_api.job.resources import ResourceKind, UsedResource
from icdc_api.status.pipeline_status import PipelineStatus, Verification
from icdc_api.status.runs import Failure, RunState
from icdc_operator.cluster import options
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.operator_process import Operator
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.core.decide import decide
from icdc_operator.core.limits.usage import measure
from icdc_operator.core.observed import RunPhase
from icdc_operator.manifests.pods.templates import METRICS_PATH
from icdc_testing.kube.charts import promql
from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm, nest_values
from icdc_testing.kube.charts.promql import PromQuery, Scrape
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_report,
    make_seen,
    make_spec,
    run_record,
)
from icdc_testing.runs.driver_metrics import RECORDING

pytestmark = pytest.mark.api

(SOURCE,) = (OPERATOR / "files" / "dashboards").iterdir()
DASHBOARD = json.loads(SOURCE.read_text(encoding="utf-8"))
TARGETS = [target for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
SHOP = PipelineKey("team", "shop")
PIPELINE = re.sub(r"\W", "_", naming.LABEL_PIPELINE)
"""What a PodMonitor makes of the label of a pod."""


def test_the_file_of_a_dashboard_names_the_product(helm: Helm) -> None:
    values = nest_values({"crds.install": False, "metrics.dashboards.enabled": True})
    objects = helm.render(OPERATOR, values, "icdc", "lake")
    files = [item["data"] for item in objects if item["kind"] == "ConfigMap"]
    assert [list(data) for data in files] == [["iceberg-cdc-pipelines.json"]]
    assert json.loads(files[0]["iceberg-cdc-pipelines.json"]) == DASHBOARD


def test_a_driver_is_read_where_it_shows_its_metrics_with_the_name_of_its_pipeline(
    helm: Helm,
) -> None:
    values = nest_values({"crds.install": False, "metrics.podMonitor.enabled": True})
    objects = helm.render(OPERATOR, values, "icdc", "lake")
    (spec,) = (item["spec"] for item in objects if item["kind"] == "PodMonitor")
    assert [endpoint["path"] for endpoint in spec["podMetricsEndpoints"]] == [METRICS_PATH]
    assert spec["podTargetLabels"] == [naming.LABEL_PIPELINE]


def show_shop(metrics: Metrics) -> None:
    """Show a pipeline that had something of everything, and waits after two failures."""
    verification = Verification(at=NOW, equal=True, missing=0, extra=0, different=0)
    tables = (make_caught_up(dead_letters=3, verification=verification),)
    failure = Failure.of(errors.SourceUnavailable("no answer"))
    before = PipelineStatus(
        observed_generation=1,
        tables=tables,
        consecutive_failures=2,
        last_run=run_record(state=RunState.FAILED, finished_at=NOW, failure=failure),
        next_attempt_time=NOW + timedelta(days=1),
        recent_runs=(run_record(state=RunState.SUCCEEDED, finished_at=NOW),),
    )
    observed = make_observed(make_spec(verify={"every": "24h"}), before)
    status = decide(observed, NOW).status
    metrics.show(SHOP, status)
    used = tuple(UsedResource(kind=kind, used=1, limit=2) for kind in ResourceKind)
    report = make_report(*tables, open_sessions=("shop.orders",), resources=used)
    seen = make_seen(RunPhase.RUNNING, report=report)
    metrics.show_usage(SHOP, measure(observed, status, seen))
    metrics.show_run(SHOP, seen)


def scrape_operator() -> Iterator[Scrape]:
    """Yield ten scrapes of an operator at work, one a minute."""
    metrics = Metrics(now=lambda: NOW)
    given = options.parse(["--all-namespaces", "--image", "spark:1"], {})
    # Its constructor alone shows what is read of its parts; it sends no request.
    Operator(given, ClusterApi(cast(Any, None)), metrics, {})
    show_shop(metrics)
    failure_class = errors.SourceUnavailable("").failure_class.value
    for minute in reversed(range(10)):
        metrics.reconciles.labels("done").inc()
        metrics.reconcile_seconds.observe(0.02)
        metrics.runs.labels("Changelog", "Failed", failure_class).inc()
        metrics.run_start_seconds.observe(20)
        metrics.run_wait_seconds.observe(0)
        metrics.head_reads.labels("read").inc()
        metrics.count_request("get", "pods", 200)
        text = metrics.render().decode()
        yield Scrape(NOW - timedelta(minutes=minute), text, {"namespace": "lake"})


def scrape_driver() -> Iterator[Scrape]:
    """Yield the recording of a driver, as a PodMonitor scrapes it."""
    labels = {"namespace": SHOP.namespace, "pod": "shop-e1-1-driver", PIPELINE: SHOP.name}
    for minute in range(10):
        text = RECORDING.read_text(encoding="utf-8")
        yield Scrape(NOW - timedelta(minutes=minute), text, labels)


def fill(expression: str, chosen: Mapping[str, str]) -> PromQuery:
    """Return the query as Grafana sends it."""
    for name, value in {"__rate_interval": "5m", **chosen}.items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression
    return PromQuery(expression, NOW)


def read_values(query: str) -> PromQuery:
    """Return the question behind `label_values(SERIES, LABEL)`, which Grafana itself answers."""
    (series, label) = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()  # type: ignore[union-attr]
    return fill(f"group by ({label}) ({series})", {"namespace": ".*"})


def test_one_chooses_among_the_namespaces_and_the_pipelines_that_there_are() -> None:
    variables = {
        item["name"]: read_values(item["query"])
        for item in DASHBOARD["templating"]["list"]
        if item["type"] == "query"
    }
    answers = promql.ask(scrape_operator(), list(variables.values()))
    found = [answer.labels[name] for name, (answer,) in zip(variables, answers, strict=True)]
    assert found == list(SHOP)


@pytest.mark.parametrize(("namespace", "name"), [(".*", ".*"), SHOP], ids=["all", "one"])
def test_every_query_of_a_dashboard_returns_data(namespace: str, name: str) -> None:
    variables = {"namespace": namespace, "name": name}
    questions = [fill(target["expr"], variables) for target in TARGETS]
    assert len(questions) > 30
    answers = promql.ask([*scrape_operator(), *scrape_driver()], questions)
    for question, target, series in zip(questions, TARGETS, answers, strict=True):
        assert series, question.expr
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        for one in series:
            assert not math.isnan(one.value), question.expr
            assert named <= one.labels.keys(), question.expr


def test_a_query_of_pipelines_answers_for_the_chosen_one_alone() -> None:
    of_pipelines = [target["expr"] for target in TARGETS if "$namespace" in target["expr"]]
    assert len(of_pipelines) > 15
    for namespace, name in (("team", "other"), ("other", "shop")):
        questions = [fill(each, {"namespace": namespace, "name": name}) for each in of_pipelines]
        answers = promql.ask([*scrape_operator(), *scrape_driver()], questions)
        for question, series in zip(questions, answers, strict=True):
            # `or vector(0)` answers with the number of none.
            assert not any(one.labels or one.value for one in series), question.expr
