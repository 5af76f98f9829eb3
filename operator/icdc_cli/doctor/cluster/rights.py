"""The permissions in Kubernetes that an installation needs, and how to ask for them.

The rules are those of the chart (charts/iceberg-cdc-operator/files/*-rules.yaml), which the package
does not contain; a test compares them. A person asks about himself by SelfSubjectAccessReview,
which everybody may; about the accounts of operator and drivers by SubjectAccessReview, which
administrators may.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from icdc_api import naming
from icdc_operator.cluster.kube.kinds import Resource

AUTHORIZATION = "authorization.k8s.io/v1"


@dataclass(frozen=True)
class NeededAccess:
    """One verb on one kind of objects."""

    group: str
    """API group; empty for the core group."""
    resource: str
    """Plural, with its subresource after a slash."""
    verb: str
    """Such as get."""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


Grants = Mapping[NeededAccess, bool]
"""Whether an account has each access that it needs."""

_PODS = "pods"
# Spark deletes what it has made by label, in one request: deletecollection.
_OF_DRIVER = {
    # patch: for labels of executors, and for the report on the driver's own pod.
    _PODS: "get list watch create patch delete deletecollection",
    "configmaps": "list create delete deletecollection",
    # spark-operator creates the driver's Service, and the driver deletes it at its end.
    "services": "list delete deletecollection",
    # For claims that spec.spark.conf makes Spark create; Kubernetes creates those of localVolumes.
    "persistentvolumeclaims": "list create delete deletecollection",
}
_OF_PERSON = {(naming.GROUP, naming.PLURAL): "get list patch", ("", _PODS): "list"}


def _expand(rules: Mapping[tuple[str, str], str]) -> tuple[NeededAccess, ...]:
    return tuple(
        NeededAccess(group, resource, verb)
        for (group, resource), verbs in rules.items()
        for verb in verbs.split()
    )


OPERATOR = _expand(
    {
        # patch: of metadata alone, for the finalizer of deletionPolicy DeleteIndices.
        (naming.GROUP, naming.PLURAL): "get list watch patch",
        (naming.GROUP, f"{naming.PLURAL}/status"): "patch",
        ("sparkoperator.k8s.io", "sparkapplications"): "get list watch create delete",
        # A run has its request in one.
        ("", "configmaps"): "get create delete",
        # delete: so a driver is asked to end.
        ("", _PODS): "get list watch delete",
        ("events.k8s.io", "events"): "create",
    }
)
"""Of the operator, in each namespace of pipelines."""

CATALOG_SECRETS = _expand({("", "secrets"): "get"})
"""Of the operator as well, if it was started with --read-catalog-secrets."""

DRIVER = _expand({("", resource): verbs for resource, verbs in _OF_DRIVER.items()})
"""Of the service account of drivers, in the namespace of their pipelines."""

PERSON = (*_expand(_OF_PERSON), NeededAccess("", "pods/log", "get"))
"""Of whoever uses `icdc` with a cluster."""

COMMANDS: Mapping[NeededAccess, str] = {
    NeededAccess(naming.GROUP, naming.PLURAL, "get"): "every command",
    NeededAccess(naming.GROUP, naming.PLURAL, "list"): "icdc doctor and icdc report without a NAME",
    NeededAccess(
        naming.GROUP, naming.PLURAL, "patch"
    ): "icdc pause, resume, restart, resync, rollback, plan, verify, dead-letters",
    NeededAccess("", _PODS, "list"): "icdc logs, plan, verify, dead-letters",
    NeededAccess("", "pods/log", "get"): "icdc logs",
}
"""What a person cannot do without an access."""


def build_review(access: NeededAccess, namespace: str, account: str | None) -> Resource:
    """Return the question whether an account (`namespace:name`) has the access; None: oneself."""
    # A review has the subresource in a field of its own, the rules of a Role behind a slash.
    resource, _, below = access.resource.partition("/")
    attributes: dict[str, Any] = {
        "namespace": namespace,
        "verb": access.verb,
        "group": access.group,
        "resource": resource,
        **({"subresource": below} if below else {}),
    }
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    kind = "SelfSubjectAccessReview"
    if account is not None:
        kind = "SubjectAccessReview"
        own = account.partition(":")[0]
        # A review takes the groups as given, and what is granted to all accounts is granted by
        # them.
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{own}", "system:authenticated")
        spec |= {"user": f"system:serviceaccount:{account}", "groups": list(groups)}
    return {"apiVersion": AUTHORIZATION, "kind": kind, "spec": spec}


def list_missing(grants: Grants) -> list[NeededAccess]:
    """Return what is not granted."""
    return [access for access, granted in grants.items() if not granted]


def format_rules(missing: Iterable[NeededAccess]) -> str:
    """Return rules of a Role that grant the accesses.

    get pods, list pods    {apiGroups: [""], resources: [pods], verbs: [get, list]}
    """
    return ", ".join(_merge_rules(missing))


def _merge_rules(missing: Iterable[NeededAccess]) -> Iterator[str]:
    verbs: dict[tuple[str, str], list[str]] = {}
    for access in missing:
        verbs.setdefault((access.group, access.resource), []).append(access.verb)
    for (group, resource), names in verbs.items():
        yield f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{", ".join(names)}]}}'
