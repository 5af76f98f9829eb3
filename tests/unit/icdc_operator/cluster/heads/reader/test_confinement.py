"""What a reader of catalogs may do once it is confined: a real process tries."""

import os
from pathlib import Path

import pytest

from icdc_operator.cluster.heads.reader.limits import confinement, landlock

from . import confined

pytestmark = pytest.mark.unit

FILES = (
    "read a file",
    "read where tokens are",
    "read another process",
    "write a file",
    "write beside the code",
    "start a process by C",
)
ALWAYS = (
    "start a process",
    "call a shell",
    "load a library",
    "find a function of C",
    "connect to loopback",
    "connect to localhost",
    "connect to a number",
    "connect wrapped",
    "connect to cloud metadata",
    "connect to any",
    "connect to a socket file",
    "connect past the resolver",
    "send a datagram",
    "listen",
)


def test_a_reader_reads_no_file_of_others_starts_nothing_and_connects_to_nothing_near(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("swordfish", encoding="utf-8")
    outcomes = confined.try_in_confinement(tmp_path, *ALWAYS, "see variables", *FILES)
    assert outcomes.pop("see variables") == "KeyError"
    assert {outcomes[name] for name in ALWAYS} == {"AccessRefused"}
    if landlock.read_version() > 0:
        assert {outcomes[name] for name in FILES} == {"PermissionError"}
    assert not (tmp_path / "written").exists()


@pytest.mark.skipif(
    landlock.read_version() < landlock.SCOPES_SINCE, reason="the kernel's Landlock knows no scopes"
)
def test_a_reader_sends_no_signal_to_the_process_that_started_it(tmp_path: Path) -> None:
    names = ("signal its parent", "signal its parent by C")
    assert set(confined.try_in_confinement(tmp_path, *names).values()) == {"PermissionError"}


def test_a_reader_has_its_code_its_authorities_and_some_memory_but_not_all(tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca" / "ca.pem").write_text("authority", encoding="utf-8")
    allowed = ("import", "read the named authority", "read the resolver's file", "take some memory")
    outcomes = confined.try_in_confinement(tmp_path, *allowed, "take memory")
    assert outcomes == {**dict.fromkeys(allowed, "done"), "take memory": "MemoryError"}


def test_hosts_that_are_allowed_are_connected_to(tmp_path: Path) -> None:
    allow = ("127.0.0.0/8", "localhost")
    outcomes = confined.try_in_confinement(
        tmp_path, "connect to loopback", "connect to localhost", allow=allow
    )
    assert set(outcomes.values()) == {"ConnectionRefusedError"}


@pytest.mark.parametrize(
    ("given", "cloud_role", "retained"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": "/k"}, True, {}),
        ({"AWS_REGION": "r", "https_proxy": "http://p"}, False, None),
        ({"AWS_ACCESS_KEY_ID": "k", "AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}, False, {}),
        ({"AWS_ACCESS_KEY_ID": "k", "AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}, True, None),
        ({"PYICEBERG_CATALOG__X__URI": "u", "AWS_PROFILE": "p", "PGPASSFILE": "/p"}, False, {}),
    ],
)
def test_variables_of_kubernetes_never_reach_a_reader_and_those_of_a_cloud_role_only_if_asked(
    given: dict[str, str], cloud_role: bool, retained: dict[str, str] | None
) -> None:
    variables = confinement.build_environment(given, cloud_role=cloud_role)
    assert variables.pop("HOME") != os.environ.get("HOME")
    assert (variables.pop("AWS_EC2_METADATA_DISABLED", None) is None) == cloud_role
    assert variables == (given if retained is None else retained)
