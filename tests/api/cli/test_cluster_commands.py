"""`icdc status`, `pause`, `resume`, `resync`, `logs` and `ui` by a person with few rights."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icdc_api import naming
from icdc_cli import main
from icdc_cli.commands.ui import ui_command as ui
from icdc_cli.commands.ui.site import PageSite
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.api_stub import make_driver_pod
from icdc_testing.kube.stored_pipelines import Pipelines, make_condition, make_minimal
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api


@pytest.fixture
def person(kube: KubeApi, pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch) -> Pipelines:
    """Somebody who may read and patch pipelines, and read logs; a pipeline is there."""
    pipelines.run_ok("create", "serviceaccount", "jane")
    for role, verbs, resource in (
        ("pipelines", "get,patch", naming.CRD_NAME),
        ("pods", "list", "pods"),
        ("logs", "get", "pods/log"),
    ):
        pipelines.run_ok("create", "role", role, f"--verb={verbs}", f"--resource={resource}")
        account = f"--serviceaccount={pipelines.namespace}:jane"
        pipelines.run_ok("create", "rolebinding", role, f"--role={role}", account)
    monkeypatch.setenv("KUBECONFIG", str(kube.write_kubeconfig_for(pipelines.namespace, "jane")))
    pipelines.apply(make_minimal())
    return pipelines


def test_pause_and_resume_are_one_new_generation_each(
    person: Pipelines, capsys: pytest.CaptureFixture[str]
) -> None:
    before = person.get()
    for command, generations, suspended in (
        ("pause", 1, True),
        ("pause", 1, True),
        ("resume", 2, False),
        ("resume", 2, False),
    ):
        assert main.main([command, "shop"]) == 0, capsys.readouterr().err
        after = person.get()
        assert after["spec"] == {**before["spec"], "suspend": suspended}
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + generations


def test_everyone_who_asks_at_once_for_a_resync_raises_the_nonce(person: Pipelines) -> None:
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(main.main, [["resync", "shop"]] * 4))
    assert codes == [0] * 4
    assert person.get()["spec"]["resync"] == {"nonce": 4, "tables": [], "mode": "Export"}


def test_status_shows_what_the_operator_wrote(
    person: Pipelines, capsys: pytest.CaptureFixture[str]
) -> None:
    conditions = [
        make_condition("Stalled", "True", message="shop.orders: Gap: gone"),
        make_condition("Ready", "False"),
    ]
    person.patch_status({"observedGeneration": 1, "phase": "Stalled", "conditions": conditions})
    assert main.main(["status", "shop", "-o", "json"]) == 1
    printed = capsys.readouterr()
    shown, stored = json.loads(printed.out), person.get()
    del stored["metadata"]["managedFields"]
    assert shown == stored
    assert printed.err == "icdc: shop.orders: Gap: gone\n"
    assert main.main(["status", "shop"]) == 1
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["shop", "False", "Stalled"]


@pytest.mark.parametrize(
    "template",
    [
        "{.spec.mode}",
        "{.metadata.name} {.spec.changelog.pollIntervalSeconds}",
        "{.spec.tables[0].name}{.spec.tables[*].nothing}",
        '{.status.conditions[?(@.type=="Ready")].status}',
        '{range .status.conditions[*]}{.type}{"\\t"}{@.status}{"\\n"}{end}',
        r"{.metadata.annotations.example\.org/team}",
    ],
)
def test_a_template_gives_what_kubectl_gives(
    template: str, person: Pipelines, capsys: pytest.CaptureFixture[str]
) -> None:
    conditions = [make_condition("Ready", "False"), make_condition("Stalled", "False")]
    person.patch_status({"observedGeneration": 1, "conditions": conditions})
    person.run_ok("annotate", naming.CRD_NAME, "shop", "example.org/team=lake")
    expected = person.run_ok("get", naming.CRD_NAME, "shop", "-o", f"jsonpath={template}")
    assert main.main(["status", "shop", "-o", f"jsonpath={template}"]) == 0
    assert capsys.readouterr().out == expected


def test_a_driver_that_waits_for_a_node_has_no_log_yet(
    person: Pipelines, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["logs", "shop"]) == 3
    assert "no run that has a log" in capsys.readouterr().err
    labels = make_driver_pod("d", "shop-e1-1", created="")["metadata"]["labels"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "shop-e1-1-driver", "labels": labels},
        "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
    }
    person.run_ok("create", "-f", "-", stdin=json.dumps(pod))
    for arguments in ([], ["--follow"]):
        assert main.main(["logs", "shop", *arguments]) == 3
        assert "the driver shop-e1-1-driver has not started yet" in capsys.readouterr().err


def test_the_page_shows_what_may_be_listed_and_says_what_may_not(person: Pipelines) -> None:
    arguments = main.build_parser().parse_args(["ui", "--all-namespaces"])
    reader = ui.choose_reader(arguments)
    own = f"namespace {person.namespace}"
    reading = reader.read()
    assert reading.pipelines == ()
    assert [refusal.scope for refusal in reading.refusals] == ["all other namespaces", own]
    assert all('verbs: ["list"]' in refusal.message for refusal in reading.refusals)
    person.run_ok("create", "role", "lists", "--verb=list", f"--resource={naming.CRD_NAME}")
    account = f"--serviceaccount={person.namespace}:jane"
    person.run_ok("create", "rolebinding", "lists", "--role=lists", account)
    # The API server takes up a role in its own time.
    wait.wait_until(lambda: bool(reader.read().pipelines), "the pipeline is listed")
    reading = reader.read()
    assert [pipeline.name for pipeline in reading.pipelines] == ["shop"]
    assert [refusal.scope for refusal in reading.refusals] == ["all other namespaces"]
    page = PageSite(reader, "/token/").build(f"pipelines/{person.namespace}/shop", "")
    assert page.status == 200
    assert "New" in page.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pause", "nothing"], "there is no IcebergCDCPipeline nothing in the namespace"),
        (["pause", "shop", "-n", "default"], "cannot get resource"),
        (["status", "shop", "-n", "default"], "cannot get resource"),
        (["status"], "cannot list resource"),
    ],
)
def test_what_cannot_be_done_is_bad_usage(
    arguments: list[str],
    message: str,
    person: Pipelines,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 0),
        ({"tls-server-name": "localhost"}, 0),
        ({"tls-server-name": "api.elsewhere"}, 3),
        # The authority of this host instead, which has not signed the server's certificate.
        ({"certificate-authority-data": None}, 3),
        ({"certificate-authority-data": None, "insecure-skip-tls-verify": True}, 0),
    ],
)
def test_the_server_is_trusted_as_the_kubeconfig_says(
    change: dict[str, object],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = json.loads(Path(os.environ["KUBECONFIG"]).read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    cluster.update(change)
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert main.main(["status", "shop"]) == code
    printed = capsys.readouterr()
    assert ("CERTIFICATE_VERIFY_FAILED" in printed.err) == (code == 3)


@pytest.mark.usefixtures("spark_applications")
def test_the_doctor_examines_a_real_cluster(
    kube: KubeApi,
    pipelines: Pipelines,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As an administrator: nothing is installed but CRDs, a pipeline, and one of its two needs."""
    monkeypatch.setenv("KUBECONFIG", str(kube.kubeconfig))
    source = {"secretRef": {"name": "search"}}
    sink = {"opensearch": {"hosts": ["https://search:9200"], "credentialsFrom": source}}
    pipelines.apply(make_minimal(sink=sink))
    pipelines.run_ok("create", "serviceaccount", "icdc-spark")
    literals = ("--from-literal=username=u", "--from-literal=password=hunter2")
    pipelines.run_ok("create", "secret", "generic", "search", *literals)
    command = ["doctor", "shop", "-n", pipelines.namespace, "-o", "json"]
    assert main.main(command) == 1
    printed = capsys.readouterr().out
    assert "hunter2" not in printed
    findings = {one["check"]: one for one in json.loads(printed)["findings"]}
    results = {check: one["result"] for check, one in findings.items()}
    secret = "Secret search (spec.sink.opensearch.credentialsFrom of shop)"
    account = f"permissions of {pipelines.namespace}:icdc-spark"
    assert results == {
        "API server": "Ok",
        f"CRD {naming.CRD_NAME}": "Ok",
        "operator": "Problem",
        "CRD sparkapplications.sparkoperator.k8s.io": "Ok",
        "spark-operator": "Problem",
        "your permissions": "Ok",
        account: "Problem",
        "pipeline shop": "Problem",
        secret: "Ok",
        "service account icdc-spark of shop": "Ok",
    }
    assert "deletecollection persistentvolumeclaims" in findings[account]["found"]
    assert main.main(["doctor", "nothing", "-n", pipelines.namespace]) == 2
