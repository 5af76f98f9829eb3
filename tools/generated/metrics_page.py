"""Writes docs/reference/metrics.md: every metric, and the expression of every alert.

Metrics are read from the source that creates them, as `icdc explain` does; alerts from the template
of the chart, with the default values of the chart in place of Helm's expressions. What an alert
means, and the cure, is in docs/words.md, where the alerts themselves lead to.

    expr: icdc_lag_seconds > {{ .lagSeconds }}    icdc_lag_seconds > 3600

`--check` fails where the page differs, `--write` writes it (`pages`).
"""

import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from icdc_cli.explanations import metrics
from icdc_cli.explanations.alerts import ALERTS
from icdc_cli.explanations.sources import MetricText
from pages import REFERENCE, ROOT, escape_cell, write_or_check

PAGE = REFERENCE / "metrics.md"
_CHART = ROOT / "charts" / "iceberg-cdc-operator"
_TOP = """\
<!-- Made from operator/icdc_operator and the chart by `make reference`. Do not edit. -->
# Metrics and alerts

The operator shows its metrics at `/metrics` of the port `metrics` (8080). The chart's values
`metrics.serviceMonitor.enabled` and `metrics.prometheusRule.enabled` make Prometheus read them and
watch them ([chart](../../charts/iceberg-cdc-operator/README.md)). `icdc explain NAME` explains a
metric or an alert without a network.

## Metrics of the operator
`namespace` and `name` are those of the pipeline. A series of a pipeline ends when the pipeline is
deleted. No series is about a single table, snapshot or run, so their number grows with that of
pipelines alone: about 45 for each.

Beside these are what Prometheus's client library says of the process (`process_cpu_seconds_total`,
`process_resident_memory_bytes`, `process_open_fds`) and of Python (`python_info`, `python_gc_*`).

| metric | type | labels | what it shows | alert |
|---|---|---|---|---|
"""
_DRIVERS = """
## Metrics of runs
Drivers have no metrics of ours. They show Spark's own about themselves and their executors, such as
memory, tasks, shuffle and garbage collection, at `/metrics/executors/prometheus/` of the port
`spark-ui` ([Spark's list](https://spark.apache.org/docs/latest/monitoring.html)). The chart's value
`metrics.podMonitor.enabled` makes Prometheus read them, with the pipeline's name as the label
`icebergcdc_dev_pipeline`. Progress and lag of a run are metrics of the operator.

## Dashboard
`metrics.dashboards.enabled` creates a dashboard for Grafana with the metrics of the operator and of
drivers, for the namespaces and pipelines that you choose in it. Single tables are in the status:
`icdc status NAME`.

## Alerts
With the default values of the chart. `NAMESPACE` is that of the operator, `PODS` the pattern of the
names of its pods. The name of an alert leads to what it means, who acts, and the cure, as its
`runbook_url` does.

| alert | expression | for | severity |
|---|---|---|---|
"""


class AlertRule(NamedTuple):
    """An alert as it is installed."""

    name: str
    """The name of the alert."""
    expression: str
    """Its expression in PromQL."""
    duration: str
    """How long the expression must be true; empty for no time."""
    severity: str
    """Its label `severity`."""


def render_page() -> str:
    """Return the whole page: metrics by name, alerts in the order of the chart."""
    rows = (_render_row(*entry) for entry in metrics.read_metrics().items())
    rules = (
        f"| [{rule.name}](../words.md#{rule.name.lower()}) | {escape_cell(f'`{rule.expression}`')} "
        f"| {rule.duration} | {rule.severity} |\n"
        for rule in read_rules()
    )
    return "".join((_TOP, *rows, _DRIVERS, *rules))


def _render_row(name: str, metric: MetricText) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    watched = ", ".join(
        f"[{alert.word}](../words.md#{alert.word.lower()})"
        for alert in ALERTS
        if alert.metric == name
    )
    cells = (f"`{name}`", metric.kind, labels, escape_cell(metric.text), watched)
    return f"| {' | '.join(cells)} |\n"


def read_rules() -> Iterator[AlertRule]:
    """Yield the alerts of the chart."""
    values = yaml.safe_load((_CHART / "values.yaml").read_text(encoding="utf-8"))
    text = (_CHART / "templates" / "alerts.yaml").read_text(encoding="utf-8")
    # As text: the expressions of Helm in it are no YAML.
    for part in re.split(r"- alert: ", text)[1:]:
        fields = dict(re.findall(r"^ *(expr|for|labels): (.*)$", part, re.MULTILINE))
        expression = _fill_in(fields["expr"], values["metrics"]["prometheusRule"])
        severity = yaml.safe_load(fields["labels"])["severity"]
        yield AlertRule(part.split()[0], expression, fields.get("for", ""), severity)


def _fill_in(expression: str, values: dict[str, Any]) -> str:
    """Return an expression with values in place of what Helm replaces; KeyError for others."""
    operator = 'namespace="NAMESPACE",pod=~"PODS"'
    filled = re.sub(r" ?\{\{- \$operator -\}\} ?", operator, expression)
    return re.sub(r"\{\{ \.(\w+) \| int64 \}\}", lambda match: str(values[match[1]]), filled)


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: render_page}, "reference"))
