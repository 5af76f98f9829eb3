"""The control plane of the tests: what suites on top of it rely on."""

import json
from pathlib import Path

import pytest

from icdc_api import naming
from icdc_api.errors import StartTimeout, Submission
from icdc_testing.kube import binaries
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.server_process import HeldPort, Probe, Program
from icdc_testing.kube.stored_pipelines import Pipelines, make_minimal
from icdc_testing.waiting import wait

pytestmark = pytest.mark.api


def _grant(kube: KubeApi, namespace: str, account: str) -> None:
    """Create a ServiceAccount that may read the pipelines of its namespace."""
    kube.kubectl.run_ok("-n", namespace, "create", "serviceaccount", account)
    role = ("--verb=get,list", f"--resource={naming.CRD_NAME}")
    kube.kubectl.run_ok("-n", namespace, "create", "role", account, *role)
    binding = (f"--role={account}", f"--serviceaccount={namespace}:{account}")
    kube.kubectl.run_ok("-n", namespace, "create", "rolebinding", account, *binding)


def test_the_server_is_of_the_version_that_was_asked_for(kube: KubeApi) -> None:
    if not kube.is_audited:
        pytest.skip("a given cluster has the version that it has")
    shown = json.loads(kube.kubectl.run_ok("version", "-o", "json"))
    assert shown["serverVersion"]["gitVersion"] == binaries.read_version("kube-apiserver")


def test_a_service_account_may_do_what_its_role_grants_and_no_more(
    kube: KubeApi, pipelines: Pipelines
) -> None:
    pipelines.apply(make_minimal())
    _grant(kube, pipelines.namespace, "reader")
    reader = kube.make_kubectl_as(pipelines.namespace, "reader")
    who = json.loads(reader.run_ok("auth", "whoami", "-o", "json"))["status"]["userInfo"][
        "username"
    ]
    assert who == f"system:serviceaccount:{pipelines.namespace}:reader"
    # The namespace of the kubeconfig is that of the account.
    assert reader.run_ok("get", "icdc", "-o", "name").endswith("/shop\n")
    for command in (("delete", "icdc", "shop"), ("get", "icdc", "-n", "default"), ("get", "pods")):
        ran = reader.run(*command)
        assert ran.code != 0
        assert "forbidden" in ran.err.lower()


def test_the_kubeconfig_of_a_service_account_is_for_nobody_else(
    kube: KubeApi, namespace: str
) -> None:
    wait.wait_until(
        lambda: kube.kubectl.run("-n", namespace, "get", "serviceaccount", "default").code == 0,
        "the ServiceAccount of the namespace is there",
    )
    assert kube.write_kubeconfig_for(namespace, "default").stat().st_mode & 0o077 == 0


def test_a_deleted_pipeline_takes_what_it_owns_with_it(pipelines: Pipelines) -> None:
    """Shown with a ConfigMap, as there is no node on which a run could be."""
    owner = pipelines.apply(make_minimal())
    reference = {
        "apiVersion": naming.API_VERSION,
        "kind": naming.KIND,
        "name": "shop",
        "uid": owner["metadata"]["uid"],
    }
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "ownerReferences": [reference]},
    }
    pipelines.run_ok("create", "-f", "-", stdin=json.dumps(owned))
    pipelines.run_ok("delete", "icdc", "shop")
    pipelines.run_ok("wait", "--for=delete", "configmap/owned", "--timeout=120s")


def test_a_namespace_that_is_deleted_ends(kube: KubeApi) -> None:
    with kube.create_namespace() as name:
        Pipelines(kube.kubectl, name).apply(make_minimal())
    kube.kubectl.run_ok("wait", "--for=delete", f"namespace/{name}", "--timeout=180s")


def test_a_program_that_ends_too_early_is_told_with_its_log(tmp_path: Path) -> None:
    program = Program.start(_write_script(tmp_path, "echo the reason; exit 3"), [], tmp_path)
    try:
        with pytest.raises(Submission, match=r"broken ended with 3(?s:.*)the reason"):
            program.wait_until(lambda: False, "it answers", seconds=30)
    finally:
        program.kill()


def test_a_program_that_never_answers_is_told_with_its_log(tmp_path: Path) -> None:
    program = Program.start(_write_script(tmp_path, "echo busy; exec sleep 600"), [], tmp_path)
    try:
        with pytest.raises(StartTimeout, match="it answers"):
            program.wait_until(lambda: False, "it answers", seconds=0.2)
    finally:
        program.kill()


def test_a_port_stays_held_until_it_is_released() -> None:
    held = [HeldPort() for _ in range(20)]
    assert len({port.number for port in held}) == len(held)
    assert not Probe(held[0], "/").answers()
    for port in held:
        port.release()


def _write_script(folder: Path, text: str) -> Path:
    path = folder / "broken"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
