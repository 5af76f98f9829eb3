"""`icdc version` and `--version`: three versions where they can be known, and never a failure."""

import json
import time
from pathlib import Path

import pytest

from icdc_api import __version__
from icdc_cli import main
from icdc_cli.cluster import session
from icdc_cli.commands import version
from icdc_testing.kube.api_stub import ApiStub, Object

pytestmark = pytest.mark.unit

CLIENT = f"icdc      {__version__}"
CRD: Object = {
    "metadata": {"name": "icebergcdcpipelines.icebergcdc.dev"},
    "spec": {"versions": [{"name": "v1", "served": False}, {"name": "v1alpha1", "served": True}]},
}


def say_version(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of `icdc --version`, which ends with 0."""
    assert main.main(["--version"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out.splitlines()


def test_a_cluster_without_anything_of_ours(
    api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say_version(capsys) == [
        CLIENT,
        "operator  unknown: no pipeline in the namespace default has a status",
        "CRD       not installed",
    ]


def test_the_operator_is_known_by_what_it_writes_and_the_crd_by_its_label(
    api: ApiStub, shop: Object, capsys: pytest.CaptureFixture[str]
) -> None:
    shop["status"] = {"operatorVersion": "0.0.9"}
    api.add_pipeline({"metadata": {"name": "b"}, "status": {"operatorVersion": "0.0.8"}})
    api.add_pipeline({"metadata": {"name": "c"}, "status": {"operatorVersion": "7"}}, "other")
    api.crd = CRD
    assert say_version(capsys) == [
        CLIENT,
        "operator  0.0.8, 0.0.9 (as pipelines in the namespace default say)",
        "CRD       v1alpha1, not made by the chart",
    ]
    api.crd = CRD | {"metadata": {"labels": {"app.kubernetes.io/version": "0.0.7"}}}
    assert main.main(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "client": __version__,
        "namespace": "default",
        "operators": ["0.0.8", "0.0.9"],
        "crd": {"served": ["v1alpha1"], "release": "0.0.7"},
    }
    assert say_version(capsys)[2] == "CRD       v1alpha1, of release 0.0.7"


def test_a_permission_that_is_missing_is_said(
    api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    api.failure = (403, "jane may not do that")
    _, operator, crd = say_version(capsys)
    assert operator.startswith("operator  unknown: list icebergcdcpipelines")
    assert crd.startswith("CRD       unknown: get customresourcedefinitions")
    assert "jane may not do that" in operator
    assert "jane may not do that" in crd


def test_a_cluster_that_does_not_answer_is_no_failure(
    api: ApiStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.failure = (503, "not ready")
    assert "cluster   unknown: list icebergcdc" in say_version(capsys)[1]
    monkeypatch.setattr(version, "SECONDS", 0.05)
    monkeypatch.setattr(session, "run_in_namespace", lambda *_: time.sleep(5))
    began = time.monotonic()
    assert say_version(capsys) == [
        CLIENT,
        "cluster   unknown: the cluster has not answered within 0.05 s",
    ]
    assert time.monotonic() - began < 2
    (tmp_path / "kubeconfig").write_text("{", encoding="utf-8")
    assert "cannot be read" in say_version(capsys)[1]


def test_what_nobody_foresaw_is_raised_as_without_a_limit() -> None:
    with pytest.raises(ZeroDivisionError):
        session.run_limited(lambda: 1 // 0, seconds=60)


def test_what_nobody_foresaw_is_no_failure_and_ctrl_c_no_traceback(
    api: ApiStub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raised: list[BaseException] = [KeyboardInterrupt(), KeyError("value"), KeyError("value")]

    def fail(*_: object) -> None:
        raise raised.pop()

    monkeypatch.setattr(session, "run_in_namespace", fail)
    assert say_version(capsys) == [CLIENT, "cluster   unknown: internal error: KeyError: 'value'"]
    # A command behind it is neither carried out nor read.
    assert main.main(["--version", "pause", "--nonsense"]) == 0
    assert main.main(["--version"]) == 130
    assert capsys.readouterr().err == "icdc: interrupted\n"


def test_nothing_is_asked_where_no_cluster_is_configured(
    api: ApiStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["version", "--client"]) == 0
    assert capsys.readouterr().out.splitlines() == [CLIENT]
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert say_version(capsys) == [CLIENT]
    assert api.asked == []
