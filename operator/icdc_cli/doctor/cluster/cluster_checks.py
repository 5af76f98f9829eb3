"""Judge a cluster: API server, CRDs, operators and the permissions of their accounts. Pure.

Everything comes as `cluster_reading` read it. Of pipelines: `pipeline_checks`.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from icdc_api import naming
from icdc_api.crd import generator
from icdc_cli.doctor.cluster import rights
from icdc_cli.doctor.cluster.cluster_facts import SPARK_CRD, ClusterFacts, Listed
from icdc_cli.doctor.findings import Finding, blame, blame_server, confirm, skip, warn
from icdc_cli.explanations import cures
from icdc_operator.cluster.kube.api_errors import ClusterError, Denied
from icdc_operator.cluster.kube.kinds import Resource
from icdc_operator.cluster.runs import pod_failures
from icdc_operator.manifests import spark_kind

INSTALL = "helm install icdc CHART --namespace {namespace}  # as the README says"
APPLY_CRD = "icdc crd | kubectl apply --server-side --force-conflicts -f -"
INSTALL_SPARK = (
    "helm install spark-operator spark-operator --repo "
    "https://kubeflow.github.io/spark-operator --namespace spark-operator --create-namespace "
    # By default it watches the namespace default alone.
    "--set 'spark.jobNamespaces={{{namespace}}}'"
)

Check = Callable[[ClusterFacts], Iterator[Finding]]


def report_unread(check: str, error: ClusterError) -> Finding:
    """Return the finding for what could not be read: a problem only if the server is away."""
    # A person rarely may read everything: that says nothing about the installation.
    if isinstance(error, Denied):
        return skip(check, error.message, "ask for the permission, or let an administrator call")
    return blame_server(check, error.message, "kubectl get --raw /readyz", may_pass=error.retryable)


def check_server(facts: ClusterFacts) -> Iterator[Finding]:
    """Judge whether the API server answers."""
    if isinstance(facts.version, ClusterError):
        yield report_unread("API server", facts.version)
    else:
        yield confirm("API server", f"Kubernetes {facts.version.get('gitVersion')}")


def check_crd(facts: ClusterFacts) -> Iterator[Finding]:
    """Judge our CRD: there, served, and of the schema of this client."""
    check, crd = f"CRD {naming.CRD_NAME}", facts.crd
    if isinstance(crd, ClusterError):
        yield report_unread(check, crd)
        return
    if crd is None:
        yield blame(check, "is not installed", APPLY_CRD)
        return
    version = _find_version(crd, naming.VERSION)
    if version is None or not version.get("served"):
        yield blame(check, f"does not serve {naming.VERSION}", APPLY_CRD)
    # A CRD is stored before it is accepted: one whose names another CRD has is never served.
    elif not _is_established(crd):
        yield blame(check, "is not established", f"kubectl describe crd {naming.CRD_NAME}")
    elif not _has_our_schema(version):
        yield warn(
            check,
            f"is not that of this icdc ({facts.client_version}): fields may be missing or refused",
            f"{APPLY_CRD}  # or install the icdc of the operator's version",
        )
    else:
        yield confirm(check, f"{naming.VERSION}, that of this icdc")


def _has_our_schema(version: Resource) -> bool:
    # Not by its name, which is v1alpha1 in every release, whatever fields it has.
    return bool(version.get("schema") == _build_schema())


@cache
def _build_schema() -> Any:
    (ours,) = generator.build_document()["spec"]["versions"]
    return ours["schema"]


def _find_version(crd: Resource, name: str) -> Resource | None:
    versions = crd.get("spec", {}).get("versions") or ()
    return next((version for version in versions if version.get("name") == name), None)


def _is_established(crd: Resource) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def check_operator(facts: ClusterFacts) -> Iterator[Finding]:
    """Judge the Deployment of this operator."""
    check = "operator"
    if isinstance(facts.operators, ClusterError):
        yield report_unread(check, facts.operators)
        return
    if not facts.operators.items:
        yield _report_absent(check, facts.operators, INSTALL.format(namespace=facts.namespace))
        return
    for deployment in facts.operators.items:
        yield from _judge_operator(deployment, facts)
    # Once for all of them: several operators may share a cluster, each with its own namespaces.
    if not any(watches(one, facts.namespace) for one in facts.operators.items):
        add = cures.set_value(f"'watchNamespaces={{...,{facts.namespace}}}'")
        yield blame(check, f"none watches the namespace {facts.namespace}", add)


def _judge_operator(deployment: Resource, facts: ClusterFacts) -> Iterator[Finding]:
    metadata = deployment["metadata"]
    check = f"operator {metadata['namespace']}/{metadata['name']}"
    pods = f"kubectl describe pods -n {metadata['namespace']} -l {_format_selector(deployment)}"
    fault = describe_readiness(deployment)
    if fault is not None:
        yield blame(check, fault, pods)
    version = (metadata.get("labels") or {}).get(naming.LABEL_VERSION)
    if version != facts.client_version:
        text = f"is of version {version or 'unknown'}, this icdc of {facts.client_version}"
        # Without the label nobody knows which version to install.
        cure = f"pip install 'iceberg-cdc-operator[cli]=={version}'" if version else pods
        yield warn(check, text, cure)
    elif fault is None:
        yield confirm(check, f"{version}, ready")


def describe_readiness(deployment: Resource) -> str | None:
    """Return why no pod of a Deployment is available; None if one is."""
    # Before the count of ready pods, which is 0 then too: no pod exists whose events would say why.
    if deployment.get("spec", {}).get("replicas") == 0:
        return "is scaled to 0 replicas"
    # One is enough: of several replicas only the one that holds the Lease works.
    ready = (deployment.get("status") or {}).get("availableReplicas") or 0
    return None if ready else "has no pod that is ready"


def watches(deployment: Resource, namespace: str) -> bool:
    """Return whether this operator reconciles pipelines of the namespace, by its arguments."""
    arguments = list_arguments(deployment)
    # Whole words, since the chart writes each flag and its value as one argument.
    return "--all-namespaces" in arguments or f"--namespace={namespace}" in arguments


def list_arguments(deployment: Resource) -> list[str]:
    """Return the arguments of all containers of a Deployment."""
    containers: Any = deployment["spec"].get("template", {}).get("spec", {}).get("containers") or ()
    return [
        str(argument)
        for container in containers
        for argument in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]


def _format_selector(deployment: Resource) -> str:
    labels: dict[str, str] = deployment["spec"].get("selector", {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _report_absent(check: str, listed: Listed, install: str) -> Finding:
    if not listed.everywhere:
        text = "none in this namespace, and Deployments of others may not be listed"
        return skip(check, text, "let an administrator call icdc doctor")
    return blame(check, "is not installed", install)


def check_operator_pods(facts: ClusterFacts) -> Iterator[Finding]:
    """Judge why pods of the operator wait, such as for their image."""
    if isinstance(facts.operator_pods, Listed):
        yield from judge_pods(facts.operator_pods, facts)
    else:
        yield report_unread("pods of the operator", facts.operator_pods)


def judge_pods(pods: Listed, facts: ClusterFacts) -> Iterator[Finding]:
    """Yield a problem for each pod that does not run for a known reason."""
    for pod in pods.items:
        failure = pod_failures.explain_not_running(pod, facts.now)
        if failure is not None:
            where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            cure = f"icdc explain {failure.failure_class.value}"
            yield blame(f"pod {where}", failure.message, cure)


def check_spark_operator(facts: ClusterFacts) -> Iterator[Finding]:
    """Judge spark-operator: its CRD, its controller, and the namespaces that it watches."""
    # Both are judged: Helm never deletes a CRD, so it may be left of an operator that was removed.
    check, crd = f"CRD {SPARK_CRD}", facts.spark_crd
    install = INSTALL_SPARK.format(namespace=facts.namespace)
    if isinstance(crd, ClusterError):
        yield report_unread(check, crd)
    elif crd is None:
        yield blame(check, "spark-operator is not installed", install)
    else:
        version = _find_version(crd, spark_kind.API_VERSION.partition("/")[2])
        served = version is not None and version.get("served")
        yield confirm(check) if served else blame(check, "serves no v1beta2", install)
    if isinstance(facts.spark_operators, ClusterError):
        yield report_unread("spark-operator", facts.spark_operators)
    elif facts.spark_operators.items:
        yield from _judge_spark_operators(facts.spark_operators.items, facts.namespace)
    else:
        yield _report_absent("spark-operator", facts.spark_operators, install)


def _judge_spark_operators(deployments: tuple[Resource, ...], namespace: str) -> Iterator[Finding]:
    for deployment in deployments:
        metadata = deployment["metadata"]
        check = f"spark-operator {metadata['namespace']}/{metadata['name']}"
        fault = describe_readiness(deployment)
        pods = f"kubectl describe pods -n {metadata['namespace']} -l {_format_selector(deployment)}"
        yield confirm(check, "ready") if fault is None else blame(check, fault, pods)
    scopes = [find_watched(deployment) for deployment in deployments]
    if None in scopes:
        text = "selects namespaces by their labels (--namespace-selector)"
        yield skip(
            "namespaces of spark-operator", text, f"kubectl get namespace {namespace} --show-labels"
        )
    elif not any(watched == () or namespace in (watched or ()) for watched in scopes):
        names = ", ".join(sorted({name for watched in scopes for name in watched or ()}))
        yield blame(
            "namespaces of spark-operator",
            f"watches {names}, not {namespace}",
            "helm upgrade spark-operator spark-operator --repo "
            "https://kubeflow.github.io/spark-operator -n SPARK_OPERATOR --reset-then-reuse-values "
            f"--set 'spark.jobNamespaces={{{names.replace(' ', '')},{namespace}}}'",
        )
    else:
        yield confirm("namespaces of spark-operator", f"{namespace} is watched")


def find_watched(deployment: Resource) -> tuple[str, ...] | None:
    """Return the namespaces that spark-operator watches; empty: all; None: chosen by labels.

    [controller, start, --namespaces=default,team]    default, team
    [controller, start, --namespaces=""]              all
    [controller, start]                               all
    """
    arguments = list_arguments(deployment)
    if any(argument.startswith("--namespace-selector=") for argument in arguments):
        return None
    for argument in arguments:
        if match := re.fullmatch(r'--namespaces="?([^"]*)"?', argument):
            names = tuple(filter(None, match[1].split(",")))
            # A list with an empty name stands for all, as spark-operator has it.
            return names if "" not in match[1].split(",") else ()
    return ()


def check_caller(facts: ClusterFacts) -> Iterator[Finding]:
    """Judge the permissions of whoever calls."""
    check = "your permissions"
    if isinstance(facts.caller, ClusterError):
        yield report_unread(check, facts.caller)
        return
    missing = rights.list_missing(facts.caller)
    for access in missing:
        bind = f"kubectl create rolebinding icdc-edit -n {facts.namespace} --clusterrole=edit"
        text = f"{access} is missing in {facts.namespace}, for {rights.COMMANDS[access]}"
        # Only a warning: pipelines run without the permissions of the caller.
        yield warn(check, text, f"{bind} --user=YOU  # by an administrator")
    # Without a review no permission is missing either, and nothing was shown.
    if facts.caller and not missing:
        yield confirm(check, f"enough for every command in {facts.namespace}")


def check_accounts(facts: ClusterFacts) -> Iterator[Finding]:
    """Judge the permissions of the accounts of operators and drivers by the chart's rules."""
    absent = {f"{facts.namespace}:{name}" for name, there in facts.accounts.items() if not there}
    for account, grants in facts.grants.items():
        if account in absent:
            continue  # it has no Role to add to: the chart makes both, as its own finding says
        check = f"permissions of {account}"
        if isinstance(grants, ClusterError):
            # The usual case: only administrators may review the access of other accounts.
            ask = f"kubectl auth can-i --list -n {facts.namespace} --as system:serviceaccount:"
            yield skip(check, grants.message, f"{ask}{account}")
        elif missing := rights.list_missing(grants):
            text = f"missing in {facts.namespace}: {', '.join(map(str, missing))}"
            yield blame(check, text, f"add to its Role: {rights.format_rules(missing)}")
        else:
            yield confirm(check, f"those of the chart, in {facts.namespace}")


CHECKS: tuple[Check, ...] = (
    check_server,
    check_crd,
    check_operator,
    check_operator_pods,
    check_spark_operator,
    check_caller,
    check_accounts,
)
