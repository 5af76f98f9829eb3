"""The command line: what goes to which stream, and the exact exit codes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from icdc_api import errors
from icdc_api.crd import generator
from icdc_api.status.runs import Failure
from icdc_cli import exits, main
from icdc_cli.exits import Exit
from icdc_cli.local import application
from icdc_cli.local.application import Application

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("scripted")]

PipelineFile = Callable[..., Path]
HEAD = "apiVersion: icebergcdc.dev/v1alpha1\nkind: IcebergCDCPipeline\nmetadata: {name: shop}\n"


@pytest.mark.parametrize("command", ["run", "plan", "verify"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such file"),
        ("{", "not YAML: line 1, column 2: "),
        ("- a", "contains a list; allowed: one IcebergCDCPipeline"),
        (HEAD + "spec: {tabels: []}\n", "tabels"),
        (HEAD + "spec: {suspend: 'yes'}\n", "spec.suspend: "),
        (HEAD + "spec: {catalog: {properties: {type: '${NOT_SET}'}}}\n", "NOT_SET is not set"),
    ],
    ids=["missing file", "not YAML", "not a mapping", "unknown field", "wrong type", "variable"],
)
def test_bad_input_is_named_on_stderr_and_exits_with_2(
    command: str,
    text: str | None,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "bad.yaml"
    if text is not None:
        path.write_text(text)
    assert main.main([command, "-f", str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"icdc: {path}: ")
    assert message in output.err
    assert "Traceback" not in output.err
    assert not (tmp_path / ".icdc").exists()


SEARCH = {"hosts": ["https://127.0.0.1:1"], "credentialsFrom": {"secretRef": {"name": "search"}}}
LAKE = {"properties": {"type": "rest"}, "propertiesFrom": [{"secretRef": {"name": "lake"}}]}


@pytest.mark.parametrize("command", ["run", "plan", "verify"])
@pytest.mark.parametrize("given", [False, True])
def test_a_secret_that_is_not_there_is_named_before_anything_starts_and_exits_with_2(
    command: str,
    given: bool,
    pipeline_file: PipelineFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail_install(_spec: object) -> Application:
        raise AssertionError("Spark is being installed")

    monkeypatch.setattr(application, "find_installed", fail_install)
    path = pipeline_file(sink={"opensearch": SEARCH}, catalog=LAKE)
    (tmp_path / "secrets" / "lake").mkdir(parents=True)
    (tmp_path / "secrets" / "lake" / "token").write_text("t")
    options = ["--secrets-dir", "secrets"] if given else []
    assert main.main([command, "-f", str(path), *options]) == 2
    lines = capsys.readouterr().err.removeprefix("icdc: ").splitlines()
    search = tmp_path / "secrets" / "search"
    missing = f"the Secret 'search' cannot be read at {search}: No such file or directory"
    if not given:
        missing = (
            "the pipeline names the Secret 'search', but no directory of Secrets is given; use "
            "--secrets-dir DIR with the files DIR/search/<key>"
        )
    assert lines[-1] == f"{path}: spec.sink.opensearch.credentialsFrom: {missing}"
    expected = ["credentialsFrom"] if given else ["propertiesFrom[0]", "credentialsFrom"]
    assert [line.split(": ")[1].rpartition(".")[2] for line in lines] == expected
    assert not (tmp_path / ".icdc").exists()


def test_each_key_that_a_secret_lacks_is_named_before_anything_starts(
    pipeline_file: PipelineFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = pipeline_file(sink={"opensearch": SEARCH}, catalog=LAKE)
    for name in ("lake", "search"):
        (tmp_path / "secrets" / name).mkdir(parents=True)
    (tmp_path / "secrets" / "search" / "username").write_text("icdc")
    assert main.main(["run", "--once", "-f", str(path), "--secrets-dir", "secrets"]) == 2
    said = capsys.readouterr().err
    assert "spec.catalog.propertiesFrom[0]: the Secret 'lake' has no key at all; write" in said
    assert "credentialsFrom: the Secret 'search' has no key password; write it into a file" in said


def test_a_traceback_is_shown_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["run", "-f", str(tmp_path / "bad.yaml"), "-v"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["run"], ["run", "-f", "x", "--output", "xml"]]
)
def test_bad_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("usage: icdc")


@pytest.mark.parametrize(
    "command",
    [
        *([], ["run"], ["plan"], ["verify"], ["explain"], ["crd"]),
        *(["dead-letters"], ["dead-letters", "list"]),
    ],
)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main.main([*command, "--help"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("usage: icdc")


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_run_prints_the_whole_resource_and_nothing_else(
    output: str,
    parse: Callable[[str], Any],
    pipeline_file: PipelineFile,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = pipeline_file()
    assert main.main(["run", "-f", str(path), "--once", "--output", output]) == 0
    printed = capsys.readouterr()
    resource = parse(printed.out)
    assert printed.err == ""
    assert resource["spec"] == yaml.safe_load(path.read_text())["spec"]
    assert resource["status"]["tables"][0]["appliedSnapshotId"] == "7"
    assert resource["status"]["observedGeneration"] == resource["metadata"]["generation"] == 1
    assert Path(".icdc/default-shop/pipeline.yaml").is_file()


def test_run_tells_events_line_by_line_and_ends_with_the_table(
    pipeline_file: PipelineFile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["run", "-f", str(pipeline_file()), "--once", "--state-dir", "st"]) == 0
    *events, head, row = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in events][:2] == ["SpecAccepted", "RunPlanned"]
    assert head.split() == ["NAME", "STATE", "APPLIED", "BEHIND", "LAG", "ROWS", "MESSAGE"]
    assert row.split() == ["shop.orders", "Streaming", "7", "0", "0s", "3"]
    assert Path("st/pipeline.yaml").is_file()


@pytest.mark.parametrize(
    ("arguments", "fake", "code", "text"),
    [
        (["plan"], "succeed", 0, "NAME "),
        (["verify"], "succeed", 0, "shop.orders   shop.orders   -          yes"),
        (["verify"], "find_differences", 1, "shop.orders: missing: 1, 2"),
        (["verify", "--repair"], "find_differences", 1, "shop.orders: missing: 1, 2"),
        (["plan", "--output", "json"], "succeed", 0, '"equal": true'),
        (["plan"], "fail_to_connect", 3, "icdc: TargetUnavailable: http://127.0.0.1:1 refuses"),
        (["verify", "--repair"], "respect_future_fence", 0, "shop.orders   shop.orders"),
        (["verify", "--repair"], "respect_fence_of_live_run", 3, "icdc: Fenced: owned by epoch"),
        (["verify"], "crash", 1, "icdc: Bug: the application ended with code 1"),
    ],
)
def test_plan_and_verify_answer_and_keep_no_state(
    arguments: list[str],
    fake: str,
    code: int,
    text: str,
    pipeline_file: PipelineFile,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main([*arguments, "-f", str(pipeline_file(fake))]) == code
    output = capsys.readouterr()
    assert text in output.out + output.err
    assert not Path(".icdc").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["list"], 0, "shop.orders   o       7    mapper_parsing_exception"),
        (["list"], 0, "shop.orders: 5 more"),
        (["list", "--table", "shop.orders"], 0, "REASON"),
        (["list", "-o", "yaml"], 0, "id: '7'"),
        (["replay"], 1, "shop.orders   -       3        2"),
        (["replay", "--id", "7", "--id", "8"], 0, "shop.orders   -       3        0"),
        (["list", "--table", "shop.items"], 2, "has no such table; it has shop.orders"),
    ],
)
def test_dead_letters_are_shown_and_sent_again(
    arguments: list[str],
    code: int,
    shown: str,
    pipeline_file: PipelineFile,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(pipeline_file("answer_dead_letters"))
    assert main.main(["dead-letters", *arguments, "-f", path]) == code
    printed = capsys.readouterr()
    assert shown in printed.out + printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either NAME"),
        (["shop", "-f", "x.yaml"], "give either NAME"),
        (["shop", "--secrets-dir", "x"], "--secrets-dir is allowed only with -f"),
        (
            ["shop", *(f"--id={number}" for number in range(1001))],
            "at most 1000 are allowed at a time",
        ),
    ],
)
def test_dead_letters_are_those_of_a_file_or_of_a_pipeline_in_a_cluster(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["dead-letters", "list", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_crd_prints_the_crd(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["crd"]) == 0
    assert capsys.readouterr().out == generator.render()


def _list_concrete(kind: type[errors.IcdcError]) -> list[type[errors.IcdcError]]:
    """Return the errors of the API; which others there are hangs on what was imported before."""
    kinds = [kind, *(below for child in kind.__subclasses__() for below in _list_concrete(child))]
    return [error for error in kinds if error.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", _list_concrete(errors.IcdcError))
def test_every_error_has_an_exit_code(kind: type[errors.IcdcError]) -> None:
    passing = issubclass(kind, errors.PassingError | errors.RunError | errors.Fenced)
    expected = Exit.OUTLASTED if passing and kind is not errors.RunError else Exit.STALLED
    if issubclass(kind, errors.BadSpec):
        expected = Exit.USAGE
    assert exits.choose_for_failure(Failure.of(kind("text"))) == expected


@pytest.mark.parametrize("command", ["plan", "verify"])
def test_credentials_that_a_file_would_send_unencrypted_are_reported_on_stderr(
    command: str, pipeline_file: PipelineFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secrets" / "lake" / "token"
    secret.parent.mkdir(parents=True)
    secret.write_text("t")
    lake = {**LAKE, "properties": {"type": "rest", "uri": "http://rest.lake:8181"}}
    path = pipeline_file(catalog=lake)
    secrets = ["--secrets-dir", str(tmp_path / "secrets")]
    assert main.main([command, "-f", str(path), *secrets]) == 0
    assert capsys.readouterr().err == (
        "icdc: spec.catalog.properties.uri: the credentials of http://rest.lake:8181 are sent "
        "unencrypted, and anyone on the network path can read them; use https\n"
    )
