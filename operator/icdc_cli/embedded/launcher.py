"""Compiles the small Java program that starts an OpenSearch node, once per JDK and version.

What a user gains: `hosts: embedded` needs no download of OpenSearch but the jars of the lock, no
plugins and no root, and the class-data archive that a first start leaves saves later ones more
than half of their 5.8 CPU seconds (measured in `opensearch_node`). The jar
and its archive live in the cache. Knows javac and files; starts no node.
"""

import hashlib
import os
import tempfile
import zipfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from icdc_cli.embedded import jars, programs
from icdc_cli.embedded.jdk import Jdk

MAIN_CLASS = "OpenSearchNode"
_COMPILE_TIMEOUT_SECONDS = 120
"""For one file of some 100 lines: a few seconds, on a host that swaps far more."""


@dataclass(frozen=True)
class Launcher:
    """What the command line of a node is built from."""

    class_path: tuple[Path, ...]
    """Jars of OpenSearch in the order of the lock, then the compiled launcher."""
    log_config: Path
    """Settings of Log4j: everything to standard output, which is the node's log."""
    archive: Path
    """Where the class-data archive belongs; a run without one makes it."""


def build_launcher(version: str, jdk: Jdk) -> Launcher:
    """Return the launcher for this version and JDK, compiled; Submission if it does not compile."""
    libraries = jars.fetch_jars(jars.name_opensearch_set(version))
    source = _read_source(f"{MAIN_CLASS}.java")
    log_config = _read_source("log4j2.properties")
    # All that decides whether a compiled launcher and its archive fit.
    inputs = [source, log_config, jdk.build.encode(), str(libraries[0].parent).encode()]
    key = hashlib.sha256(b"\0".join(inputs)).hexdigest()[:16]
    folder = jars.choose_cache_dir() / "launchers" / f"{version}-{jdk.major}-{key}"
    jar = folder / "launcher.jar"
    if not jar.is_file():
        with jars.hold_lock(folder / ".lock"):
            # The jar comes last: where it is, the folder is complete.
            if not jar.is_file():
                (folder / "log4j2.properties").write_bytes(log_config)
                _compile(source, libraries, jdk, jar)
    archive = folder / "classes.jsa"
    return Launcher((*libraries, jar), folder / "log4j2.properties", archive)


def _read_source(name: str) -> bytes:
    return resources.files("icdc_cli.embedded").joinpath("java", name).read_bytes()


def _compile(source: bytes, libraries: list[Path], jdk: Jdk, jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        classes = Path(scratch) / "classes"
        classes.mkdir()
        java_file = Path(scratch) / f"{MAIN_CLASS}.java"
        java_file.write_bytes(source)
        class_path = os.pathsep.join(map(str, libraries))
        # No annotation processing: javac would run the processor that log4j-core brings.
        command = [str(jdk.javac), "-nowarn", "-proc:none", "-cp", class_path]
        command += ["-d", str(classes), str(java_file)]
        name = f"{jdk.javac}, which compiles the launcher of the node,"
        programs.run_program(command, name=name, seconds=_COMPILE_TIMEOUT_SECONDS)
        # A jar and no folder of classes: class-data archives take jars alone.
        packed = Path(scratch) / "launcher.jar"
        with zipfile.ZipFile(packed, "w") as archive:
            # With its nested class, `OpenSearchNode$ClasspathNode`. ZIP without compression is
            # quicker to load, and a manifest is not needed for a class that is named.
            for class_file in sorted(classes.glob("*.class")):
                archive.write(class_file, class_file.name)
        packed.replace(jar)
