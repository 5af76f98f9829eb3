"""The extra `cli`: what it installs, and what a command about a cluster imports."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from icdc_cli import main
from icdc_cli.local import application
from icdc_testing.kube.api_stub import ApiStub, Object, make_driver_pod

pytestmark = pytest.mark.unit

ALLOWED = {"pydantic", "pyyaml", "urllib3"}
# Of what a command imports it takes half of 0.25 s: 0.1 s aiohttp alone, 0.04 s asyncio.
HEAVY = (
    "aiohttp",
    "asyncio",
    "boto",
    "concurrent",
    "kopf",
    "kubernetes",
    "numpy",
    "opensearchpy",
    "pandas",
    "py4j",
    "pyarrow",
)
HEAVY_TOO = ("pyiceberg", "pyspark", "rich", "sqlalchemy", "thrift")

PROBE = """
import sys
from icdc_cli import main
try:
    code = main.main(sys.argv[1:])
except SystemExit as left:
    code = left.code
sys.stderr.write("modules: " + " ".join(sorted(sys.modules)) + "\\n")
sys.exit(code)
"""


def list_modules(*arguments: str) -> set[str]:
    """Return the top-level packages that the command has imported when it ends well."""
    command = [sys.executable, "-c", PROBE, *arguments]
    ended = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    *_, last = ended.stderr.splitlines()
    return {name.partition(".")[0] for name in last.removeprefix("modules: ").split()}


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["--help"],
            ["--version"],
            ["crd"],
            ["status", "shop"],
            ["pause", "shop"],
            ["resume", "shop"],
        ),
        *(["resync", "shop"], ["logs", "shop"], ["explain"], ["explain", "gap"]),
    ],
)
def test_a_command_about_a_cluster_imports_no_large_library(
    arguments: list[str], api: ApiStub, shop: Object
) -> None:
    api.pods.append(
        make_driver_pod("shop-e1-1-driver", "shop-e1-1", created="2026-03-01T12:00:00Z")
    )
    api.logs["shop-e1-1-driver"] = ["a line\n"]
    imported = list_modules(*arguments)
    assert "icdc_cli" in imported
    assert {name for name in imported if name.startswith((*HEAVY, *HEAVY_TOO))} == set()
    assert {name for name in imported if name.startswith("icdc_spark")} == set()


def test_the_extra_names_no_large_library() -> None:
    listed = metadata.requires("iceberg-cdc-operator") or []
    needed = [
        requirement
        for requirement in listed
        if "extra ==" not in requirement or 'extra == "cli"' in requirement
    ]
    needed += [requirement for requirement in listed if "extra == 'cli'" in requirement]
    names = {re.split(r"[^A-Za-z0-9-]", requirement)[0].lower() for requirement in needed}
    assert names == ALLOWED


@pytest.mark.parametrize("command", ["run", "plan", "verify"])
def test_a_run_on_this_host_says_which_extra_it_needs(
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    pipeline_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(application, "LOCAL_PACKAGES", ("no_such_spark",))
    path = pipeline_file()
    monkeypatch.chdir(path.parent)
    assert main.main([command, "-f", str(path)]) == 3
    said = capsys.readouterr().err
    assert "needs no_such_spark: pip install 'iceberg-cdc-operator[operator,spark]'" in said
    assert "Traceback" not in said
