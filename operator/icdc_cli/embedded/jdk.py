"""Finds the JDKs of this machine, so that nobody has to set a path by hand.

Spark and each release of OpenSearch run on other ranges of Java, a machine often has several, and
`java` on the PATH is the one that somebody else needed last. So all are found, and each purpose
takes the first that fits:

    JAVA_HOME=…/jdk-25, /usr/lib/jvm has 17 and 21    discover: 25, 17, 21
    to run Spark: 17 or 21                            17: 25 was named, but does not fit
    to run OpenSearch 3.8.0: 21 or later, with javac  25, or 21 where 25 has no javac

What a user gains: no path to set where no single JDK fits both, as on a host with 17 and 25, of
which the embedded OpenSearch takes the newer one. Version managers name their own JDKs only. Looks
at folders and `release` files and starts no process: there, finding both took 1.1 ms. Knows
nothing of what the JDK is for, beyond the words that a caller wants in the error.
"""

import os
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from icdc_api.errors import Submission

SPARK_JDKS = (17, 21)
"""Majors that run Spark 4.1: Hadoop's `getSubject` fails on later ones."""

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""What spark-submit adds to the options of the JVM that it becomes."""
_SPARK_PREFIXES = ("SPARK_", "PYSPARK_")

# Where packages of Linux distributions, images and macOS put JDKs.
_SYSTEM_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
)
# Where version managers of a user and IDEs put them: SDKMAN, asdf, IntelliJ, macOS.
_HOME_FOLDERS = (
    ".sdkman/candidates/java/*",
    ".asdf/installs/java/*",
    ".jdks/*",
    "Library/Java/JavaVirtualMachines/*/Contents/Home",
)
# Java 8 and before call themselves 1.8: the 1 is passed over.
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def without_other_spark(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those of another Spark on this host, which would change ours.

    SPARK_HOME says which Spark is started, SPARK_CONF_DIR whose spark-defaults.conf it reads,
    SPARK_REMOTE that pyspark asks a server instead, PYSPARK_GATEWAY_PORT that it uses the JVM of
    another program. Options for a JVM, SPARK_SUBMIT_OPTS, stay: a user means them for any.
    """
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(_SPARK_PREFIXES) or name == SUBMIT_OPTIONS
    }


@dataclass(frozen=True)
class Jdk:
    """One installed JDK."""

    home: Path
    """Its folder, with all links resolved."""
    major: int
    """Its feature release, such as 17."""

    @property
    def java(self) -> Path:
        """The program that runs class files."""
        return self.home / "bin" / "java"

    @property
    def javac(self) -> Path:
        """The compiler; a runtime without development tools has none."""
        return self.home / "bin" / "javac"

    @property
    def build(self) -> str:
        """The text of the `release` file: differs between any two builds."""
        return (self.home / "release").read_text(encoding="utf-8", errors="replace")


def discover(environ: Mapping[str, str] | None = None, *, root: Path = Path("/")) -> list[Jdk]:
    """Find all JDKs, each once: those that the environment names first, then by rising major.

    `environ` is the process environment unless given; `root` is where the usual system folders
    are looked for.
    """
    env = os.environ if environ is None else environ
    named = _read_jdks(_find_named_homes(env))
    usual = _read_jdks(_find_usual_homes(env, root))
    # By home as well, so that two of one major do not change places from call to call.
    return named + sorted((j for j in usual if j not in named), key=lambda j: (j.major, j.home))


def find_jdk(
    allowed: Container[int],
    *,
    purpose: str,
    wanted: str,
    compiler: bool = False,
    installed: list[Jdk] | None = None,
) -> Jdk:
    """Return the first JDK whose major is in `allowed`; with `compiler`, one that has javac.

    `purpose` ("to run Spark") and `wanted` ("17 or 21") go into the error: Submission, which
    says what was looked for, what was found, and what to install or set.
    """
    jdks = discover() if installed is None else installed
    fitting = [jdk for jdk in jdks if jdk.major in allowed]
    for jdk in fitting:
        if not compiler or jdk.javac.is_file():
            return jdk
    if fitting:
        raise Submission(
            f"A JDK with its compiler is needed {purpose}, but {_format(fitting)} has no javac. "
            f"Install the full JDK {wanted}, or set JAVA_HOME to one."
        )
    raise Submission(
        f"JDK {wanted} is needed {purpose}; found {_format(jdks) if jdks else 'no JDK'}. "
        f"Install JDK {wanted}, or set JAVA_HOME (or JAVA_HOME_<version>) to its folder."
    )


def find_spark_jdk(installed: list[Jdk] | None = None) -> Jdk:
    """Return the JDK that runs Spark; Submission if there is none."""
    wanted = " or ".join(map(str, SPARK_JDKS))
    return find_jdk(SPARK_JDKS, purpose="to run Spark", wanted=wanted, installed=installed)


def _format(jdks: list[Jdk]) -> str:
    return ", ".join(f"{jdk.major} in {jdk.home}" for jdk in jdks)


def _find_named_homes(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield homes from JAVA_HOME, then JAVA_HOME_<version>, then PATH: a person's choice first."""
    if env.get("JAVA_HOME"):
        yield Path(env["JAVA_HOME"])
    # JAVA_HOME_17_X64 and the like, as runners of CI name the JDKs that they have.
    for name in sorted(env):
        if name.startswith("JAVA_HOME_") and env[name]:
            yield Path(env[name])
    for folder in filter(None, env.get("PATH", "").split(os.pathsep)):
        java = Path(folder) / "java"
        if java.is_file():
            # /usr/bin/java is a link to bin/java of the JDK that the host prefers.
            yield java.resolve().parent.parent


def _find_usual_homes(env: Mapping[str, str], root: Path) -> Iterator[Path]:
    for pattern in _SYSTEM_FOLDERS:
        yield from sorted(root.glob(pattern.lstrip("/")))
    if env.get("SDKMAN_CANDIDATES_DIR"):
        yield from sorted(Path(env["SDKMAN_CANDIDATES_DIR"]).glob("java/*"))
    if env.get("HOME"):
        for pattern in _HOME_FOLDERS:
            yield from sorted(Path(env["HOME"]).glob(pattern))


def _read_jdks(homes: Iterator[Path]) -> list[Jdk]:
    """Return the JDKs in these homes, in their order; two links to one folder count once."""
    jdks: dict[Path, Jdk] = {}
    for home in homes:
        real = home.resolve()
        major = _read_major(real)
        if major is not None:
            jdks.setdefault(real, Jdk(real, major))
    return list(jdks.values())


def _read_major(home: Path) -> int | None:
    """Read the major from the `release` file; None where there is no usable Java."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    version = _VERSION.search(text)
    # A `release` file alone is no JDK: folders of other programs may have one too.
    usable = version and (home / "bin" / "java").is_file()
    return int(version.group(1)) if version and usable else None
