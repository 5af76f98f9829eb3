"""Which OpenSearch is started: by name, by the folder, by the JDKs that there are."""

from pathlib import Path

import pytest

from icdc_api.errors import BadSpec, IcdcError, Submission
from icdc_cli.embedded import node_files
from icdc_cli.embedded.jdk import Jdk
from icdc_cli.embedded.opensearch_node import choose_version

pytestmark = pytest.mark.unit


@pytest.fixture
def jdks(tmp_path: Path) -> dict[int, Jdk]:
    """One JDK of each major, with a compiler."""
    by_version = {}
    for major in (8, 11, 17, 21, 25):
        home = tmp_path / str(major)
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "javac").touch()
        by_version[major] = Jdk(home, major)
    return by_version


@pytest.mark.parametrize(
    ("wanted", "written", "majors", "chosen"),
    [
        ("auto", None, (17, 25), ("3.8.0", 25)),
        ("auto", None, (25, 21), ("3.8.0", 25)),
        ("auto", None, (8, 11), ("2.19.6", 11)),
        ("auto", "2.19.6", (17, 25), ("2.19.6", 17)),
        ("2.19.6", None, (25,), ("2.19.6", 25)),
        ("3.8.0", "2.19.6", (17, 21), ("3.8.0", 21)),
    ],
)
def test_version_and_jdk_go_together(
    tmp_path: Path,
    jdks: dict[int, Jdk],
    wanted: str,
    written: str | None,
    majors: tuple[int, ...],
    chosen: tuple[str, int],
) -> None:
    if written:
        node_files.prepare(tmp_path / "node", written)
    version, jdk = choose_version(wanted, tmp_path / "node", [jdks[major] for major in majors])
    assert (version, jdk.major) == chosen


@pytest.mark.parametrize(
    ("wanted", "written", "majors", "error", "message"),
    [
        ("auto", None, (8,), Submission, "JDK 11, 17 or 21 is needed to run OpenSearch 2.19.6"),
        ("3.8.0", None, (17,), Submission, "JDK 21 or later is needed to run OpenSearch 3.8.0"),
        ("2.19.6", "3.8.0", (21,), BadSpec, "was written by OpenSearch 3.8.0"),
        ("1.3.20", None, (17,), BadSpec, "allowed: auto, 2.19.6, 3.8.0"),
        ("auto", "9.9.9", (17,), Submission, "was written by OpenSearch '9.9.9'"),
    ],
)
def test_what_cannot_run_is_explained(
    tmp_path: Path,
    jdks: dict[int, Jdk],
    wanted: str,
    written: str | None,
    majors: tuple[int, ...],
    error: type[IcdcError],
    message: str,
) -> None:
    if written:
        node_files.prepare(tmp_path / "node", written)
    with pytest.raises(error, match=message):
        choose_version(wanted, tmp_path / "node", [jdks[major] for major in majors])


def test_a_folder_without_a_node_has_none_running(tmp_path: Path) -> None:
    assert node_files.find_running(tmp_path) is None


def test_traces_of_a_dead_node_are_not_taken_for_a_running_one(tmp_path: Path) -> None:
    node_files.prepare(tmp_path, "3.8.0")
    (tmp_path / node_files.PID).write_text("999999999", encoding="utf-8")
    (tmp_path / node_files.PORT).write_text("1", encoding="utf-8")
    assert node_files.find_running(tmp_path) is None
