import shlex
import sys
from pathlib import Path

import pytest

from icdc_cli.embedded import class_data, jars

pytestmark = pytest.mark.unit


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without an archive, with one jar of its own."""
    jar = tmp_path / "iceberg.jar"
    jar.write_bytes(b"classes")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "with a space"))
    monkeypatch.setattr(jars, "fetch_jars", lambda name: [jar])
    return tmp_path


def test_without_an_archive_nothing_is_asked_of_the_jvm(prefix: Path) -> None:
    assert class_data.build_environment({"SPARK_SUBMIT_OPTS": "-Xss4m"}) == {}


def test_the_options_come_once_and_after_those_that_are_there(prefix: Path) -> None:
    archive = class_data.build_archive_path()
    archive.parent.mkdir(parents=True)
    archive.touch()
    once = class_data.build_environment({"SPARK_SUBMIT_OPTS": "-Xss4m"})
    assert class_data.build_environment(once) == once
    wanted = ["-Xss4m", f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"]
    assert shlex.split(once["SPARK_SUBMIT_OPTS"]) == wanted


def test_another_jar_wants_another_archive(prefix: Path) -> None:
    before = class_data.build_archive_path()
    (prefix / "iceberg.jar").write_bytes(b"other classes")
    assert class_data.build_archive_path() != before
    assert class_data.build_archive_path().parent == before.parent
