"""Read a cluster for `icdc doctor`, with the rights of whoever calls. Changes nothing: reviews of
access are created, but not stored.
"""

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

import icdc_api
from icdc_api import naming
from icdc_api.crd import loading
from icdc_api.errors import BadSpec
from icdc_api.spec.pipeline import PipelineSpec
from icdc_cli.cluster.session import Target
from icdc_cli.doctor.cluster import cluster_facts, pod_needs, rights
from icdc_cli.doctor.cluster.cluster_checks import list_arguments, watches
from icdc_cli.doctor.cluster.cluster_facts import ClusterFacts, Listed, PipelineFacts
from icdc_cli.doctor.cluster.rights import Grants, NeededAccess
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.api_errors import ClusterError, Denied, NotFound, Unavailable
from icdc_operator.cluster.kube.kinds import Kind, Resource

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"

Value = TypeVar("Value")


async def read_cluster(target: Target) -> ClusterFacts:
    """Return what could be read. BadSpec if there is no pipeline of the given name.

    If the API server does not answer, only that error is returned.
    """
    api, namespace = target.api, target.namespace
    facts = ClusterFacts(
        namespace=namespace,
        client_version=icdc_api.__version__,
        now=datetime.now(UTC),
        version=await _try(api.ask("GET", "/version")),
    )
    # Each further request would wait for its own time-out.
    if isinstance(facts.version, Unavailable):
        return facts
    crd = await _try(api.get(kinds.CRD, None, naming.CRD_NAME))
    facts = replace(
        facts,
        crd=crd,
        spark_crd=await _try(api.get(kinds.CRD, None, cluster_facts.SPARK_CRD)),
        operators=await _list_operators(api, cluster_facts.DEPLOYMENT, namespace),
        operator_pods=await _list_operators(api, kinds.POD, namespace),
        spark_operators=await _list_wide(
            api, cluster_facts.DEPLOYMENT, namespace, cluster_facts.SPARK_SELECTOR
        ),
        pipelines=await _read_pipelines(target, crd),
        caller=await _review(api, rights.PERSON, namespace, None),
    )
    return await _read_needs(api, facts)


async def _try(reading: Awaitable[Value]) -> Value | ClusterError:
    """Return what is read, or the error of the API server."""
    try:
        return await reading
    except ClusterError as error:
        return error


async def _list_operators(api: ClusterApi, kind: Kind, namespace: str) -> Listed | ClusterError:
    return await _list_wide(api, kind, namespace, cluster_facts.OPERATOR_SELECTOR)


async def _list_wide(
    api: ClusterApi, kind: Kind, namespace: str, selector: str
) -> Listed | ClusterError:
    """Return the objects of all namespaces; of the pipelines' own where others are not shown."""
    try:
        return Listed(tuple(await api.list_objects(kind, None, selector=selector)))
    except Denied:
        listed = await _try(api.list_objects(kind, namespace, selector=selector))
    except ClusterError as error:
        return error
    return listed if isinstance(listed, ClusterError) else Listed(tuple(listed), everywhere=False)


async def _read_pipelines(
    target: Target, crd: Resource | ClusterError | None
) -> tuple[PipelineFacts, ...] | ClusterError:
    if target.name:
        pipeline = await _try(target.api.get_pipeline(target.namespace, target.name))
        if pipeline is None and crd is not None:
            pipeline = await target.read_pipeline()  # raises the error that every command has
        listed = [pipeline] if isinstance(pipeline, dict) else pipeline or []
    else:
        listed = await _try(target.api.list_objects(kinds.PIPELINE, target.namespace))
    if isinstance(listed, NotFound):
        return ()  # no CRD, which is a finding of its own
    if isinstance(listed, ClusterError):
        return listed
    return tuple(PipelineFacts(resource, _parse_spec(resource)) for resource in listed)


def _parse_spec(resource: Resource) -> PipelineSpec | BadSpec:
    # Without the two where it comes from a list.
    typed = {**resource, "apiVersion": naming.API_VERSION, "kind": naming.KIND}
    source = f"{naming.SINGULAR}/{resource['metadata']['name']}"
    try:
        return loading.parse_stored(typed, source=source).spec
    except BadSpec as error:
        return error


