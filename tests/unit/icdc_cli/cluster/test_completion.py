"""What Tab offers, as a plugin of kubectl; `test_shells` has what shells make of it."""

import sys
import time
from pathlib import Path

import pytest

from icdc_cli import main
from icdc_cli.cluster import session
from icdc_cli.commands import completion
from icdc_testing.kube.api_stub import ApiStub, Object

pytestmark = pytest.mark.unit

VIEWS = ("text", "wide", "name", "json", "yaml", "jsonpath")


def press_tab(*words: str) -> list[str]:
    """Return the candidates, without descriptions, and the directive behind them."""
    lines = completion.answer(main.build_parser(), words).splitlines()
    return [line.partition("\t")[0] for line in lines]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["res"], ["resume", "restart", "resync", ":4"]),
        (["nonsense"], [":4"]),
        (["dead-letters", ""], ["list", "replay", ":4"]),
        (["dead-letters", "list", "--doc"], ["--documents", ":4"]),
        (["status", "--a"], ["--all-namespaces", "--all", ":4"]),
        (["status", "-o", ""], [*VIEWS, ":4"]),
        (["resync", "shop", "--mode", "R"], ["Repair", "Rollback", ":4"]),
        (["resync", "--mode=Verify", "--wait", "shop", "--ti"], ["--timeout", ":4"]),
        (["resync", "shop", "--mode=R"], ["--mode=Repair", "--mode=Rollback", ":4"]),
        (["status", "--output="], [*(f"--output={view}" for view in VIEWS), ":4"]),
        (["status", "--all=t"], [":4"]),
        (["status", "--nonsense="], [":4"]),
        (["pause", "--kubeconfig=k"], [":0"]),
        (["status", "shop", ""], [":4"]),
        (["logs", "shop", "--tail", ""], [":4"]),
        (["run", "-f", ""], [":0"]),
        (["run", "--secrets-dir", "s"], [":0"]),
        (["pause", "--kubeconfig", ""], [":0"]),
        (["explain", "Ga"], ["Gap", ":4"]),
        (["completion", ""], ["bash", "zsh", "fish", ":4"]),
        (["--vers"], ["--version", ":4"]),
    ],
)
def test_candidates_come_from_the_command_line_itself(
    words: list[str], expected: list[str]
) -> None:
    assert press_tab(*words) == expected


def test_every_command_is_offered_with_its_description() -> None:
    *commands, directive = completion.answer(main.build_parser(), []).splitlines()
    assert directive == ":4"
    assert "version\tshow the versions of icdc, of the operator and of the CRD" in commands
    lengths = [len(line.partition("\t")[2]) for line in commands]
    assert min(lengths) > 0
    assert max(lengths) == completion.MAX_DESCRIPTION


def test_names_of_pipelines_and_contexts_are_those_of_the_cluster(
    shop: Object, api: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add_pipeline({"metadata": {"name": "other"}}, "lake")
    assert press_tab("status", "") == ["shop", ":4"]
    assert press_tab("plan", "--context", "there", "o") == ["other", ":4"]
    assert press_tab("resync", "-n=lake", "") == ["other", ":4"]
    assert press_tab("status", "--context", "") == ["here", "there", ":4"]
    config = str(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert press_tab("status", "--kubeconfig", config, "") == ["shop", ":4"]
    assert press_tab("status", "--kubeconfig", config, "--context", "h") == ["here", ":4"]


def test_whoever_presses_tab_reads_no_error_and_does_not_wait(
    shop: Object,
    api: ApiStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.failure = (403, "jane may not do that")
    assert press_tab("status", "") == [":4"]
    monkeypatch.setattr(completion, "SECONDS", 0.05)
    monkeypatch.setattr(session, "run_in_namespace", lambda *_: time.sleep(5))
    began = time.monotonic()
    assert press_tab("status", "") == [":4"]
    assert time.monotonic() - began < 2
    (tmp_path / "kubeconfig").write_text("{", encoding="utf-8")
    assert press_tab("status", "--context", "") == [":4"]

    def fail(*_: object) -> None:
        raise KeyError("value")

    monkeypatch.setattr(session, "run_in_namespace", fail)
    monkeypatch.setattr(sys, "argv", [completion.PROGRAM, "status", ""])
    assert main.complete() == 0
    assert capsys.readouterr() == (":4\n", "")
