"""Judge the pipelines of a namespace by what they refer to, and by their status. Pure."""

from collections.abc import Callable, Iterator

from icdc_api.errors import BadSpec
from icdc_api.spec.cautions import find_cautions
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.secrets import describe_missing_keys
from icdc_cli.cluster import status
from icdc_cli.doctor.cluster import pod_needs
from icdc_cli.doctor.cluster.cluster_checks import judge_pods, list_arguments, report_unread
from icdc_cli.doctor.cluster.cluster_facts import ClusterFacts, Listed, PipelineFacts
from icdc_cli.doctor.cluster.pod_needs import SecretNeed
from icdc_cli.doctor.findings import Finding, blame, confirm, skip, warn
from icdc_cli.explanations import cures
from icdc_operator.cluster.kube.api_errors import ClusterError
from icdc_operator.manifests.pods import refused_values

Check = Callable[[PipelineFacts, PipelineSpec, ClusterFacts], Iterator[Finding]]


def list_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """Yield the findings of every pipeline, then those of their pods."""
    if isinstance(facts.pipelines, ClusterError):
        yield report_unread("pipelines", facts.pipelines)
        return
    if not facts.pipelines:
        all_of_them = "kubectl get icdc --all-namespaces"
        yield skip("pipelines", f"there is none in {facts.namespace}", all_of_them)
    for pipeline in facts.pipelines:
        yield _judge_status(pipeline, facts.namespace)
        if isinstance(pipeline.spec, BadSpec):
            edit = f"kubectl edit icdc {pipeline.name} -n {facts.namespace}"
            yield blame(f"spec of {pipeline.name}", pipeline.spec.message, edit)
            continue
        for check in CHECKS:
            yield from check(pipeline, pipeline.spec, facts)
    if isinstance(facts.driver_pods, Listed):
        yield from judge_pods(facts.driver_pods, facts)
    else:
        yield report_unread("pods of drivers", facts.driver_pods)


def _judge_status(pipeline: PipelineFacts, namespace: str) -> Finding:
    check, where = f"pipeline {pipeline.name}", f"{pipeline.name} -n {namespace}"
    try:
        current = status.parse_status_of(pipeline.resource)
    except BadSpec as error:
        # No problem of the pipeline: the operator that wrote the status can read it.
        return warn(check, error.message, "install the icdc of the operator's version")
    if current.observed_generation is None:
        return blame(check, "no operator has seen it", "see the finding about the operator")
    _, message = status.choose_exit(current)
    if message:
        return blame(check, message, f"icdc status {where}, then icdc explain REASON")
    return confirm(check, current.phase.value)


def check_cautions(
    pipeline: PipelineFacts, spec: PipelineSpec, facts: ClusterFacts
) -> Iterator[Finding]:
    """Repeat what the condition SpecValid warns of."""
    for caution in find_cautions(spec):
        yield warn(f"spec of {pipeline.name}", caution, _edit(pipeline, facts))


def check_refused_values(
    pipeline: PipelineFacts, spec: PipelineSpec, facts: ClusterFacts
) -> Iterator[Finding]:
    """Judge what an operator of this version refuses, which the one before may have accepted."""
    try:
        refused_values.check(spec.spark, trusted=_is_trusted(facts))
    except BadSpec as error:
        for line in error.message.splitlines():
            yield blame(f"spec of {pipeline.name}", line, _edit(pipeline, facts))


def _is_trusted(facts: ClusterFacts) -> bool:
    """Return whether the operator trusts the namespace; also where nobody knows that."""
    if isinstance(facts.operators, ClusterError) or not facts.operators.items:
        return True
    flags = {f"--trusted-namespace={name}" for name in (facts.namespace, "*")}
    return any(not flags.isdisjoint(list_arguments(one)) for one in facts.operators.items)


def check_secrets(
    pipeline: PipelineFacts, spec: PipelineSpec, facts: ClusterFacts
) -> Iterator[Finding]:
    """Judge the Secrets that the pods need, by the names of their keys."""
    for need in pod_needs.list_secrets(spec):
        yield _judge_secret(pipeline, need, facts)


def _judge_secret(pipeline: PipelineFacts, need: SecretNeed, facts: ClusterFacts) -> Finding:
    check = f"Secret {need.name} ({need.where} of {pipeline.name})"
    keys = facts.secrets.get(need.name)
    if isinstance(keys, ClusterError):
        # Not `get -o yaml`, which shows the values.
        return skip(
            check, keys.message, f"kubectl describe secret {need.name} -n {facts.namespace}"
        )
    create = f"kubectl create secret generic {need.name} -n {facts.namespace} --from-file=KEY=FILE"
    if keys is None:
        return blame(check, f"does not exist in {facts.namespace}", create)
    if need.key:
        missing = "" if need.key in keys else f"key {need.key}"
    else:
        missing = describe_missing_keys(need.where, keys)
    if missing:
        patch = f"{create} --dry-run=client -o yaml | kubectl apply -f -"
        return blame(check, f"has no {missing}", f"{patch}  # with all its keys")
    return confirm(check)


def check_account(
    pipeline: PipelineFacts, spec: PipelineSpec, facts: ClusterFacts
) -> Iterator[Finding]:
    """Judge the service account of the driver."""
    name = spec.spark.driver.service_account
    check = f"service account {name} of {pipeline.name}"
    exists = facts.accounts.get(name, False)
    if isinstance(exists, ClusterError):
        yield report_unread(check, exists)
    elif exists:
        yield confirm(check)
    else:
        # Not `kubectl create`: the chart makes the account together with its Role.
        add = cures.set_value(f"'jobNamespaces={{...,{facts.namespace}}}'")
        yield blame(check, f"does not exist in {facts.namespace}", add)


def check_storage_classes(
    pipeline: PipelineFacts, spec: PipelineSpec, facts: ClusterFacts
) -> Iterator[Finding]:
    """Judge the storage classes of volumes."""
    for where, name in pod_needs.list_storage_classes(spec):
        check = f"storage class {name or '(default)'} ({where} of {pipeline.name})"
        classes = facts.storage_classes
        if isinstance(classes, ClusterError):
            yield report_unread(check, classes)
        # Kubernetes reports no error then: the claim, and with it the pod, just stays Pending.
        elif name is None and not any(classes.values()):
            yield blame(check, "the cluster has no default class", _edit(pipeline, facts, where))
        elif name is not None and name not in classes:
            text = f"does not exist; there are {', '.join(sorted(classes)) or 'none'}"
            yield blame(check, text, _edit(pipeline, facts, where))
        else:
            yield confirm(check)


def check_priority_classes(
    pipeline: PipelineFacts, spec: PipelineSpec, facts: ClusterFacts
) -> Iterator[Finding]:
    """Judge the priority classes of pods."""
    for where, name in pod_needs.list_priority_classes(spec):
        check = f"priority class {name} ({where} of {pipeline.name})"
        if isinstance(facts.priority_classes, ClusterError):
            yield report_unread(check, facts.priority_classes)
        elif name in facts.priority_classes:
            yield confirm(check)
        else:
            yield blame(check, "does not exist", f"kubectl create priorityclass {name} --value=N")


def _edit(pipeline: PipelineFacts, facts: ClusterFacts, where: str = "") -> str:
    command = f"kubectl edit icdc {pipeline.name} -n {facts.namespace}"
    return f"{command}  # {where}" if where else command


CHECKS: tuple[Check, ...] = (
    check_cautions,
    check_refused_values,
    check_secrets,
    check_account,
    check_storage_classes,
    check_priority_classes,
)
