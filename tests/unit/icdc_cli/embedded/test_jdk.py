"""JDKs are found in the places where people have them, and a missing one is explained."""

from pathlib import Path

import pytest

from icdc_api.errors import Submission
from icdc_cli.embedded.jdk import Jdk, discover, find_jdk, find_spark_jdk

pytestmark = pytest.mark.unit


def _install(home: Path, version: str, *, compiler: bool = True) -> Path:
    (home / "bin").mkdir(parents=True)
    for program in ("java", "javac") if compiler else ("java",):
        (home / "bin" / program).touch()
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n', encoding="utf-8")
    return home


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("25", 25), ("21-ea", 21), ("1.8.0_392", 8), ("11.0.2", 11)],
)
def test_the_major_is_read_from_the_release_file(tmp_path: Path, version: str, major: int) -> None:
    home = _install(tmp_path / "jdk", version)
    assert discover({"JAVA_HOME": str(home)}, root=tmp_path) == [Jdk(home, major)]


@pytest.mark.parametrize(
    "position",
    [
        "usr/lib/jvm/java-21",
        "usr/lib64/jvm/java-21",
        "opt/java/openjdk",
        "opt/jdk-21",
        "Library/Java/JavaVirtualMachines/temurin-21.jdk/Contents/Home",
        "opt/homebrew/opt/openjdk@21/libexec/openjdk.jdk/Contents/Home",
        "home/ada/.sdkman/candidates/java/21.0.2-tem",
        "home/ada/.jdks/temurin-21",
    ],
)
def test_the_usual_folders_are_searched(tmp_path: Path, position: str) -> None:
    home = _install(tmp_path / position, "21.0.2")
    assert discover({"HOME": str(tmp_path / "home/ada")}, root=tmp_path) == [Jdk(home, 21)]


def test_the_environment_goes_first_and_the_rest_is_sorted_by_version(tmp_path: Path) -> None:
    for version in ("25", "17.0.1", "21.0.1", "11.0.1"):
        _install(tmp_path / f"usr/lib/jvm/a{version}", version)
    on_path = _install(tmp_path / "somewhere", "22")
    links = tmp_path / "bin"
    links.mkdir()
    (links / "java").symlink_to(on_path / "bin" / "java")
    env = {
        "JAVA_HOME": str(tmp_path / "usr/lib/jvm/a21.0.1"),
        "JAVA_HOME_25": str(tmp_path / "usr/lib/jvm/a25"),
        "PATH": f"{tmp_path / 'empty'}:{links}",
    }
    assert [jdk.major for jdk in discover(env, root=tmp_path)] == [21, 25, 22, 11, 17]


def test_folders_that_are_no_jdk_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/jvm/without-release/bin").mkdir(parents=True)
    without_java = _install(tmp_path / "usr/lib/jvm/without-java", "17.0.1")
    (without_java / "bin" / "java").unlink()
    odd = _install(tmp_path / "usr/lib/jvm/odd", "17.0.1")
    (odd / "release").write_text("nothing of use", encoding="utf-8")
    env = {"JAVA_HOME": str(tmp_path / "gone"), "JAVA_HOME_17": ""}
    assert discover(env, root=tmp_path) == []


def test_two_links_to_one_jdk_count_once(tmp_path: Path) -> None:
    home = _install(tmp_path / "usr/lib/jvm/java-17-openjdk", "17.0.1")
    (tmp_path / "usr/lib/jvm/java-17").symlink_to(home)
    assert discover({}, root=tmp_path) == [Jdk(home, 17)]


def test_the_first_fitting_jdk_is_chosen(tmp_path: Path) -> None:
    installed = [Jdk(tmp_path / "a", 25), Jdk(tmp_path / "b", 21), Jdk(tmp_path / "c", 17)]
    assert find_spark_jdk(installed).major == 21


def test_a_jdk_with_its_compiler_is_preferred_where_one_is_needed(tmp_path: Path) -> None:
    runtime = Jdk(_install(tmp_path / "jre", "17.0.1", compiler=False), 17)
    full = Jdk(_install(tmp_path / "jdk", "17.0.1"), 17)
    assert _find_compiling_jdk([runtime, full]) == full
    with pytest.raises(Submission, match="has no javac"):
        _find_compiling_jdk([runtime])


def _find_compiling_jdk(installed: list[Jdk]) -> Jdk:
    return find_jdk({17}, purpose="to run x", wanted="17", compiler=True, installed=installed)


@pytest.mark.parametrize(
    ("majors", "found_jdk"), [((), "found no JDK"), ((11, 25), r"found 11 in .*, 25 in ")]
)
def test_a_missing_jdk_says_what_was_found_and_what_to_do(
    tmp_path: Path, majors: tuple[int, ...], found_jdk: str
) -> None:
    installed = [Jdk(tmp_path / str(major), major) for major in majors]
    with pytest.raises(Submission, match=found_jdk) as caught:
        find_spark_jdk(installed)
    assert "JDK 17 or 21 is needed to run Spark" in caught.value.message
    assert "set JAVA_HOME" in caught.value.message
