"""What the accounts of two namespaces may do: the API server's own answers to requests of pods."""

import json
from collections.abc import Callable

import pytest

from icdc_api import naming
from icdc_testing.real_cluster.shop import Shop
from icdc_testing.real_cluster.used import UsedCluster
from icdc_testing.waiting import wait

pytestmark = pytest.mark.cluster

SYSTEM = "icdc-system"
OPERATOR = "deploy/icdc-iceberg-cdc-operator"
PIPELINES = f"/apis/{naming.API_VERSION}/{{}}{naming.PLURAL}"
APPLICATIONS = "/apis/sparkoperator.k8s.io/v1beta2/{}sparkapplications"
APPLICATIONS_KIND = "sparkapplications.sparkoperator.k8s.io"
CORE = "/api/v1/{}"

# Python, as both images have it: nothing else in them speaks HTTP.
ASK = """
import json, pathlib, ssl, sys, urllib.error, urllib.request
account = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
trust = ssl.create_default_context(cafile=account / "ca.crt")
headers = {"authorization": "Bearer " + (account / "token").read_text(),
           "content-type": "application/json"}
answers = []
for method, path in json.loads(sys.argv[1]):
    url = "https://kubernetes.default.svc" + path
    body = b"{}" if method == "POST" else None
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        answers.append(urllib.request.urlopen(request, context=trust).status)
    except urllib.error.HTTPError as refused:
        answers.append(refused.code)
print(json.dumps(answers))
"""

Request = tuple[str, str]


def build_path(namespace: str, pattern: str, *more: str) -> str:
    """Return the path of what that is in the namespace; "" is the whole cluster."""
    where = f"namespaces/{namespace}/" if namespace else ""
    return "/".join((pattern.format(where), *more))


def build_core_path(namespace: str, *more: str) -> str:
    """Return the same for pods, secrets and the like."""
    return build_path(namespace, CORE).rstrip("/") + "/" + "/".join(more)


def parse_answers(printed: str, asked: list[Request]) -> dict[Request, int]:
    """Return the status of each answer."""
    return dict(zip(asked, json.loads(printed), strict=True))


def test_the_operator_sees_and_touches_only_what_it_looks_after(
    cluster: UsedCluster, installed: list[str], namespace: str
) -> None:
    allowed = [("GET", build_path(namespace, PIPELINES)) for namespace in ("north", "south")]
    refused = [
        ("GET", build_path("", PIPELINES)),
        ("GET", build_path(namespace, PIPELINES)),
        ("DELETE", build_path(namespace, PIPELINES, "any")),
        ("GET", build_path(namespace, APPLICATIONS)),
        ("POST", build_path(namespace, APPLICATIONS)),
        ("GET", build_core_path(namespace, "pods")),
        ("POST", build_core_path(namespace, "configmaps")),
        ("GET", build_core_path(namespace, "secrets", "any")),
        ("GET", build_core_path("kube-system", "secrets")),
        # By name only, and only where `readCatalogSecrets` says so.
        ("GET", build_core_path("north", "secrets")),
        ("POST", build_core_path("north", "pods")),
        ("DELETE", build_path("north", PIPELINES, "any")),
        ("GET", "/api/v1/nodes"),
    ]
    asked = [*allowed, *refused]
    how = ("exec", "-n", SYSTEM, OPERATOR, "--", "python3", "-c", ASK, json.dumps(asked))
    printed: list[str] = []

    def has_answered() -> bool:
        # Tests side by side kill the operator's pod, and another one takes its place.
        ran = cluster.kubectl.run(*how)
        printed.append(ran.out if ran.code == 0 else "")
        return bool(printed[-1])

    wait.wait_until(has_answered, "a pod of the operator asks", pause=1.0)
    wanted = {**dict.fromkeys(allowed, 200), **dict.fromkeys(refused, 403)}
    assert parse_answers(printed[-1], asked) == wanted


def test_a_driver_sees_and_touches_only_its_own_namespace(
    cluster: UsedCluster, installed: list[str]
) -> None:
    allowed = [
        ("GET", build_core_path("north", "pods")),
        ("GET", build_core_path("north", "configmaps")),
    ]
    refused = [
        ("GET", build_core_path("south", "pods")),
        ("POST", build_core_path("south", "pods")),
        ("DELETE", build_core_path("south", "pods", "any")),
        ("GET", build_core_path("south", "configmaps")),
        ("GET", build_core_path("south", "secrets", "any")),
        ("GET", build_core_path("north", "secrets", "any")),
        ("GET", build_path("north", PIPELINES)),
        ("DELETE", build_path("north", PIPELINES, "any")),
        ("POST", build_path("north", APPLICATIONS)),
        ("GET", build_core_path(SYSTEM, "pods")),
        ("GET", "/api/v1/nodes"),
    ]
    asked = [*allowed, *refused]
    image = next(image for image in cluster.facts["images"] if "/operator:" in image)
    pod = {
        "serviceAccountName": "icdc-spark",
        "containers": [
            {
                "name": "main",
                "image": image,
                "imagePullPolicy": "Never",
                "command": ["python3", "-c", ASK, json.dumps(asked)],
            }
        ],
    }
    try:
        ended = cluster.run_pod("north", "asks", pod)
        printed = cluster.read_logs("north", "asks")
    finally:
        cluster.kubectl.run_ok("delete", "pod", "asks", "-n", "north", "--ignore-not-found")
    assert ended["exitCode"] == 0, printed
    wanted = {**dict.fromkeys(allowed, 200), **dict.fromkeys(refused, 403)}
    assert parse_answers(printed, asked) == wanted


def test_each_account_may_do_in_its_namespace_what_it_may_not_beside_it(
    cluster: UsedCluster, installed: list[str], namespace: str
) -> None:
    operator = f"system:serviceaccount:{SYSTEM}:icdc-iceberg-cdc-operator"
    driver = "system:serviceaccount:north:icdc-spark"
    can = {
        (operator, "north", "create", APPLICATIONS_KIND): "yes",
        (operator, namespace, "create", APPLICATIONS_KIND): "no",
        (operator, "south", "get", "secrets"): "yes",
        (operator, "south", "list", "secrets"): "no",
        (operator, namespace, "get", "secrets"): "no",
        (driver, "north", "create", "pods"): "yes",
        (driver, "south", "create", "pods"): "no",
        (driver, "north", "get", "secrets"): "no",
    }
    granted = {}
    for account, where, verb, what in can:
        asked = ("auth", "can-i", verb, what, "-n", where, f"--as={account}")
        granted[account, where, verb, what] = cluster.kubectl.run(*asked).out.strip()
    assert granted == can


def test_a_pipeline_where_nobody_looks_stays_as_it_is(
    shop: Callable[..., Shop], namespace: str
) -> None:
    outside, inside = shop("quiet", namespace), shop("quiet", "south")
    for site in (outside, inside):
        site.apply(site.make_resource([site.make_entry("orders", "id")], suspend=True))
    inside.wait_until(lambda status: status["observedGeneration"] > 0, "the other one is looked at")
    assert outside.read_status() == {"observedGeneration": -1}
    inside.run_kubectl("delete", "icdc", inside.name)
