"""The charts on a real API server: what it takes, what is granted, what comes, stays and goes.

No node runs a pod here, so nothing waits for one. The server is these tests' own, because the
definition of pipelines belongs to one release only.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api import naming
from icdc_testing.kube import operator_process, rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.charts import helm
from icdc_testing.kube.charts.files import DEMO, OPERATOR, PIPELINES
from icdc_testing.kube.charts.helm import Helm, Object
from icdc_testing.kube.charts.site import RELEASE, ChartSite
from icdc_testing.kube.stored_pipelines import Pipelines
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api

MONITORS = Path(__file__).parent / "monitors.yaml"
EVERYTHING = {
    "replicaCount": 2,
    "readCatalogSecrets": True,
    "networkPolicy.enabled": True,
    "networkPolicy.metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
    "networkPolicy.egress": [{"ports": [{"port": 6443, "protocol": "TCP"}]}],
    "networkPolicy.runs.enabled": True,
    "networkPolicy.runs.uiFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
    "networkPolicy.runs.egress": [{"ports": [{"port": 6443, "protocol": "TCP"}]}],
    "commonLabels": {"team": "data"},
    "imagePullSecrets": [{"name": "a"}],
    "affinity": {"podAntiAffinity": {}},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "extraVolumes": [{"name": "ca", "secret": {"secretName": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
    **{
        f"metrics.{monitor}.enabled": True
        for monitor in ("serviceMonitor", "podMonitor", "prometheusRule", "dashboards")
    },
}


def name_account(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def restrict(site: ChartSite, namespace: str) -> None:
    """Let the server enforce PodSecurity `restricted` in the namespace."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    site.kube.kubectl.run_ok("label", "namespace", namespace, label)


def make_pods(objects: list[Object], namespace: str) -> Iterator[Object]:
    """Yield the pods that Deployments would make: a Deployment is only warned of what its pods may
    not do."""
    for number, item in enumerate(objects):
        if item["kind"] == "Deployment":
            template = item["spec"]["template"]
            metadata = {**template["metadata"], "name": f"x{number}", "namespace": namespace}
            spec = template["spec"]
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def site(helm: Helm) -> Iterator[ChartSite]:
    with KubeApi(own=True) as kube:
        yield ChartSite(kube, helm.connect(kube.kubeconfig))


@pytest.fixture
def two(site: ChartSite) -> Iterator[tuple[str, str]]:
    with site.kube.create_namespace() as first, site.kube.create_namespace() as second:
        yield first, second


@pytest.mark.parametrize(
    "more",
    [{}, {"watchAllNamespaces": True}, {"rbac.clusterRole": True, "replicaCount": 1}],
    ids=lambda more: ",".join(more) or "namespaced",
)
def test_the_server_takes_every_object_of_the_chart(
    more: dict[str, Any], site: ChartSite, two: tuple[str, str]
) -> None:
    site.kube.kubectl.run_ok("apply", "--server-side", "-f", str(MONITORS))
    for kind in ("servicemonitors", "podmonitors", "prometheusrules"):
        wait.wait_until(
            lambda kind=kind: site.kube.kubectl.run("get", kind, "-A").code == 0,  # type: ignore[misc]
            f"{kind} are served",
        )
    values = helm.nest_values({**EVERYTHING, **more})
    site.check_accepted(site.helm.render(OPERATOR, values, RELEASE, two[0]))


def test_the_pods_are_fit_for_the_restricted_profile(site: ChartSite, two: tuple[str, str]) -> None:
    namespace = two[0]
    restrict(site, namespace)
    with site.install_release(namespace):
        objects = site.helm.render(OPERATOR, {}, RELEASE, namespace)
        pods = list(make_pods(objects, namespace))
        site.check_accepted([*pods, *(item for item in objects if item["kind"] == "Pod")])


def test_the_demo_is_accepted_where_the_restricted_profile_is_enforced(
    site: ChartSite, two: tuple[str, str]
) -> None:
    namespace = two[0]
    restrict(site, namespace)
    objects = site.helm.render(DEMO, {}, "demo", namespace)
    pods = list(make_pods(objects, namespace))
    assert len(pods) == 3
    site.check_accepted([*objects, *pods])
    # The profile is enforced: it refuses the pods of a user that it does not allow.
    root = {"podSecurityContext": {"runAsNonRoot": None, "runAsUser": 0}}
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        site.check_accepted(
            list(make_pods(site.helm.render(DEMO, root, "demo", namespace), namespace))
        )


