"""A user whose id the platform chose gets a name; any other one stays as it is."""

import os
from pathlib import Path

import pytest

from icdc_spark.container import user_name

pytestmark = pytest.mark.unit

FOREIGN = 1_000_680_000


def test_a_user_that_has_a_name_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert user_name.add_name({"PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize("before", [None, "libother.so"])
def test_a_user_without_a_name_gets_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str | None
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: FOREIGN)
    monkeypatch.setattr(os, "getegid", lambda: 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = {"PATH": "/bin"} | ({} if before is None else {"LD_PRELOAD": before})
    environment = user_name.add_name(given)
    names = Path(environment["NSS_WRAPPER_PASSWD"])
    assert names.parent == tmp_path
    assert names.read_text().startswith(Path("/etc/passwd").read_text())
    assert names.read_text().splitlines()[-1].startswith(f"icdc-{FOREIGN}:x:{FOREIGN}:0:")
    assert environment["NSS_WRAPPER_GROUP"] == "/etc/group"
    assert environment["LD_PRELOAD"].split() == ["libnss_wrapper.so", *([before] if before else [])]


def test_it_starts_without_a_name_where_no_file_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: FOREIGN)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert user_name.add_name({}) == {}
    assert f"user {FOREIGN} has no name" in capsys.readouterr().err
