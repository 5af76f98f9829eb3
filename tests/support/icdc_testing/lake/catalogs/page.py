"""The examples of docs/catalogs.md, as the tests read them, and as they point them at this host.

Knows the page and what its services would be asked for; starts nothing.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from icdc_testing import ROOT

PAGE = ROOT / "docs" / "catalogs.md"
_BLOCK = re.compile(r"```yaml (\S+)\n(.*?)```", re.DOTALL)

NAMESPACE, TABLE = "shop", "orders"
_TABLE = f"namespaces/{NAMESPACE}/tables/{TABLE}"

ASKED = {
    "rest": ("POST /oauth/tokens", "GET /api/v1/config?warehouse=lake", f"GET /api/v1/{_TABLE}"),
    "polaris": (
        "POST /api/catalog/v1/oauth/tokens",
        "GET /api/catalog/v1/config?warehouse=lake",
        f"GET /api/catalog/v1/{_TABLE}",
    ),
    "unity": (
        "POST /oidc/v1/token",
        "GET /api/2.1/unity-catalog/iceberg-rest/v1/config?warehouse=main",
        f"GET /api/2.1/unity-catalog/iceberg-rest/v1/{_TABLE}",
    ),
    "s3tables": (
        "GET /iceberg/v1/config"
        "?warehouse=arn%3Aaws%3As3tables%3Aeu-west-1%3A111122223333%3Abucket%2Flake",
        f"GET /iceberg/v1/{_TABLE}",
    ),
    "nessie": ("GET /iceberg/main/v1/config?warehouse=lake", f"GET /iceberg/main/v1/{_TABLE}"),
    "glue": ("POST / AWSGlue.GetTable",),
    "dynamodb": ("POST / DynamoDB_20120810.DescribeTable", "POST / DynamoDB_20120810.GetItem"),
    "nessie-api": ("GET /api/v2/config", "GET /api/v2/trees/main"),
}
"""What the service of each example is asked for, up to the table, in this order."""

WITHOUT_SERVICE = frozenset({"hive", "jdbc", "sqlite", "hadoop"})
"""Examples that speak no HTTP."""


@dataclass(frozen=True)
class Example:
    """One block of the page."""

    label: str
    catalog: dict[str, Any]
    """As below `spec`."""
    secret: dict[str, Any] = field(default_factory=dict)
    """The Secret, where it names one."""

    @property
    def name(self) -> str:
        """Return the name of the catalog."""
        return str(self.catalog.get("name", "lake"))

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties for Iceberg."""
        return {**self.catalog["properties"], **self.secret.get("stringData", {})}

    def localize(self, service: str, closed: str, folder: Path) -> dict[str, str]:
        """Return the properties with all that is far away replaced.

        `service` is the URL that stands for any of HTTP, `closed` an address where nobody listens,
        `folder` the place of files.
        """
        endpoints = {
            "glue": {"glue.endpoint": service},
            "dynamodb": {"dynamodb.endpoint": service},
        }
        near = {
            key: re.sub(r"//[\w.]*\.example\.com:\d+", f"//{closed}", value)
            for key, value in self.properties.items()
        }
        for key, value in near.items():
            at_home = re.sub(r"^https://[^/]+", service, value)
            near[key] = at_home.replace("/srv/lake", str(folder))
        return {**near, **endpoints.get(self.label, {})}


def read_examples() -> dict[str, Example]:
    """Return all blocks of the page by their label."""
    by_label = {}
    for label, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        documents = list(yaml.safe_load_all(text))
        assert label not in by_label, f"{label} stands twice in {PAGE.name}"
        by_label[label] = Example(label, documents[0]["catalog"], *documents[1:])
    return by_label
