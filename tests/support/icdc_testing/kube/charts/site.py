"""The operator's chart on a real API server, as tests use it. Knows no single value of it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from icdc_api import naming
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.charts import helm
from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm, Object
from icdc_testing.kube.rights import Right
from icdc_testing.waiting import wait

RELEASE = "iceberg-cdc-operator"
"""Named like the chart, so that the names of its objects do not repeat it."""


@dataclass(frozen=True)
class ChartSite:
    """The server, and Helm for it."""

    kube: KubeApi
    """The API server."""
    helm: Helm
    """Helm with its kubeconfig."""

    def check_accepted(self, objects: list[Object]) -> None:
        """Assert that the server accepts the objects, without unknown fields; nothing is stored."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        how = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
        self.kube.kubectl.run_ok(*how, stdin=text)

    @contextmanager
    def install_release(self, namespace: str, **flat: Any) -> Iterator[None]:
        """Install the operator's chart; with the CRD only where `flat` asks for it.

        The CRD must then not stay: the next release, in another namespace, could not adopt it.
        """
        values = helm.nest_values({"crds.install": False, **flat})
        self.helm.run_ok("install", RELEASE, str(OPERATOR), "-n", namespace, values=values)
        try:
            yield
        finally:
            self.helm.run_ok("uninstall", RELEASE, "-n", namespace)
            if values["crds"]["install"]:
                here = ("get", naming.CRD_NAME, "-n", namespace)
                wait.wait_until(lambda: self.kube.kubectl.run(*here).code != 0, "the kind is gone")

    def serves(self, namespace: str) -> bool:
        """Return whether the server has the CRD."""
        return self.kube.kubectl.run("get", naming.CRD_NAME, "-n", namespace).code == 0

    def check_rights(self, account: str, namespace: str, wanted: set[Right]) -> None:
        """Assert that these are the permissions, once the server has read the roles it stores."""
        try:
            wait.wait_until(
                lambda: self.review_rights(account, namespace) == wanted,
                "the permissions are those",
            )
        except AssertionError as error:
            different = sorted(self.review_rights(account, namespace) ^ wanted)
            raise AssertionError(f"{error}; of {account} in {namespace}: {different}") from error

    def review_rights(self, account: str, namespace: str) -> set[Right]:
        """Return the permissions of `account` in `namespace`, by a review of the server."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        answer = self.kube.kubectl.read_object(
            "create", "--validate=false", "-f", "-", f"--as={account}", stdin=json.dumps(review)
        )
        return {
            (group, resource, verb)
            for rule in answer["status"]["resourceRules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            if not resource.startswith("selfsubject")  # which everybody has
        }
