"""The plugin of kubectl fits its manifest, and its launcher makes the environment that it needs."""

import hashlib
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import krew_plugin
from checkout import Checkout
from wanted import WantedRelease

pytestmark = pytest.mark.unit

WHEEL = "iceberg_cdc_operator-0.2.0-py3-none-any.whl"
# In the place of Python: makes environments of itself, and notes what is installed and started.
PYTHON = """#!/bin/sh
case "$*" in
  "-c import sys"*) echo "3.11 True" ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *" install "*) echo "install ${*##* }" >> "$CALLS" ;;
  *icdc_cli*) echo "start $*" >> "$CALLS" ;;
esac
"""


def make_wanted(folder: Path) -> WantedRelease:
    return WantedRelease("0.2.0", "", Checkout("c0ffee"), 315532800, "- This.\n", folder)


def test_the_manifest_of_the_plugin_fits_its_archive(tmp_path: Path) -> None:
    wheel = tmp_path / "iceberg_cdc_operator-0.2.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    archive, file = krew_plugin.pack_plugin(make_wanted(tmp_path), wheel)
    manifest = yaml.safe_load(file.read_text())
    (platform,) = manifest["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"].endswith(f"/0.2.0/{archive.name}")
    assert (file.stem, manifest["spec"]["version"]) == (manifest["metadata"]["name"], "v0.2.0")
    with tarfile.open(archive) as tar:
        modes = {member.name: member.mode for member in tar}
    assert modes.pop(platform["bin"]) == 0o755
    assert modes.keys() == {"LICENSE", "requirements.lock", wheel.name}
    again = tmp_path / "again"
    again.mkdir()
    assert (
        krew_plugin.pack_plugin(make_wanted(again), wheel)[0].read_bytes() == archive.read_bytes()
    )


@dataclass(frozen=True)
class UnpackedPlugin:
    """A launcher beside its wheel, with a cache of its own."""

    folder: Path

    def pack(self, wheel: bytes = b"wheel", lock: bytes = b"") -> None:
        (self.folder / WHEEL).write_bytes(wheel)
        launcher = self.folder / krew_plugin.LAUNCHER
        launcher.write_bytes(krew_plugin.render_launcher(self.folder / WHEEL, lock))
        launcher.chmod(0o755)

    def call(self) -> list[str]:
        """Call it; return what it installed and started, in words before paths."""
        calls = self.folder / "calls"
        calls.write_text("")
        subprocess.run(
            [self.folder / krew_plugin.LAUNCHER, "status", "a b"],
            env={
                "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}",
                "CALLS": str(calls),
                "ICDC_CACHE_DIR": str(self.folder / "cache"),
            },
            check=True,
            capture_output=True,
            timeout=60,
        )
        return calls.read_text().replace(f"{self.folder}/", "").splitlines()

    def list_environments(self) -> list[Path]:
        return sorted((self.folder / "cache" / "plugin").iterdir())


@pytest.fixture
def plugin(tmp_path: Path) -> UnpackedPlugin:
    (tmp_path / "python3").write_text(PYTHON)
    (tmp_path / "python3").chmod(0o755)
    unpacked = UnpackedPlugin(tmp_path)
    unpacked.pack()
    return unpacked


STARTED = "start -I -m icdc_cli.main status a b"
INSTALLED = ["install requirements.lock", f"install {WHEEL}", STARTED]


def test_the_first_call_installs_and_the_next_one_starts(plugin: UnpackedPlugin) -> None:
    assert plugin.call() == INSTALLED
    assert plugin.call() == [STARTED]


def test_another_wheel_beside_its_own_is_ignored(plugin: UnpackedPlugin) -> None:
    (plugin.folder / "iceberg_cdc_operator-0.1.0-py3-none-any.whl").touch()
    assert plugin.call() == INSTALLED


@pytest.mark.parametrize("other", [(b"rebuilt", b""), (b"wheel", b"locked")])
def test_another_content_of_the_same_version_makes_its_own_environment(
    plugin: UnpackedPlugin, other: tuple[bytes, bytes]
) -> None:
    plugin.call()
    plugin.pack(*other)
    assert plugin.call() == INSTALLED
    assert len(plugin.list_environments()) == 2


@pytest.mark.parametrize("python", ["", "#!/none\n", "#!/bin/sh\nexit 1\n"])
def test_an_environment_whose_python_does_not_start_is_made_again(
    plugin: UnpackedPlugin, python: str
) -> None:
    plugin.call()
    (environment,) = plugin.list_environments()
    broken = environment / "bin" / "python"
    broken.unlink()
    if python:
        broken.write_text(python)
        broken.chmod(0o755)
    assert plugin.call() == INSTALLED
    assert plugin.list_environments() == [environment]
    assert plugin.call() == [STARTED]
