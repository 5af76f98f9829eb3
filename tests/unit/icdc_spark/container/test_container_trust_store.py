"""The file of authorities of an executor, as Java's own tool reads it."""

import subprocess
import sys
from pathlib import Path

import pytest

from icdc_api import authorities
from icdc_cli.embedded import jdk
from icdc_spark.container import trust_store
from icdc_testing.network.tls import Authority

from .test_container_commands import EXECUTOR

pytestmark = pytest.mark.unit

COMMAND = ["/java/bin/java", "-cp", "x"]


@pytest.fixture(scope="module")
def keytool() -> str:
    return str(jdk.find_spark_jdk().home / "bin" / "keytool")


@pytest.fixture(scope="module")
def java_home(keytool: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JDK that trusts one authority, and whose program lists what it is given to trust."""
    folder = tmp_path_factory.mktemp("java")
    usual = folder / "lib" / "security" / "cacerts"
    usual.parent.mkdir(parents=True)
    authority = Authority.make(folder / "usual").ca
    command = [keytool, "-importcert", "-noprompt", "-storetype", "JKS", "-alias", "usual"]
    files = ["-file", str(authority), "-keystore", str(usual), "-storepass", trust_store.PASSWORD]
    subprocess.run([*command, *files], check=True, capture_output=True, timeout=60)
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {keytool} -list -keystore "${{1#*=}}" -storepass {trust_store.PASSWORD}\n'
    )
    program.chmod(0o755)
    return folder


def test_java_reads_the_usual_authorities_and_those_of_two_catalogs(
    java_home: Path, tmp_path: Path
) -> None:
    files = [Authority.make(tmp_path / name).ca for name in ("one", "two", "three")]
    # A bundle, as they are found: with names, and letters beyond ASCII, in between.
    text = "".join(f"# Főtanúsítvány\n{file.read_text()}" for file in files[:2])
    files[0].write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "icdc_spark.container", "executor"],
        env={
            **EXECUTOR,
            "PYTHONPATH": ":".join(sys.path),
            "JAVA_HOME": str(java_home),
            authorities.FILES_VARIABLE: f"{files[0]}:{tmp_path / 'missing'}:{files[2]}",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "missing is left out: [Errno 2]" in done.stderr
    assert "contains 4 entries" in done.stdout
    listed = {line.split(",")[0] for line in done.stdout.splitlines() if "trustedCertEntry" in line}
    assert listed == {"usual", "icdc-0", "icdc-1", "icdc-2"}


def test_without_the_variable_the_command_stays_as_it_is() -> None:
    assert trust_store.add_option(COMMAND, EXECUTOR) == COMMAND


@pytest.mark.parametrize(
    ("certificates", "cacerts", "why"),
    [
        ("", b"", "not a certificate"),
        ("-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----", b"", "not a certif"),
        (None, b"", "No such file"),
        ("right", b"", "not a JKS keystore"),
        ("right", bytes(64), "not a JKS keystore"),
    ],
)
def test_what_cannot_be_made_is_said_and_java_starts_without(
    certificates: str | None,
    cacerts: bytes,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "ca.crt"
    if certificates == "right":
        certificates = Authority.make(tmp_path / "authority").ca.read_text(encoding="utf-8")
    if certificates is not None:
        file.write_text(certificates, encoding="utf-8")
    usual = tmp_path / "lib" / "security" / "cacerts"
    usual.parent.mkdir(parents=True)
    usual.write_bytes(cacerts)
    environment = {"JAVA_HOME": str(tmp_path), authorities.FILES_VARIABLE: str(file)}
    assert trust_store.add_option(COMMAND, environment) == COMMAND
    assert why in capsys.readouterr().err


def test_a_keystore_stays_one_when_nothing_is_added(java_home: Path) -> None:
    usual = (java_home / "lib" / "security" / "cacerts").read_bytes()
    assert trust_store.extend(usual, []) == usual
