"""The charts as files: where they are, and what their values.yaml holds. Runs no Helm."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHARTS = Path(__file__).parents[4] / "charts"
OPERATOR = CHARTS / "iceberg-cdc-operator"
PIPELINES = CHARTS / "iceberg-cdc-pipelines"
BOTH = (OPERATOR, PIPELINES)

WHOLE = frozenset({"resources", "heads.resources", "podSecurityContext", "securityContext"})
"""Values with parts that are one value all the same: their form is that of Kubernetes."""

Values = dict[str, Any]


def values(chart: Path) -> Values:
    """What values.yaml says."""
    found: Values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    return found


def leaves(found: Values, above: str = "") -> Iterator[str]:
    """The paths of the values that are not groups of others."""
    for name, value in found.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value and path not in WHOLE and not path.endswith("labels"):
            yield from leaves(value, f"{path}.")
        else:
            yield path
