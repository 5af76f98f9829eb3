"""Where pipelines come from, what is said of those that may not be read, and the command itself."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from icdc_cli import main
from icdc_cli.commands.ui import readers, ui_command
from icdc_cli.commands.ui.readers import PageReading, SeenPipeline
from icdc_cli.commands.ui.server import PageServer
from icdc_cli.local.state_dir import StateDir
from icdc_testing.kube.api_stub import ApiStub, serve_stub
from icdc_testing.operator.deciding.pipelines import make_caught_up

pytestmark = pytest.mark.unit


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a kubeconfig that is not the one of the environment."""
    return tmp_path / "other"


@pytest.fixture
def api(config: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    stub = ApiStub()
    with serve_stub(stub):
        context = {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "sales"}}
        document = {
            "clusters": [{"name": "c", "cluster": {"server": stub.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [context],
            "current-context": "here",
        }
        config.write_text(json.dumps(document), encoding="utf-8")
        monkeypatch.setenv("KUBECONFIG", "/nowhere")
        for namespace, name in (("sales", "shop"), ("lake", "bronze"), ("hr", "people")):
            stub.add_pipeline({"metadata": {"name": name}}, namespace)
        yield stub


def read(config: Path, *arguments: str) -> PageReading:
    parsed = main.build_parser().parse_args(["ui", "--kubeconfig", str(config), *arguments])
    return ui_command.choose_reader(parsed).read()


@pytest.mark.parametrize(
    ("arguments", "denied", "names", "refused"),
    [
        ([], [], "shop", []),
        (["-n", "lake"], [], "bronze", []),
        (["-n", "lake", "-n", "hr"], ["hr"], "bronze", ["namespace hr"]),
        (["-A"], [], "bronze people shop", []),
        (["-A"], ["*"], "bronze people shop", []),
        (["-A"], ["*", "hr", "sales"], "bronze", ["namespaces hr, sales"]),
        (["-A"], ["*", "namespaces"], "shop", ["all other namespaces"]),
        (
            ["-A"],
            ["*", "namespaces", "sales"],
            "",
            ["all other namespaces", "namespace sales"],
        ),
        (
            ["-A"],
            ["*", *(f"n{number}" for number in range(20))],
            "bronze people shop",
            ["namespaces n0, n1, n10, n11, n12, n13, n14, n15, n16, n17 and 10 more"],
        ),
    ],
)
def test_all_that_a_person_may_list_is_shown_and_the_rest_is_named(
    arguments: list[str],
    denied: list[str],
    names: str,
    refused: list[str],
    config: Path,
    api: ApiStub,
) -> None:
    api.denied = set(denied)
    reading = read(config, *arguments)
    assert sorted(pipeline.name for pipeline in reading.pipelines) == names.split()
    assert [refusal.scope for refusal in reading.refusals] == refused
    for refusal in reading.refusals:
        assert 'missing RBAC rule: {apiGroups: ["icebergcdc.dev"]' in refusal.message
        assert refusal.who_acts == "the platform engineer"


@pytest.mark.parametrize(
    ("failure", "who"),
    [
        ((401, "Unauthorized"), "the platform engineer"),
        ((403, "jane may not do that"), "the platform engineer"),
        ((404, "the server could not find the requested resource"), "the platform engineer"),
        ((500, "etcd is broken"), "nobody: it is retried"),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["-A"], ["-n", "a", "-n", "b"]])
def test_an_api_server_that_refuses_is_said_with_who_acts(
    arguments: list[str], failure: tuple[int, str], who: str, config: Path, api: ApiStub
) -> None:
    api.failure = failure
    reading = read(config, *arguments)
    assert reading.pipelines == ()
    assert {refusal.who_acts for refusal in reading.refusals} == {who}
    assert all(failure[1] in refusal.message for refusal in reading.refusals)


def test_a_server_that_does_not_answer_is_not_asked_for_each_namespace(
    config: Path, api: ApiStub
) -> None:
    api.failure = (500, "etcd is broken")
    read(config, "-n", "a", "-n", "b", "-n", "c")
    assert len(api.asked) == 1


def test_of_very_many_namespaces_the_first_are_listed(
    config: Path, api: ApiStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MAX_NAMESPACES", 2)
    api.denied = {"*"}
    reading = read(config, "-A")
    assert [refusal.scope for refusal in reading.refusals] == ["namespace sales"]
    assert len(reading.pipelines) == 2


def test_a_kubeconfig_that_breaks_later_is_said_on_the_page(config: Path, api: ApiStub) -> None:
    parsed = main.build_parser().parse_args(["ui", "--kubeconfig", str(config)])
    reader = ui_command.choose_reader(parsed)
    config.unlink()
    (refusal,) = reader.read().refusals
    assert refusal.who_acts == readers.READER
    assert str(config) in refusal.message
    assert api.asked == []


def test_a_state_directory_is_read_while_its_run_holds_the_lock(
    tmp_path: Path, make_pipeline: Callable[..., SeenPipeline]
) -> None:
    with StateDir(tmp_path) as state:
        state.save(make_pipeline(make_caught_up()).resource)
        reading = read(tmp_path, "--state-dir", str(tmp_path))
    (pipeline,) = reading.pipelines
    assert (pipeline.name, pipeline.status.tables[0].name) == ("shop", "shop.orders")
    assert reading.local


@pytest.mark.parametrize(
    ("content", "said"), [(None, "holds no pipeline.yaml"), ("- a", "is not a resource")]
)
def test_a_directory_that_is_none_is_said_and_not_made(
    content: str | None, said: str, tmp_path: Path
) -> None:
    root = tmp_path / "state"
    if content is not None:
        root.mkdir()
        (root / "pipeline.yaml").write_text(content)
    reading = read(tmp_path, "--state-dir", str(root))
    assert [said in refusal.message for refusal in reading.refusals] == [True]
    assert root.exists() == (content is not None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "70000"], "'70000' is not a whole number from 0 to 65535"),
        (["-n", "a", "-A"], "not allowed with argument"),
        (["-A", "--state-dir", "x"], "not allowed with argument"),
    ],
)
def test_options_that_do_not_go_together_are_bad_usage(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(["ui", *arguments])
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_without_a_cluster_nothing_is_served(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main.main(["ui", "--kubeconfig", str(tmp_path / "none"), "--no-browser"]) == 2
    assert "there is no kubeconfig at" in capsys.readouterr().err


def test_the_command_prints_an_address_that_works_until_ctrl_c(
    config: Path, api: ApiStub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    opened: list[str] = []

    def serve(self: PageServer) -> None:
        thread = threading.Thread(target=self.handle_request)
        thread.start()
        url = capsys.readouterr().out.splitlines()[0]
        with urlopen(url, timeout=10) as answer:
            shown.append(answer.read().decode())
        thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(PageServer, "serve_forever", serve)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main.main(["ui", "--kubeconfig", str(config)]) == 0
    assert main.main(["ui", "--kubeconfig", str(config), "--no-browser"]) == 0
    assert ["shop" in page for page in shown] == [True, True]
    assert len(opened) == 1


def test_the_address_comes_through_a_pipe_and_ctrl_c_ends_it_well(
    tmp_path: Path, make_pipeline: Callable[..., SeenPipeline]
) -> None:
    with StateDir(tmp_path) as state:
        state.save(make_pipeline(make_caught_up()).resource)
    arguments = ["ui", "--state-dir", str(tmp_path), "--no-browser"]
    # It would flush by itself.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "icdc_cli.main", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urlopen(url, timeout=30) as answer:
                assert "shop" in answer.read().decode()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_a_port_that_is_taken_is_bad_usage(
    config: Path, api: ApiStub, capsys: pytest.CaptureFixture[str]
) -> None:
    port = api.url.rpartition(":")[2]
    assert main.main(["ui", "--kubeconfig", str(config), "--port", port, "--no-browser"]) == 2
    assert f"--port {port} cannot be used" in capsys.readouterr().err
