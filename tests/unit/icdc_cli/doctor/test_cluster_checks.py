"""Each thing that can be wrong with a cluster is named with its cure, one at a time."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from icdc_api.crd import generator
from icdc_api.errors import BadSpec
from icdc_api.spec.catalog import SecretRef, SecretSource
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.spark import EphemeralVolume, LocalVolume
from icdc_cli.doctor.cluster import cluster_findings, rights
from icdc_cli.doctor.cluster.cluster_checks import find_watched
from icdc_cli.doctor.cluster.cluster_facts import ClusterFacts, Listed, PipelineFacts
from icdc_cli.doctor.cluster.rights import NeededAccess
from icdc_cli.doctor.findings import Finding, Result, choose_exit
from icdc_operator.cluster.kube.api_errors import Denied, Unavailable
from icdc_testing import ROOT
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

Object = dict[str, Any]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DENIED = Denied('list secrets: cannot list resource "secrets"')
OPERATOR, DRIVER = "icdc:icdc", "team:icdc-spark"


def build_crd(**version: object) -> Object:
    (ours,) = generator.build_document()["spec"]["versions"]
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return {"spec": {"versions": [{**ours, **version}]}, "status": established}


def make_deployment(
    *arguments: str, replicas: int = 1, ready: int = 1, version: str = "1.0"
) -> Object:
    container = {"name": "main", "args": list(arguments)}
    return {
        "metadata": {
            "name": "main",
            "namespace": "icdc",
            "labels": {"app.kubernetes.io/version": version},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "icdc"}},
            "template": {"spec": {"serviceAccountName": "icdc", "containers": [container]}},
        },
        "status": {"availableReplicas": ready},
    }


def make_pipeline(*properties: str) -> PipelineSpec:
    spec = make_spec("shop.orders")
    source = SecretSource(secret_ref=SecretRef(name="search"))
    opensearch = spec.sink.opensearch.model_copy(update={"credentials_from": source})
    volume = LocalVolume(ephemeral=EphemeralVolume(size="1Gi", storage_class_name="fast"))
    template = {"spec": {"priorityClassName": "high", "imagePullSecrets": [{"name": "registry"}]}}
    driver = spec.spark.driver.model_copy(update={"template": template})
    conf = dict.fromkeys(properties, "https://files.test/a.jar")
    changes = {"driver": driver, "local_volumes": (volume,), "conf": conf}
    spark = spec.spark.model_copy(update=changes)
    sink = spec.sink.model_copy(update={"opensearch": opensearch})
    return spec.model_copy(update={"spark": spark, "sink": sink})


def make_facts(spec: PipelineSpec | BadSpec, **status: object) -> tuple[PipelineFacts, ...]:
    written = {"observedGeneration": 1, **status}
    return (PipelineFacts({"metadata": {"name": "shop"}, "status": written}, spec),)


def grant(accesses: tuple[NeededAccess, ...], *, without: str = "") -> dict[NeededAccess, bool]:
    return {access: str(access) != without for access in accesses}


def make_pod(reason: str) -> Object:
    waiting = {"reason": reason, "message": "no such tag"}
    status = {"name": "main", "state": {"waiting": waiting}}
    return {
        "metadata": {"name": "shop-e1-1-driver", "namespace": "team"},
        "status": {"phase": "Pending", "containerStatuses": [status]},
    }


SPEC = make_pipeline()
GOOD = ClusterFacts(
    namespace="team",
    client_version="1.0",
    now=NOW,
    version={"gitVersion": "v1.34.1"},
    crd=build_crd(),
    spark_crd={"spec": {"versions": [{"name": "v1beta2", "served": True}]}},
    operators=Listed((make_deployment("--namespace=team"),)),
    spark_operators=Listed((make_deployment("controller", "start", "--namespaces=default,team"),)),
    pipelines=make_facts(SPEC),
    secrets={"search": frozenset({"username", "password"}), "registry": frozenset({"x"})},
    accounts={"icdc-spark": True},
    storage_classes={"fast": False},
    priority_classes=frozenset({"high"}),
    caller=grant(rights.PERSON),
    grants={OPERATOR: grant(rights.OPERATOR), DRIVER: grant(rights.DRIVER)},
)


def alter(**changes: Any) -> ClusterFacts:
    return replace(GOOD, **changes)


def list_bad(given: ClusterFacts) -> list[Finding]:
    return [one for one in cluster_findings.list_findings(given) if one.result is not Result.OK]


def test_a_cluster_in_which_all_is_well_has_no_finding_but_ok() -> None:
    assert list_bad(GOOD) == []


SECRET = "Secret search (spec.sink.opensearch.credentialsFrom of shop)"
STORAGE = "storage class fast (spec.spark.localVolumes[0].ephemeral.storageClassName of shop)"
STALLED = {
    "type": "Stalled",
    "status": "True",
    "reason": "Gap",
    "message": "shop.orders: Gap",
    "lastTransitionTime": "2026-03-01T12:00:00Z",
}


@pytest.mark.parametrize(
    ("broken", "result", "check", "observation", "cure"),
    [
        (alter(version=Unavailable("cannot be reached")), "Problem", "API server",
         "cannot be reached", "kubectl get --raw /readyz"),
        (alter(crd=None), "Problem", "CRD icebergcdcpipelines.icebergcdc.dev",
         "is not installed", "icdc crd | kubectl apply --server-side"),
        (alter(crd=build_crd(served=False)), "Problem", "CRD icebergcdcpipelines.icebergcdc.dev",
         "does not serve v1alpha1", "icdc crd | kubectl apply"),
        (alter(crd={**build_crd(), "status": {}}), "Problem",
         "CRD icebergcdcpipelines.icebergcdc.dev", "not established", "kubectl describe crd"),
        (alter(crd=build_crd(schema={})), "Warning", "CRD icebergcdcpipelines.icebergcdc.dev",
         "is not that of this icdc (1.0)", "icdc crd | kubectl apply"),
        (alter(crd=DENIED), "NotChecked", "CRD icebergcdcpipelines.icebergcdc.dev",
         "cannot list", "ask for the permission"),
        (alter(operators=Listed()), "Problem", "operator", "is not installed",
         "helm install icdc CHART --namespace team"),
        (alter(operators=Listed(everywhere=False)), "NotChecked", "operator",
         "of others may not be listed", "an administrator"),
        (alter(operators=Listed((make_deployment("--namespace=team", ready=0),))), "Problem",
         "operator icdc/main", "no pod that is ready", "kubectl describe pods -n icdc -l app=icdc"),
        (alter(operators=Listed((make_deployment("--namespace=team", replicas=0),))), "Problem",
         "operator icdc/main", "scaled to 0", "kubectl describe pods"),
        (alter(operators=Listed((make_deployment("--namespace=team", version="0.9"),))), "Warning",
         "operator icdc/main", "is of version 0.9, this icdc of 1.0", "==0.9"),
        (alter(operators=Listed((make_deployment("--namespace=team", version=""),))), "Warning",
         "operator icdc/main", "is of version unknown, this icdc of 1.0", "kubectl describe pods"),
        (alter(operators=Listed((make_deployment("--namespace=other"),))), "Problem",
         "operator", "none watches the namespace team", "watchNamespaces={...,team}"),
        (alter(operator_pods=Listed((make_pod("ImagePullBackOff"),))), "Problem",
         "pod team/shop-e1-1-driver", "ImagePullBackOff", "icdc explain ImagePull"),
        (alter(operator_pods=DENIED), "NotChecked", "pods of the operator",
         "cannot list", "ask for the permission"),
        (alter(spark_crd=None), "Problem", "CRD sparkapplications.sparkoperator.k8s.io",
         "not installed", "helm install spark-operator"),
        (alter(spark_crd={"spec": {"versions": [{"name": "v1beta1", "served": True}]}}), "Problem",
         "CRD sparkapplications.sparkoperator.k8s.io", "no v1beta2", "helm install spark-operator"),
        (alter(spark_operators=Listed()), "Problem", "spark-operator",
         "is not installed", "--set 'spark.jobNamespaces={team}'"),
        (alter(spark_operators=Listed((make_deployment("--namespaces=default"),))), "Problem",
         "namespaces of spark-operator", "watches default, not team",
         "spark.jobNamespaces={default,team}"),
        (alter(spark_operators=Listed((make_deployment("--namespace-selector=a=b"),))),
         "NotChecked", "namespaces of spark-operator", "by their labels", "--show-labels"),
        (alter(spark_operators=Listed((make_deployment(ready=0),))), "Problem",
         "spark-operator icdc/main", "no pod that is ready", "kubectl describe pods"),
        (alter(caller=grant(rights.PERSON, without="get pods/log")), "Warning", "your permissions",
         "get pods/log is missing in team, for icdc logs", "kubectl create rolebinding"),
        (alter(grants={OPERATOR: grant(rights.OPERATOR, without="delete pods")}), "Problem",
         "permissions of icdc:icdc", "missing in team: delete pods",
         '{apiGroups: [""], resources: [pods], verbs: [delete]}'),
        (alter(grants={DRIVER: DENIED}), "NotChecked", "permissions of team:icdc-spark",
         "cannot list", "kubectl auth can-i --list -n team --as system:serviceaccount:team:"),
        (alter(pipelines=()), "NotChecked", "pipelines", "there is none in team", "kubectl get"),
        (alter(pipelines=make_facts(BadSpec("spec.tables: empty"))), "Problem", "spec of shop",
         "spec.tables: empty", "kubectl edit icdc shop -n team"),
        (alter(pipelines=make_facts(SPEC, observedGeneration=None)), "Problem", "pipeline shop",
         "no operator has seen it", "the finding about the operator"),
        (alter(pipelines=make_facts(SPEC, conditions=[STALLED])), "Problem", "pipeline shop",
         "shop.orders: Gap", "icdc status shop -n team, then icdc explain"),
        (alter(pipelines=make_facts(SPEC, fromTheFuture=1)), "Warning", "pipeline shop",
         "another version", "install the icdc of the operator's version"),
        (alter(secrets={**GOOD.secrets, "search": None}), "Problem", SECRET,
         "does not exist in team", "kubectl create secret generic search -n team"),
        (alter(secrets={**GOOD.secrets, "search": frozenset({"username"})}), "Problem", SECRET,
         "has no key password", "kubectl apply -f -"),
        (alter(secrets={**GOOD.secrets, "search": DENIED}), "NotChecked", SECRET,
         "cannot list", "kubectl describe secret search -n team"),
        (alter(secrets={**GOOD.secrets, "registry": None}), "Problem",
         "Secret registry (spec.spark.driver.template.imagePullSecrets of shop)",
         "does not exist", "kubectl create secret generic registry"),
        # It has no Role to which permissions could be added.
        (alter(accounts={"icdc-spark": False},
               grants={DRIVER: dict.fromkeys(rights.DRIVER, False)}),
         "Problem", "service account icdc-spark of shop", "does not exist in team",
         "jobNamespaces={...,team}"),
        (alter(pipelines=make_facts(make_pipeline("spark.jars"))), "Problem", "spec of shop",
         "['spark.jars']: allowed only in trusted", "kubectl edit icdc shop -n team"),
        (alter(storage_classes={"slow": True}), "Problem", STORAGE,
         "does not exist; there are slow", "kubectl edit icdc shop"),
        (alter(priority_classes=frozenset()), "Problem",
         "priority class high (spec.spark.driver.template of shop)", "does not exist",
         "kubectl create priorityclass high"),
        (alter(driver_pods=Listed((make_pod("ErrImagePull"),))), "Problem",
         "pod team/shop-e1-1-driver", "ErrImagePull: no such tag", "icdc explain ImagePull"),
    ],
)  # fmt: skip
def test_one_broken_thing_is_one_finding_with_its_cure(
    broken: ClusterFacts, result: str, check: str, observation: str, cure: str
) -> None:
    (finding,) = list_bad(broken)
    assert (finding.result, finding.check) == (result, check)
    assert observation in finding.observation
    assert cure in finding.cure


@pytest.mark.parametrize(
    "fact",
    [
        *("spark_crd", "operators", "spark_operators", "pipelines", "storage_classes"),
        *("priority_classes", "driver_pods", "caller"),
    ],
)
def test_what_may_not_be_read_is_no_problem_and_the_rest_is_judged(fact: str) -> None:
    (finding,) = list_bad(alter(**{fact: DENIED}))
    assert (finding.result, finding.observation) == (Result.NOT_CHECKED, DENIED.message)


@pytest.mark.parametrize("flag", ["--trusted-namespace=team", "--trusted-namespace=*"])
def test_a_trusted_namespace_is_known_by_the_operators_flags(flag: str) -> None:
    trusting = Listed((make_deployment("--namespace=team", flag),))
    given = alter(pipelines=make_facts(make_pipeline("spark.jars")), operators=trusting)
    assert list_bad(given) == []
    (unread,) = list_bad(replace(given, operators=DENIED))
    assert unread.check == "operator"


def test_only_a_server_that_does_not_answer_is_code_3() -> None:
    away = alter(version=Unavailable("cannot be reached"))
    assert choose_exit(cluster_findings.list_findings(away)) == 3
    assert choose_exit(cluster_findings.list_findings(alter(crd=None))) == 1
    assert choose_exit(cluster_findings.list_findings(alter(crd=DENIED))) == 0


@pytest.mark.parametrize(
    ("arguments", "watched"),
    [
        (("--namespaces=a,b",), ("a", "b")),
        (('--namespaces=""',), ()),
        (("--namespaces=",), ()),
        ((), ()),
        (("--namespace-selector=team=a",), None),
    ],
)
def test_the_namespaces_of_spark_operator_are_read_from_its_arguments(
    arguments: tuple[str, ...], watched: tuple[str, ...] | None
) -> None:
    assert find_watched(make_deployment("controller", "start", *arguments)) == watched


@pytest.mark.parametrize(
    ("file", "rules"),
    [
        ("operator-rules", rights.OPERATOR),
        ("catalog-secrets-rules", rights.CATALOG_SECRETS),
        ("driver-rules", rights.DRIVER),
    ],
)
def test_the_rules_are_those_of_the_chart(file: str, rules: tuple[NeededAccess, ...]) -> None:
    path = ROOT / "charts" / "iceberg-cdc-operator" / "files" / f"{file}.yaml"
    chart = {
        NeededAccess(group, resource, verb)
        for rule in yaml.safe_load(path.read_text(encoding="utf-8"))
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert set(rules) == chart


def test_a_default_storage_class_is_enough_where_none_is_named() -> None:
    volume = LocalVolume(ephemeral=EphemeralVolume(size="1Gi"))
    spark = SPEC.spark.model_copy(update={"local_volumes": (volume,)})
    spec = SPEC.model_copy(update={"spark": spark})
    given = alter(pipelines=make_facts(spec))
    assert list_bad(replace(given, storage_classes={"fast": True})) == []
    (finding,) = list_bad(given)
    assert finding.observation == "the cluster has no default class"
