"""A release is pushed and signed only where that was asked for, and never over another one."""

import os
import subprocess
from pathlib import Path

import pytest

import publishing
import signing
from icdc_api.errors import BadSpec, Submission
from icdc_testing import ROOT

pytestmark = pytest.mark.unit

# In the place of Python: notes what it is called with, and can build no program.
PYTHON = """#!/bin/sh
echo "$@" >> "$CALLS"
case " $* " in *" --path "*) exit "$BUILT" ;; esac
"""


def run_make(folder: Path, *arguments: str, built: int = 0) -> tuple[int, list[str]]:
    """Run `make release` with another Python; return its exit code and that Python's calls."""
    (folder / "bin").mkdir()
    (folder / "bin" / "python").write_text(PYTHON)
    (folder / "bin" / "python").chmod(0o755)
    (folder / ".installed").touch()
    typed_before = {"REGISTRY": "r.example/shell", "SIGN_KEY": "shell.key", "MAKEFLAGS": ""}
    done = subprocess.run(
        ["make", "-C", str(ROOT), f"VENV={folder}", "release", "VERSION=0.2.0", *arguments],
        env={**os.environ, **typed_before, "CALLS": str(folder / "calls"), "BUILT": str(built)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, (folder / "calls").read_text().splitlines()


def test_a_dry_run_pushes_nothing_whatever_the_shell_exports(tmp_path: Path) -> None:
    code, calls = run_make(tmp_path)
    assert code == 0
    releases = [call for call in calls if call.startswith("tools/release/release.py")]
    assert [call.split(" --registry ")[1] for call in releases] == [
        " --sign-key  --check",
        " --sign-key  --images .icdc/images",
    ]
    assert not any("cosign" in call for call in calls)


def test_what_is_typed_is_pushed_and_signed(tmp_path: Path) -> None:
    code, calls = run_make(tmp_path, "REGISTRY=r.example/a", "SIGN_KEY=a.key")
    assert code == 0
    assert "tools/release/release.py 0.2.0 --registry r.example/a --sign-key a.key --check" in calls
    assert sum("helm crane cosign" in call for call in calls) == 2


def test_nothing_is_made_without_the_pinned_programs(tmp_path: Path) -> None:
    code, calls = run_make(tmp_path, built=1)
    assert code != 0
    assert not any("release.py" in call or "images.py" in call for call in calls)


READ = "r.example/lake/UNAUTHORIZED/404:1.0.0"
ASKED = (
    f"`crane manifest` of {READ} failed:\n"
    f"Error: fetching manifest {READ}: GET https://r.example/v2/lake/404/manifests/1.0.0: "
)


@pytest.mark.parametrize(
    ("said", "absent"),
    [
        ("MANIFEST_UNKNOWN: manifest unknown; map[Tag:1.0.0]", True),
        ("NAME_UNKNOWN: Unknown name", True),
        ("NOT_FOUND: artifact lake/x:1.0.0 not found", True),
        ("unexpected status code 404 Not Found: <html>", True),
        ("unexpected status code 500 Internal Server Error: 404 MANIFEST_UNKNOWN DENIED", False),
        ("TOOMANYREQUESTS: not found", False),
    ],
)
def test_only_what_the_registry_says_of_the_tag_makes_it_absent(said: str, absent: bool) -> None:
    assert publishing.is_absent(READ, f"{ASKED}{said}") is absent


@pytest.mark.parametrize(
    "said",
    [
        "DENIED: requested access to the resource is denied",
        "UNAUTHORIZED: authentication required",
        "unexpected status code 401 Unauthorized",
        "unexpected status code 403 Forbidden: 404",
    ],
)
@pytest.mark.parametrize("at", ["/v2/lake/404/manifests/1.0.0", "/token?scope=a:404:pull"])
def test_a_tag_that_nobody_may_read_may_be_there(said: str, at: str) -> None:
    printed = ASKED.replace("/v2/lake/404/manifests/1.0.0", at)
    with pytest.raises(Submission, match=r"does not let you read r\.example.*`docker login`"):
        publishing.is_absent(READ, f"{printed}{said}")


def test_an_address_that_is_no_registry_has_not_the_tag_absent() -> None:
    asked = ASKED.replace("/v2/lake/404/manifests/1.0.0", "/v2/")
    assert not publishing.is_absent(READ, f"{asked}unexpected status code 404 Not Found")


def test_a_key_is_a_file_or_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSIGN_PASSWORD", "")
    (tmp_path / "cosign.key").touch()
    for key in (str(tmp_path / "cosign.key"), "awskms:///alias/release"):
        signing.check_key(key)
    with pytest.raises(BadSpec, match=r"SIGN_KEY=\S+none\.key is neither a file nor an address"):
        signing.check_key(str(tmp_path / "none.key"))


def test_the_password_of_a_key_is_missed_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COSIGN_PASSWORD", raising=False)
    (tmp_path / "cosign.key").touch()
    signing.check_key("awskms:///alias/release")
    with pytest.raises(BadSpec, match="COSIGN_PASSWORD is not set, and nobody is asked"):
        signing.check_key(str(tmp_path / "cosign.key"))


# In the place of cosign, which takes six minutes to build: writes what it was called with.
COSIGN = """#!/bin/sh
echo "$@" >> "$CALLS"
"""


def test_nothing_of_a_signature_goes_into_a_public_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cosign").write_text(COSIGN)
    (tmp_path / "cosign").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    signature = signing.sign_file(tmp_path / "SUMS", "a.key")
    signing.sign_reference("r.example/a@sha256:1f", "a.key", plain_http=False)
    assert signature == tmp_path / "SUMS.sigstore.json"
    unlogged = "--use-signing-config=false --tlog-upload=false"
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"sign-blob --yes --key a.key {unlogged} --bundle {signature} {tmp_path / 'SUMS'}",
        f"sign --yes --key a.key {unlogged} r.example/a@sha256:1f",
    ]