def test_rights_end_at_the_namespaces_that_are_watched(
    site: ChartSite, two: tuple[str, str]
) -> None:
    home, watched = two
    with site.install_release(home, watchNamespaces=[watched], replicaCount=2):
        operator, driver = name_account(home, RELEASE), name_account(watched, "icdc-spark")
        site.check_rights(operator, watched, rights.list_rights(rights.OPERATOR))
        site.check_rights(operator, home, rights.list_rights(rights.LEASE))
        site.check_rights(operator, "default", set())
        site.check_rights(driver, watched, rights.list_rights(rights.DRIVER))
        site.check_rights(driver, home, set())
    site.check_rights(operator, watched, set())


def test_two_releases_keep_to_their_namespaces(site: ChartSite, two: tuple[str, str]) -> None:
    first, second = two
    with site.install_release(first, readCatalogSecrets=True), site.install_release(second):
        account = name_account(first, RELEASE)
        wanted = rights.list_rights(rights.OPERATOR, rights.CATALOG_SECRETS)
        site.check_rights(account, first, wanted)
        site.check_rights(account, second, set())
        for there, answer in ((first, "yes"), (second, "no")):
            what = ("can-i", "get", "secrets", "-n", there, f"--as={account}")
            assert site.kube.kubectl.run("auth", *what).out.strip() == answer
        site.check_rights(name_account(second, RELEASE), first, set())


def test_with_all_namespaces_the_operator_may_work_in_each_and_drivers_are_bound_by_hand(
    site: ChartSite, two: tuple[str, str]
) -> None:
    home, other = two
    with site.install_release(home, watchAllNamespaces=True):
        wanted = rights.list_rights(rights.OPERATOR)
        for namespace in (home, other):
            site.check_rights(name_account(home, RELEASE), namespace, wanted)
        notes = site.helm.run_ok("get", "notes", RELEASE, "-n", home).replace("\\\n", " ")
        commands = re.findall(r"kubectl (-n NAMESPACE create \S+ .*)", notes)
        assert len(commands) == 2
        for command in commands:
            site.kube.kubectl.run_ok(*command.replace("NAMESPACE", other).split())
        site.check_rights(
            name_account(other, "icdc-spark"), other, rights.list_rights(rights.DRIVER)
        )


def test_people_get_their_rights_by_the_roles_of_the_cluster(
    site: ChartSite, two: tuple[str, str]
) -> None:
    namespace = two[0]
    reads = {"get", "list", "watch"}
    writes = {"create", "update", "patch", "delete", "deletecollection"}

    def list_verbs(person: str) -> set[str]:
        rights = site.review_rights(person, namespace)
        return {verb for _, resource, verb in rights if resource == naming.PLURAL}

    for role in ("view", "edit"):
        site.kube.kubectl.run_ok(
            *("-n", namespace, "create", "rolebinding", role),
            *(f"--clusterrole={role}", f"--user={role}er"),
        )
    with site.install_release(namespace):
        # Each role of the cluster is aggregated by itself, in any order.
        for person, wanted in (("editer", reads | writes), ("viewer", reads)):
            wait.wait_until(
                lambda person=person, wanted=wanted: list_verbs(person) == wanted,  # type: ignore[misc]
                f"the role of {person} is aggregated",
            )
        changing = {
            verb
            for _, resource, verb in site.review_rights("editer", namespace)
            if resource == f"{naming.PLURAL}/status"
        }
        assert changing == reads


