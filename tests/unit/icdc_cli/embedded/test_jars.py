"""Jars are fetched once, checked, and kept; a script stands in for Maven at the border."""

import hashlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icdc_api.errors import BadSpec, Submission
from icdc_cli.embedded import jars
from icdc_cli.embedded.jar_lock import JarSet, LockedJar

pytestmark = pytest.mark.unit

_MVN = """#!{python}
import pathlib, signal, sys
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + chr(10))
if (here / "hangs").exists():
    signal.pause()
if (here / "says").exists():
    sys.exit((here / "says").read_text())
pom = pathlib.Path(sys.argv[sys.argv.index("-f") + 1])
(here / "pom").write_text(pom.read_text())
(out,) = [a.split("=", 1)[1] for a in sys.argv if a.startswith("-DoutputDirectory=")]
for jar in (here / "serves").iterdir():
    (pathlib.Path(out) / jar.name).write_bytes(jar.read_bytes())
"""


class FakeMaven:
    """What stands on the PATH as `mvn`: serves files from a folder, or fails with a text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "serves").mkdir(parents=True)
        script = folder / "mvn"
        script.write_text(_MVN.format(python=sys.executable), encoding="utf-8")
        script.chmod(0o755)

    def serve(self, name: str, content: bytes) -> None:
        (self._folder / "serves" / name).write_bytes(content)

    def hang(self) -> None:
        (self._folder / "hangs").touch()

    def fail(self, text: str) -> None:
        (self._folder / "says").write_text(text, encoding="utf-8")

    @property
    def calls(self) -> int:
        file = self._folder / "calls"
        return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0

    @property
    def pom(self) -> str:
        return (self._folder / "pom").read_text(encoding="utf-8")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ICDC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def maven(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMaven:
    fake = FakeMaven(tmp_path / "bin")
    fake.serve("x-1.jar", b"x")
    fake.serve("y-2-linux.jar", b"y")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return fake


def _make_lock() -> dict[str, JarSet]:
    x = LockedJar("g:x:1", "x-1.jar", hashlib.sha256(b"x").hexdigest())
    y = LockedJar("g:y:2:linux", "y-2-linux.jar", hashlib.sha256(b"y").hexdigest())
    return {"small": JarSet("small", (x, y))}


def test_a_set_is_fetched_once_and_then_needs_no_maven(
    maven: FakeMaven, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = jars.fetch_jars("small", _make_lock())
    assert [path.read_bytes() for path in first] == [b"x", b"y"]
    assert "<artifactId>y</artifactId><version>2</version><classifier>linux" in maven.pom
    assert "<exclusion><groupId>*</groupId>" in maven.pom
    monkeypatch.setenv("PATH", "")
    assert jars.fetch_jars("small", _make_lock()) == first
    assert maven.calls == 1


def test_two_that_need_a_set_at_once_fetch_it_once(maven: FakeMaven) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: jars.fetch_jars("small", _make_lock()), range(4)))
    assert all(result == results[0] for result in results)
    assert maven.calls == 1


def test_a_set_with_a_missing_jar_is_fetched_again(maven: FakeMaven) -> None:
    jars.fetch_jars("small", _make_lock())[0].unlink()
    assert all(path.is_file() for path in jars.fetch_jars("small", _make_lock()))
    assert maven.calls == 2


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(maven: FakeMaven, cache: Path) -> None:
    maven.serve("x-1.jar", b"something else")
    with pytest.raises(Submission, match=r"x-1\.jar \(g:x:1\) has the checksum"):
        jars.fetch_jars("small", _make_lock())
    assert [entry.suffix for entry in (cache / "jars").iterdir()] == [".lock"]


def test_a_jar_that_maven_did_not_deliver_is_named(maven: FakeMaven, tmp_path: Path) -> None:
    (tmp_path / "bin/serves/y-2-linux.jar").unlink()
    with pytest.raises(Submission, match=r"did not deliver y-2-linux\.jar"):
        jars.fetch_jars("small", _make_lock())
    assert maven.calls == 1


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("[ERROR] Unknown host repo.invalid\n[ERROR] more", "could not reach its repository"),
        ("[ERROR] Could not find artifact g:x:jar:1\n", "Could not find artifact g:x:jar:1"),
        (" ", "could not fetch the jars"),
    ],
)
def test_a_failure_of_maven_is_explained(maven: FakeMaven, says: str, message: str) -> None:
    maven.fail(says)
    with pytest.raises(Submission, match=message):
        jars.fetch_jars("small", _make_lock())


def test_a_maven_that_does_not_end_is_explained(
    maven: FakeMaven, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven.hang()
    monkeypatch.setattr("icdc_cli.embedded.maven._TIMEOUT_SECONDS", 0.1)
    with pytest.raises(Submission, match=r"Check the network and Maven's mirror.* after 0\.1 sec"):
        jars.fetch_jars("small", _make_lock())


def test_a_missing_maven_is_explained(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(Submission, match="there is no mvn on the PATH"):
        jars.fetch_jars("small", _make_lock())


def test_a_cache_that_cannot_be_written_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ICDC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(Submission, match="Set ICDC_CACHE_DIR"):
        jars.fetch_jars("small", _make_lock())


def test_an_unknown_set_names_those_that_there_are() -> None:
    with pytest.raises(BadSpec, match=r"no set of jars 'large'; there are small\."):
        jars.fetch_jars("large", _make_lock())


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"ICDC_CACHE_DIR": "/a"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/iceberg-cdc-operator"),
        ({"HOME": "/c"}, "/c/.cache/iceberg-cdc-operator"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    env: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ICDC_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert jars.choose_cache_dir() == Path(folder)


def test_the_command_puts_a_copy_where_it_is_told(
    maven: FakeMaven, cache: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "image" / "jars"
    assert jars.main(["fetch", "small", "--into", str(folder)], _make_lock()) == 0
    retained = jars.fetch_jars("small", _make_lock())
    assert {jar.name: jar.read_bytes() for jar in folder.iterdir()} == {
        jar.name: jar.read_bytes() for jar in retained
    }


def test_the_command_fetches_and_says_where(
    maven: FakeMaven, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert jars.main(["fetch", "small"], _make_lock()) == 0
    assert f"small: 2 jars in {cache}" in capsys.readouterr().out
    assert jars.main(["fetch", "large"], _make_lock()) == 1
    assert capsys.readouterr().err.startswith("error: There is no set of jars 'large'")
    assert maven.calls == 1


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICDC_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def fail(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", fail)
    with pytest.raises(BadSpec, match="set HOME or ICDC_CACHE_DIR"):
        jars.choose_cache_dir()
