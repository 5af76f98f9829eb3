"""The rights that the chart gives, bound to ServiceAccounts of a test's namespace.

Nobody in the tests writes a Role for the operator or a driver: what is shipped is what is tested.
"""

import json
from typing import Any

import yaml

from icdc_testing import ROOT
from icdc_testing.kube.stored_pipelines import Pipelines

FILES = ROOT / "charts" / "iceberg-cdc-operator" / "files"

OPERATOR = "operator-rules"
LEASE = "operator-lease-rules"
CATALOG_SECRETS = "catalog-secrets-rules"
DRIVER = "driver-rules"

Rule = dict[str, Any]
Right = tuple[str, str, str]
"""API group, resource (with its subresource) and verb."""


def read_rules(*names: str) -> list[Rule]:
    """Return the rules in the files of these names, as a Role has them."""
    texts = [(FILES / f"{name}.yaml").read_text(encoding="utf-8") for name in names]
    return [rule for text in texts for rule in yaml.safe_load(text)]


def list_rights(*names: str) -> set[Right]:
    """Return the same, one by one."""
    return {
        (group, resource, verb)
        for rule in read_rules(*names)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def create_account(pipelines: Pipelines, name: str, *names: str) -> str:
    """Make the ServiceAccount with a Role of exactly the rules in these files; return its name."""
    pipelines.run_ok("create", "serviceaccount", name)
    grant(pipelines, name, read_rules(*names))
    whom = f"--serviceaccount={pipelines.namespace}:{name}"
    pipelines.run_ok("create", "rolebinding", name, f"--role={name}", whom)
    return name


def grant(pipelines: Pipelines, name: str, granted: list[Rule]) -> None:
    """Make these the rules of the Role."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": granted,
    }
    pipelines.run_ok("apply", "-f", "-", stdin=json.dumps(role))
