"""The charts as files: their paths, and their values.yaml. Runs no Helm."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from icdc_testing import ROOT

CHARTS = ROOT / "charts"
OPERATOR = CHARTS / "iceberg-cdc-operator"
PIPELINES = CHARTS / "iceberg-cdc-pipelines"
DEMO = CHARTS / "iceberg-cdc-demo"
ALL = (OPERATOR, PIPELINES, DEMO)

WHOLE = frozenset({"resources", "podSecurityContext", "securityContext"})
"""The last parts of values that count as one although they have parts: their form is that of
Kubernetes."""

Values = dict[str, Any]


def read_values(chart: Path) -> Values:
    """Return the values in values.yaml."""
    values: Values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    return values


def list_leaves(group: Values, above: str = "") -> Iterator[str]:
    """Yield the paths of the values that are no groups of others, such as `image.tag`."""
    for name, value in group.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value and name not in WHOLE and not path.endswith("labels"):
            yield from list_leaves(value, f"{path}.")
        else:
            yield path
