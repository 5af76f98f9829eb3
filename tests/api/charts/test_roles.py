"""Which Secrets the operator may read, and which names the ClusterRoles of two releases have."""

from typing import Any

import pytest

from icdc_testing.kube.charts.files import OPERATOR
from icdc_testing.kube.charts.helm import Helm, Object, nest_values

pytestmark = pytest.mark.api

KINDS = ("Role", "ClusterRole")


def list_roles(
    helm: Helm, release: str = "icdc", namespace: str = "lake", **values: Any
) -> list[Object]:
    given = nest_values({"crds.install": False, **values})
    objects = helm.render(OPERATOR, given, release, namespace)
    return [item for item in objects if item["kind"] in KINDS]


def reads_secrets(role: Object) -> bool:
    return any("secrets" in rule["resources"] for rule in role["rules"])


def find_secret_namespaces(roles: list[Object]) -> list[str]:
    """Return where Secrets may be read; `*`: in all namespaces."""
    return [role["metadata"].get("namespace", "*") for role in roles if reads_secrets(role)]


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [
        ({"watchNamespaces": ["a", "b"]}, ["a", "b"]),
        ({"watchNamespaces": ["a", "b"], "rbac.clusterRole": True}, ["a", "b"]),
        ({"rbac.clusterRole": True}, ["lake"]),
        ({"watchAllNamespaces": True}, ["*"]),
        ({"watchAllNamespaces": True, "rbac.clusterRole": True}, ["*"]),
    ],
    ids=str,
)
def test_secrets_are_read_in_watched_namespaces_only(
    values: dict[str, Any], namespaces: list[str], helm: Helm
) -> None:
    assert find_secret_namespaces(list_roles(helm, **values)) == []
    roles = list_roles(helm, readCatalogSecrets=True, **values)
    assert find_secret_namespaces(roles) == namespaces


def test_no_two_releases_have_a_cluster_role_of_one_name(helm: Helm) -> None:
    releases = [("prod-icdc", "lake"), ("icdc", "lake-prod"), ("icdc-view", "lake-prod")]
    names = [
        role["metadata"]["name"]
        for release, namespace in releases
        for role in list_roles(
            helm, release, namespace, watchAllNamespaces=True, fullnameOverride=release
        )
        if role["kind"] == "ClusterRole"
    ]
    assert len(names) == 4 * len(releases)
    assert len(set(names)) == len(names)