def test_the_operator_is_ready_with_the_flags_and_the_rights_of_the_chart(
    site: ChartSite, two: tuple[str, str], tmp_path: Path
) -> None:
    namespace = two[0]
    values = {"replicaCount": 2, "crds.install": True, "crds.keep": False}
    with site.install_release(namespace, **values):
        objects = site.helm.render(OPERATOR, helm.nest_values(values), RELEASE, namespace)
        specs = {item["kind"]: item.get("spec", {}) for item in objects}
        container, _ = specs["Deployment"]["template"]["spec"]["containers"]
        flags = [argument for argument in container["args"] if "-port=" not in argument]
        account = site.kube.write_kubeconfig_for(namespace, RELEASE)
        wait.wait_until(lambda: site.serves(namespace), "the kind is served")
        with operator_process.run_operator(account, tmp_path, "operator", flags) as operator:
            operator.wait_until(lambda: operator.read_metric("icdc_leader") == 1, "it leads")
            operator.wait_until(lambda: operator.ask("health", "/readyz")[0] == 200, "it is ready")
            _, metrics = operator.ask("metrics", "/metrics")
            assert 'code="403"' not in metrics
            # What `helm test` runs, with another address.
            (test,) = specs["Pod"]["containers"]
            _, *script, _ = test["command"]
            (port,) = [
                message.split()[-1] for message in operator.messages if "health on port" in message
            ]
            asked = [sys.executable, *script, f"http://127.0.0.1:{port}/readyz"]
            answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
            assert answer.strip() == "ok"


def read_versions(site: ChartSite, namespace: str) -> dict[str, str]:
    """Return the version of every object of the release, by kind and name."""
    release = f"app.kubernetes.io/instance={RELEASE}"
    kinds = "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,crds"
    listed = site.kube.kubectl.read_object("get", kinds, "-n", namespace, "-l", release)
    resource_versions = {
        f"{item['kind']} {item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for item in listed["items"]
    }
    assert len(resource_versions) >= 10
    return resource_versions


def build_shop_values(**pipelines: Any) -> dict[str, Any]:
    """Return the values that the README shows, with these pipelines on top."""
    text = (PIPELINES / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml values\n(.*?)```", text, re.DOTALL)
    shop_values: dict[str, Any] = yaml.safe_load(block)
    return {**shop_values, "pipelines": {**shop_values["pipelines"], **pipelines}}


def test_the_life_of_a_release(site: ChartSite, two: tuple[str, str]) -> None:
    namespace = two[0]
    helm, here = site.helm, ("-n", namespace)
    pipelines = Pipelines(site.kube.kubectl, namespace)
    helm.run_ok("install", RELEASE, str(OPERATOR), *here)
    wait.wait_until(lambda: site.serves(namespace), "the kind is served")
    before = read_versions(site, namespace)
    helm.run_ok("upgrade", RELEASE, str(OPERATOR), *here)
    assert read_versions(site, namespace) == before

    helm.run_ok("install", "shops", str(PIPELINES), *here, values=build_shop_values())
    assert pipelines.list_names() == ["shop", "web"]
    assert pipelines.get("web")["spec"]["spark"]["executor"] == {
        **pipelines.get("shop")["spec"]["spark"]["executor"],
        "instances": 8,
    }
    generation = pipelines.get("web")["metadata"]["generation"]
    special = {"tables": [{"name": "other.table"}], "suspend": True}
    helm.run_ok("upgrade", "shops", str(PIPELINES), *here, values=build_shop_values(shop=special))
    assert pipelines.get("shop")["spec"]["suspend"] is True
    assert pipelines.get("web")["metadata"]["generation"] == generation
    # What only a rule of the CRD can tell, not the schema of the chart.
    executors = {"dynamicAllocation": {"minExecutors": 9, "maxExecutors": 8}}
    wrong = build_shop_values(shop={"tables": [{"name": "a.b"}], "spark": executors})
    ran = helm.run("upgrade", "shops", str(PIPELINES), *here, values=wrong)
    assert ran.code != 0
    assert '"shop" is invalid' in ran.err

    helm.run_ok("uninstall", RELEASE, *here)
    assert pipelines.list_names() == ["shop", "web"]
    assert pipelines.run("get", "deployment", RELEASE).code != 0
    helm.run_ok("install", RELEASE, str(OPERATOR), *here, values={"crds": {"keep": False}})
    assert pipelines.list_names() == ["shop", "web"]
    helm.run_ok("uninstall", "shops", *here)
    assert pipelines.list_names() == []
    helm.run_ok("uninstall", RELEASE, *here)
    wait.wait_until(lambda: not site.serves(namespace), "the definition is gone")
