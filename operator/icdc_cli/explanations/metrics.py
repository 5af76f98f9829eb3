"""Metrics, by the help text that Prometheus shows, which is read where each is created.

A metric by itself needs nobody; where an alert watches it, that alert says who acts.
"""

from icdc_cli.explanations import sources
from icdc_cli.explanations.alerts import ALERTS
from icdc_cli.explanations.entry import NOT_NEEDED, Explanation, Family
from icdc_cli.explanations.sources import MetricText

_PATHS = tuple(f"cluster/{name}.py" for name in ("metrics", "pipeline_metrics", "operator_process"))
_SUFFIXES = ("_total", "_created", "_bucket", "_sum", "_count")
"""What the client library appends to the name of a counter or a histogram."""


def list_metrics() -> list[Explanation]:
    """Return all metrics of the operator, by name."""
    return [_explain(name, metric.text) for name, metric in read_metrics().items()]


def read_metrics() -> dict[str, MetricText]:
    """Return what the source says of all metrics of the operator, by name."""
    texts: dict[str, MetricText] = {}
    for path in _PATHS:
        texts |= sources.read_metrics("icdc_operator", path)
    return dict(sorted(texts.items()))


def trim_suffix(name: str) -> str:
    """Return the name of the metric without the suffix of a series, such as `_sum`."""
    suffix = next((one for one in _SUFFIXES if name.endswith(one)), "")
    return name.removesuffix(suffix)


def _explain(name: str, text: str) -> Explanation:
    watching = next((alert for alert in ALERTS if alert.metric == name), None)
    if watching is None:
        return Explanation(name, Family.METRIC, text, NOT_NEEDED)
    cure = (f"icdc explain {watching.word}  # the alert that watches it",)
    return Explanation(name, Family.METRIC, text, watching.who_acts, cure)
