"""Fetches jars with the ordinary Maven client, so that a user's mirrors and settings apply.

Companies have mirrors, proxies and credentials in ~/.m2/settings.xml; a downloader of our own would
work everywhere but there. A POM that depends on the wanted files is written, and Maven's plugin
`dependency` copies what it resolves:

    copy_exactly(["g:a:1"])             g:a:1 without dependencies   FOLDER/a-1.jar
    copy_with_dependencies(["g:a:1"])   g:a:1, which needs h:b:2     FOLDER/g/a/1/a-1.jar
                                                                     FOLDER/h/b/2/b-2.jar

What a user gains: the 2 jars of Spark and the 75 to 96 of an OpenSearch node come as any other of
the company's jars do. Spark's own `--packages` (Ivy) reads neither settings.xml nor our lock, and
knows nothing of a node.

The only module that starts `mvn`. Knows coordinates and folders, neither the lock nor the cache.
"""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

from icdc_api.errors import Submission
from icdc_cli.embedded import programs

# Pinned: without a version Maven takes the newest plugin there is, another one some day.
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_TIMEOUT_SECONDS = 900
"""For a whole set: 17 to 26 s for a node's 70 to 90 MB by a good line, a slow mirror far more."""
# Maven has one exit code for all failures; only its words say that the network is at fault.
_OFFLINE_SIGNS = (
    "Unknown host",
    "UnknownHostException",
    "in offline mode",
    "Connection refused",
    "Connect to ",
    "timed out",
    "Network is unreachable",
    "Temporary failure in name resolution",
)


def copy_exactly(coordinates: Iterable[str], folder: Path) -> None:
    """Copy these jars, and nothing that they depend on, into `folder`."""
    _copy(coordinates, folder, exclude_dependencies=True)


def copy_with_dependencies(coordinates: Iterable[str], folder: Path) -> dict[Path, str]:
    """Copy these jars and all they need at run time; return the coordinates of each copied file."""
    _copy(coordinates, folder, exclude_dependencies=False)
    return {jar: _parse_coordinates(jar, folder) for jar in sorted(folder.rglob("*.jar"))}


def _parse_coordinates(jar: Path, folder: Path) -> str:
    """Return a jar's coordinates by its path in a repository: group/parts/artifact/version/file.

    org/xerial/sqlite-jdbc/3.50.3.0/sqlite-jdbc-3.50.3.0.jar gives org.xerial:sqlite-jdbc:3.50.3.0,
    and with -arm before .jar it gives the same with :arm behind.
    """
    *group, artifact, version = jar.parent.relative_to(folder).parts
    classifier = jar.stem.removeprefix(f"{artifact}-{version}").lstrip("-")
    return ":".join(filter(None, (".".join(group), artifact, version, classifier)))


def _copy(coordinates: Iterable[str], folder: Path, *, exclude_dependencies: bool) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Submission(
            "The jars of local runs are fetched with Maven, but there is no mvn on the PATH. "
            "Install Maven 3.8 or later."
        )
    with tempfile.TemporaryDirectory(prefix="icdc-maven-") as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(_build_pom(coordinates, exclude_dependencies), encoding="utf-8")
        # The folders of a repository tell the group, which the file's name does not.
        layout = "false" if exclude_dependencies else "true"
        # -B: asks nothing and draws no progress. Runtime: what jars need to be compiled or tested
        # is not wanted on a class path.
        command = [mvn, "-q", "-B", "-f", str(pom), _COPY, "-DincludeScope=runtime"]
        command += [f"-Dmdep.useRepositoryLayout={layout}", f"-DoutputDirectory={folder}"]
        programs.run_program(
            command,
            name="Maven",
            seconds=_TIMEOUT_SECONDS,
            # A .mvn folder of the directory in which `icdc` is called would change Maven's options.
            folder=Path(scratch),
            explain=_explain,
        )


def _explain(output: str) -> str:
    """Return the message for a failure, from what Maven printed or why it did not end."""
    # The first line names the artifact; those behind it are general advice of Maven.
    errors = [line for line in output.splitlines() if "[ERROR]" in line] or output.splitlines()
    first = errors[0].replace("[ERROR]", "").strip()[:600] if errors else "it printed nothing"
    if any(sign in output for sign in _OFFLINE_SIGNS):
        return (
            "Maven could not reach its repository; the jars are fetched once, then cached. "
            f"Check the network and Maven's mirror settings, then try again: {first}"
        )
    return f"Maven could not fetch the jars of local runs: {first}"


def _build_pom(coordinates: Iterable[str], exclude_dependencies: bool) -> str:
    dependencies = "".join(_build_dependency(c, exclude_dependencies) for c in coordinates)
    return (
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>icdc</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def _build_dependency(coordinates: str, exclude_dependencies: bool) -> str:
    tags = ("groupId", "artifactId", "version", "classifier")
    inner = "".join(
        f"<{tag}>{escape(value)}</{tag}>"
        # Not strict: most coordinates have no classifier.
        for tag, value in zip(tags, coordinates.split(":"), strict=False)
    )
    if exclude_dependencies:
        # The lock lists what is needed indirectly as well, each with its sum.
        inner += "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>"
        inner += "</exclusion></exclusions>"
    return f"<dependency>{inner}</dependency>"
