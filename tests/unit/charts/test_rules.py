"""Alerts of pipelines fire when they should, by their expressions and rendered metrics.

Only as much of PromQL is evaluated here as these expressions have; any other form is an error.
"""

import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from icdc_api import errors
from icdc_api.status.pipeline_status import PipelineStatus, TableReason, Verification
from icdc_api.status.runs import Failure, RunState
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.core.decide import decide
from icdc_operator.core.limits.usage import measure
from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.operator.deciding.pipelines import (
    NOW,
    make_caught_up,
    make_observed,
    make_spec,
    make_stalled,
    run_record,
)

pytestmark = pytest.mark.unit

HOUR = timedelta(hours=1)
SHOP = PipelineKey("team", "shop")
TEMPLATE = (OPERATOR / "templates" / "alerts.yaml").read_text(encoding="utf-8")
VALUES = yaml.safe_load((OPERATOR / "values.yaml").read_text(encoding="utf-8"))

GAP = make_stalled(TableReason.GAP)

Vector = Mapping[PipelineKey, float]
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {">": operator.gt, "==": operator.eq}


def read_expression(alert: str) -> str:
    """Return the expression of an alert with the chart's default values."""
    (expression,) = re.findall(rf"- alert: {alert}\n +expr: (.*)\n", TEMPLATE)
    rule = VALUES["metrics"]["prometheusRule"]
    return re.sub(r"\{\{ \.(\w+) \| int64 \}\}", lambda match: str(rule[match[1]]), expression)


class Scrape:
    """What Prometheus reads of `metrics` at `now`."""

    def __init__(self, metrics: Metrics, now: datetime) -> None:
        families = text_string_to_metric_families(metrics.render().decode())
        self._samples = [sample for family in families for sample in family.samples]
        self._now = now

    def find_firing(self, expression: str) -> Vector:
        """Return the pipelines for which `expression` has a value."""
        included, _, left_out = expression.partition(" unless on (namespace, name) ")
        excluded = self.find_firing(left_out) if left_out else {}
        left, sign, right = re.split(" (>|==) ", included)
        lefts, rights = self._compute(left), self._compute(right)
        return {
            key: value
            for key, value in lefts.items()
            if key in rights and _COMPARISONS[sign](value, rights[key]) and key not in excluded
        }

    def _compute(self, term: str) -> Vector:
        if " * " in term:
            factor, _, vector = term.partition(" * ")
            return {key: float(factor) * value for key, value in self._compute(vector).items()}
        if term.startswith("time() - "):
            times = self._compute(term.removeprefix("time() - "))
            return {key: self._now.timestamp() - value for key, value in times.items()}
        if re.fullmatch(r"[0-9.]+", term):
            return {SHOP: float(term)}
        selector = re.fullmatch(r"(icdc_\w+)(?:\{(.*)\})?", term)
        assert selector is not None, term
        wanted = dict(re.findall(r'(\w+)="(\w+)"', selector[2] or ""))
        return {
            PipelineKey(sample.labels["namespace"], sample.labels["name"]): sample.value
            for sample in self._samples
            if sample.name == selector[1] and wanted.items() <= sample.labels.items()
        }


def is_firing(alert: str, status: PipelineStatus, *, suspend: bool, after: timedelta) -> bool:
    """Return whether `alert` fires `after` the last reconcile, with nothing done in between."""
    moment = NOW + after
    observed = make_observed(make_spec(suspend=suspend), status)
    decision = decide(observed, NOW)
    metrics = Metrics(now=lambda: moment)
    metrics.show(SHOP, decision.status)
    metrics.show_usage(SHOP, measure(observed, decision.status, None))
    return bool(Scrape(metrics, moment).find_firing(read_expression(alert)))


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
    waits: dict[str, Any] = {"last_run": failed, "next_attempt_time": NOW + timedelta(days=1)}
    return PipelineStatus(
        observed_generation=1,
        **(waits | {"tables": (make_caught_up(**fields),)} | more),
    )


def make_compared(**result: Any) -> PipelineStatus:
    """Return a pipeline whose only table was compared with its index."""
    verification = Verification(at=NOW, missing=0, extra=0, **result)
    return make_status(None, tables=(make_caught_up(verification=verification),))


@pytest.mark.parametrize(
    ("behind", "suspend", "after", "fires"),
    [
        pytest.param(None, False, 9 * HOUR, False, id="caught up"),
        pytest.param(HOUR / 2, False, timedelta(0), False, id="half an hour behind"),
        pytest.param(HOUR / 2, False, HOUR, True, id="waiting for an hour since"),
        pytest.param(2 * HOUR, False, timedelta(0), True, id="two hours behind"),
        pytest.param(2 * HOUR, True, timedelta(0), False, id="suspended"),
    ],
)
def test_the_alert_of_the_lag_fires_while_a_pipeline_waits(
    behind: timedelta | None, suspend: bool, after: timedelta, fires: bool
) -> None:
    status = make_status(behind)
    assert is_firing("IcebergCDCPipelineLags", status, suspend=suspend, after=after) is fires


@pytest.mark.parametrize(
    ("alert", "status", "fires"),
    [
        ("IcebergCDCPipelineStalled", make_status(None), False),
        ("IcebergCDCPipelineStalled", make_status(None, tables=(GAP,)), True),
        ("IcebergCDCPipelineFailing", make_status(None, consecutive_failures=3), False),
        ("IcebergCDCPipelineFailing", make_status(None, consecutive_failures=4), True),
        ("IcebergCDCDeadLetters", make_status(None, dead_letters=8000), False),
        ("IcebergCDCDeadLetters", make_status(None, dead_letters=8001), True),
        ("IcebergCDCIndexDiffers", make_status(None), False),
        ("IcebergCDCIndexDiffers", make_compared(equal=True, different=0), False),
        ("IcebergCDCIndexDiffers", make_compared(equal=False, different=2), True),
        ("IcebergCDCIndexDiffers", make_compared(equal=False, different=2, repaired=2), False),
    ],
)
def test_an_alert_fires_beyond_its_bound(alert: str, status: PipelineStatus, fires: bool) -> None:
    assert is_firing(alert, status, suspend=False, after=timedelta(0)) is fires


def test_every_alert_of_pipelines_can_be_evaluated() -> None:
    group = TEMPLATE.split("- name: iceberg-cdc-operator")[0]
    alerts = re.findall(r"- alert: (\w+)", group)
    assert len(alerts) >= 5
    for alert in alerts:
        is_firing(alert, make_status(None), suspend=False, after=timedelta(0))
