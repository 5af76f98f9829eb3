"""Which cluster and namespace are meant, and what becomes of a cluster that says no."""

import json
from pathlib import Path

import pytest

from icdc_api.errors import BadSpec
from icdc_cli import main
from icdc_cli.cluster import kubeconfig
from icdc_cli.cluster.kubeconfig import Context
from icdc_testing.kube.api_stub import ApiStub, Object

pytestmark = pytest.mark.unit

COMMANDS = [["status"], ["pause"], ["resume"], ["restart"], ["resync"], ["logs"], ["plan"]]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("arguments", "namespace"),
    [
        ([], "default"),
        (["-n", "x"], "x"),
        (["--context", "there"], "lake"),
        (["--context", "there", "--namespace", "x"], "x"),
    ],
)
def test_a_pipeline_that_is_not_there_is_bad_usage(
    command: list[str],
    arguments: list[str],
    namespace: str,
    api: ApiStub,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main([*command, "shop", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(
        f"icdc: there is no IcebergCDCPipeline shop in the namespace {namespace}; "
    )
    assert f"/namespaces/{namespace}/" in api.asked[0]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        ((401, "Unauthorized"), 2),
        ((403, "jane may not do that"), 2),
        ((422, "spec.resync.nonce cannot be lowered"), 2),
        ((429, "too many requests"), 3),
        ((500, "etcd is gone"), 3),
        ((503, "not ready"), 3),
    ],
)
def test_what_the_server_says_is_passed_on(
    command: list[str],
    failure: tuple[int, str],
    code: int,
    api: ApiStub,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.failure = failure
    assert main.main([*command, "shop"]) == code
    printed = capsys.readouterr()
    assert failure[1] in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_that_cannot_be_reached_is_a_passing_fault(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "here", "context": {"cluster": "c"}}
    path.write_text(
        json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "here"})
    )
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert main.main([*command, "shop"]) == 3
    assert "the API server cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no kubeconfig at "),
        ("{", "cannot be read"),
        ("- a", "it contains no mapping"),
    ],
)
def test_a_kubeconfig_that_is_none_is_bad_usage(
    text: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main.main(["status", "shop"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert str(path) in error


def test_a_context_that_is_not_there_is_bad_usage(
    api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["status", "shop", "--context", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert api.asked == []


@pytest.mark.parametrize(
    ("documents", "wanted", "expected"),
    [
        ([{}], None, Context(None, "default")),
        ([{"current-context": "a"}], None, Context("a", "default")),
        ([{"current-context": "a"}, {"current-context": "b"}], None, Context("a", "default")),
        ([{"current-context": ""}, {"current-context": "b"}], None, Context("b", "default")),
        (
            [
                {"current-context": "a"},
                {"contexts": [{"name": "a", "context": {"namespace": "n"}}]},
                {"contexts": [{"name": "a", "context": {"namespace": "m"}}]},
            ],
            None,
            Context("a", "n"),
        ),
        (
            [{"contexts": [{"name": "b", "context": {"namespace": "n"}}], "current-context": "a"}],
            "b",
            Context("b", "n"),
        ),
        ([{"contexts": [None, {"name": "a"}]}], "a", Context("a", "default")),
        ([{"contexts": {}, "current-context": 5}], None, Context(None, "default")),
    ],
)
def test_the_first_kubeconfig_that_names_something_wins(
    documents: list[Object], wanted: str | None, expected: Context, tmp_path: Path
) -> None:
    paths = [tmp_path / "missing", tmp_path / "empty"]
    paths[1].touch()
    for number, document in enumerate(documents):
        paths.append(tmp_path / str(number))
        paths[-1].write_text(json.dumps(document))
    env = {"KUBECONFIG": ":".join(map(str, paths)), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert kubeconfig.choose_context(env, wanted) == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--context", "foo"], "no cluster is configured: this is not a pod, and there is no kub"),
        ([], "no cluster is configured: this is not a pod, and there is no kubeconfig at "),
        (["--kubeconfig", "missing/config"], "there is no kubeconfig at missing/config: correct "),
        (
            ["--kubeconfig", "missing/config", "--context", "foo"],
            "there is no kubeconfig at missing/config: ",
        ),
        (["--kubeconfig", "~nobody-at-all/c"], "~nobody-at-all/c: no home directory is known: set"),
    ],
)
def test_a_kubeconfig_that_is_not_there_is_named(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main.main(["status", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"icdc: {said}")


def test_a_context_that_is_wanted_in_a_pod_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main.main(["status", "--context", "foo"]) == 2
    assert "leave out --context to ask the cluster of this pod" in capsys.readouterr().err


def test_a_kubeconfig_may_be_given_as_an_option(
    shop: Object,
    api: ApiStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert main.main(["pause", "shop", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 0
    assert shop["spec"]["suspend"] is True
    assert main.main(["pause", "shop", "--kubeconfig", str(tmp_path / "other")]) == 2
    assert str(tmp_path / "other") in capsys.readouterr().err


def test_in_a_pod_its_own_namespace_is_meant(tmp_path: Path) -> None:
    env = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    file = tmp_path / "namespace"
    assert kubeconfig.choose_context(env, None, pod_file=file) == Context(None, "default")
    file.write_text("lake\n")
    assert kubeconfig.choose_context(env, None, pod_file=file) == Context(None, "lake")


def test_a_kubeconfig_that_is_a_directory_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="cannot be read"):
        kubeconfig.choose_context({"KUBECONFIG": str(tmp_path)}, None)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main.main([*command, "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: icdc {command[0]}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["staus", "shop"], "'staus' is not one of run, plan,"),
        (["staus", "shop"], "; did you mean status?"),
        (["get", "shop"], "; did you mean status?"),
        (["suspend", "shop"], "; did you mean pause?"),
        (["xyz"], "'xyz' is not one of run, plan,"),
        (
            ["status", "--outptu", "json"],
            "'--outptu' is no option of icdc status; did you mean --output?",
        ),
        (["pause", "shop", "--namspace=x"], "no option of icdc pause; did you mean --namespace?"),
        (
            ["dead-letters", "list", "--tabel", "t"],
            "of icdc dead-letters list; did you mean --table?",
        ),
        (["pause", "shop", "-x"], "'-x' is no option of icdc pause"),
        (["--context", "x", "status"], "stands behind the command: icdc COMMAND --context"),
        (["-n=x", "status"], "'-n' stands behind the command: icdc COMMAND -n"),
        (["pause", "shop", "other"], "'other' is one argument too many"),
        (["explain", "Gap", "Bug"], "icdc explain: error: 'Bug' is one argument too many"),
        (["pause"], "the following arguments are required: NAME"),
        (["status", "-n"], "argument -n/--namespace: expected one argument"),
        (["completion", "csh"], "'csh' is not one of bash, zsh, fish"),
        (["resync", "shop", "--timeout", "1m"], "'1m' is not a whole number of 0 or more"),
        (["dead-letters", "lst"], "'lst' is not one of list, replay; did you mean list?"),
        (["status", "-o", "widee"], "'widee' is not one of text, wide, name, json, yaml"),
        (["plan", "shop", "-o", "wide"], "'wide' is not one of text, json, yaml"),
        (["status", "shop", "-o", "yml"], "did you mean yaml?"),
        (["resync", "shop", "--mode", "verfy"], "'verfy' is not one of Export, Verify"),
        (["resync", "shop", "--mode", "verfy"], "did you mean verify?"),
        (["logs", "shop", "--tail", "x"], "'x' is not a whole number of 0 or more"),
        (["plan", "shop", "--wait", "0"], "'0' is not a whole number of 1 or more"),
    ],
)
def test_a_slip_is_answered_in_plain_words(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(arguments)
    assert left.value.code == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert "<" not in printed.splitlines()[-1]