async def _read_needs(api: ClusterApi, facts: ClusterFacts) -> ClusterFacts:
    """Return the facts with all that the pipelines refer to."""
    pipelines = facts.pipelines if isinstance(facts.pipelines, tuple) else ()
    specs = [one.spec for one in pipelines if not isinstance(one.spec, BadSpec)]
    namespace = facts.namespace
    secrets = {need.name for spec in specs for need in pod_needs.list_secrets(spec)}
    accounts = sorted({spec.spark.driver.service_account for spec in specs})
    # Asked only where needed: classes belong to no namespace, and most people may not list them.
    has_storage = any(any(pod_needs.list_storage_classes(spec)) for spec in specs)
    has_priority = any(any(pod_needs.list_priority_classes(spec)) for spec in specs)
    return replace(
        facts,
        secrets={name: await _read_keys(api, namespace, name) for name in sorted(secrets)},
        accounts={
            name: await _has(api, cluster_facts.SERVICE_ACCOUNT, namespace, name)
            for name in accounts
        },
        storage_classes=await _read_storage_classes(api) if has_storage else {},
        priority_classes=await _read_priority_classes(api) if has_priority else frozenset(),
        driver_pods=await _read_driver_pods(api, namespace, pipelines),
        grants=await _review_accounts(api, facts, accounts),
    )


async def _read_keys(
    api: ClusterApi, namespace: str, name: str
) -> frozenset[str] | ClusterError | None:
    """Return the names of a Secret's keys; the values are dropped here."""
    secret = await _try(api.get(kinds.SECRET, namespace, name))
    return frozenset(secret.get("data") or ()) if isinstance(secret, dict) else secret


async def _has(api: ClusterApi, kind: Kind, namespace: str, name: str) -> bool | ClusterError:
    answer: Resource | ClusterError | None = await _try(api.get(kind, namespace, name))
    return answer if isinstance(answer, ClusterError) else answer is not None


async def _read_storage_classes(api: ClusterApi) -> Mapping[str, bool] | ClusterError:
    listed = await _try(api.list_objects(cluster_facts.STORAGE_CLASS, None))
    if isinstance(listed, ClusterError):
        return listed
    metadata = [one["metadata"] for one in listed]
    return {
        str(one["name"]): (one.get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
        for one in metadata
    }


async def _read_priority_classes(api: ClusterApi) -> frozenset[str] | ClusterError:
    listed = await _try(api.list_objects(cluster_facts.PRIORITY_CLASS, None))
    if isinstance(listed, ClusterError):
        return listed
    return frozenset(str(one["metadata"]["name"]) for one in listed)


async def _read_driver_pods(
    api: ClusterApi, namespace: str, pipelines: Iterable[PipelineFacts]
) -> Listed | ClusterError:
    pods: list[Resource] = []
    for pipeline in pipelines:
        listed = await _try(api.list_driver_pods(namespace, pipeline.name))
        if isinstance(listed, ClusterError):
            return listed
        pods += listed
    return Listed(tuple(pods))


async def _review_accounts(
    api: ClusterApi, facts: ClusterFacts, drivers: Iterable[str]
) -> dict[str, Grants | ClusterError]:
    """Return what operators and drivers may do in the namespace of the pipelines."""
    wanted: dict[str, tuple[NeededAccess, ...]] = {}
    operators = facts.operators.items if isinstance(facts.operators, Listed) else ()
    for deployment in operators:
        if watches(deployment, facts.namespace):
            # Kubernetes gives a pod that names no account the one called `default`.
            name = deployment["spec"]["template"]["spec"].get("serviceAccountName", "default")
            # Only with this flag the chart grants the account any Secret.
            reads = "--read-catalog-secrets" in list_arguments(deployment)
            more = rights.CATALOG_SECRETS if reads else ()
            wanted[f"{deployment['metadata']['namespace']}:{name}"] = (*rights.OPERATOR, *more)
    wanted |= {f"{facts.namespace}:{name}": rights.DRIVER for name in drivers}
    return {
        account: await _review(api, accesses, facts.namespace, account)
        for account, accesses in wanted.items()
    }


async def _review(
    api: ClusterApi, accesses: Iterable[NeededAccess], namespace: str, account: str | None
) -> Grants | ClusterError:
    grants: dict[NeededAccess, bool] = {}
    for access in accesses:
        review = rights.build_review(access, namespace, account)
        path = f"/apis/{rights.AUTHORIZATION}/{review['kind'].lower()}s"
        answer = await _try(api.ask("POST", path, review))
        # A caller who may not create one review may create none: the first refusal stands for all.
        if isinstance(answer, ClusterError):
            return answer
        grants[access] = bool((answer.get("status") or {}).get("allowed"))
    return grants
