"""A real OpenSearch node on loopback with what every distribution has and the embedded one has not.

That is processors of ingest pipelines, shapes and, of the line 2.19, k-NN. Of 3.x Maven serves k-NN
3.5.0.0, but not the module `transport-grpc` without which its node does not start. Run as a program
(`python -m icdc_testing.target.secure.plugin_node`) it writes the lock of the jars of 3.x anew.
"""

import hashlib
import os
import shutil
import ssl
import subprocess
import sys
import zipfile
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from icdc_api.errors import Submission
from icdc_cli.embedded import jar_lock, jars, jdk
from icdc_testing import ROOT
from icdc_testing.kube.server_process import HeldPort
from icdc_testing.target import node_calls
from icdc_testing.target.node_calls import NodeAnswer
from icdc_testing.waiting import wait

_FOLDER = ROOT / "tests" / "tools" / "secure-opensearch"
_PARTS = (
    *(":opensearch", ":opensearch-plugin-classloader", ".plugin:transport-netty4-client"),
    *(".plugin:reindex-client", ".plugin:mapper-extras-client", ".plugin:analysis-common"),
    *(".plugin:lang-painless", ".plugin:ingest-common", ".plugin:geo"),
)
_CLASSES = (
    "org.opensearch.transport.Netty4ModulePlugin",
    "org.opensearch.analysis.common.CommonAnalysisModulePlugin",
    "org.opensearch.index.mapper.MapperExtrasModulePlugin",
    "org.opensearch.index.reindex.ReindexModulePlugin",
    "org.opensearch.geo.GeoModulePlugin",
    "org.opensearch.ingest.common.IngestCommonModulePlugin",
    "org.opensearch.painless.PainlessModulePlugin",
)
SHAPES = ("org.locationtech.spatial4j:spatial4j:0.7", "org.locationtech.jts:jts-core:1.15.0")
"""Optional for Maven, but in every distribution: without them there is no `geo_shape`."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_START_SECONDS = 240.0
_FETCH_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class PluginRelease:
    """A release of OpenSearch, and what Maven serves of it."""

    version: str
    """Of the core and its modules."""
    lock: str
    """The name of the file with the lock of their jars."""
    jars: str
    """The name of their set in it."""
    jdks: Container[int]
    """Majors of Java that run it."""
    libraries: tuple[str, ...]
    """Coordinates of further jars."""
    plugins: Mapping[str, str] = field(default_factory=dict)
    """Checksums of the zips of plugins, by their names."""
    classes: tuple[str, ...] = ()
    """Classes of plugins beside those that every such node has."""


NEWER = PluginRelease(
    version="3.8.0",
    lock="newer.lock",
    jars="opensearch-modules-3.8.0",
    jdks=range(21, 100),
    libraries=("org.apache.logging.log4j:log4j-core:2.25.4", *SHAPES),
)


class PluginNode:
    """One node and its JVM, without any security; a context manager."""

    release: ClassVar[PluginRelease] = NEWER
    scheme: ClassVar[str] = "http"
    administrator: ClassVar[tuple[str, str] | None] = None
    """Name and password of who may do everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tls: ssl.SSLContext | None = None
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it and wait until it answers."""
        plugins = {name: _ensure_plugin(name, self.release) for name in self.release.plugins}
        port = HeldPort()
        self.url = f"{self.scheme}://{port.address}"
        settings = self.build_settings(plugins, port.number)
        class_path = [*_fetch_jars(self.release)]
        for plugin in plugins.values():
            class_path += sorted(plugin.glob("*.jar"))
        command = [
            *(str(find_jdk(self.release).java), "-Xmx700m", "-XX:+UseSerialGC"),
            *("-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(map(str, class_path))),
            *(str(_FOLDER / "PluginNode.java"), str(self.folder)),
            ",".join((*_CLASSES, *self.release.classes)),
            *(f"{key}={value}" for key, value in settings.items()),
        ]
        log = self.folder / "node.log"
        port.release()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            wait.wait_until(self._is_ready, f"the node of {log} answers", seconds=_START_SECONDS)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def call(
        self, method: str, path: str, body: object = None, *, user: tuple[str, str] | None = None
    ) -> NodeAnswer:
        """Send one request, as the administrator unless told otherwise."""
        credentials = user or self.administrator
        return node_calls.call(self.url, method, path, body, credentials=credentials, tls=self.tls)

    def build_settings(self, plugins: Mapping[str, Path], port: int) -> dict[str, Any]:
        """Return its settings, given the folders of its plugins by their names; write files."""
        del plugins
        return {
            **self.build_common_settings(port),
            "transport.type": "netty4",
            "http.type": "netty4",
        }

    def build_common_settings(self, port: int) -> dict[str, Any]:
        """Return what every such node is set to."""
        return {
            "path.data": self.folder / "data",
            "path.logs": self.folder,
            "cluster.name": "plugins",
            "node.name": "plugins",
            "discovery.type": "single-node",
            "network.host": "127.0.0.1",
            "http.port": port,
            "transport.port": 0,
            "node.store.allow_mmap": "false",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "node.log").read_text()[-3000:]
        try:
            return self.call("GET", "/_cluster/health").status == 200
        except OSError:
            return False

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def find_jdk(release: PluginRelease) -> jdk.Jdk:
    """Return a JDK that runs the release; Submission if there is none."""
    purpose = f"to run OpenSearch {release.version}"
    return jdk.find_jdk(release.jdks, purpose=purpose, wanted="17 or 25", compiler=True)


def write_lock(release: PluginRelease) -> None:
    """Write the lock of the release's jars anew, from Maven."""
    roots = (*(f"org.opensearch{part}:{release.version}" for part in _PARTS), *release.libraries)
    text = jar_lock.render({release.jars: jars.resolve(release.jars, roots)})
    (_FOLDER / release.lock).write_text(text, encoding="utf-8")


def _fetch_jars(release: PluginRelease) -> list[Path]:
    text = (_FOLDER / release.lock).read_text(encoding="utf-8")
    return jars.fetch_jars(release.jars, jar_lock.parse(text))


def _ensure_plugin(name: str, release: PluginRelease) -> Path:
    """Return the folder of an unpacked plugin; fetched once. Submission where it cannot be had."""
    folder = jars.choose_cache_dir() / "jars" / f"{name}-{release.plugins[name][:16]}"
    with jars.hold_lock(folder.with_name(f".{folder.name}.lock")):
        if not folder.is_dir():
            _fetch_plugin(name, release, folder)
    return folder


def _fetch_plugin(name: str, release: PluginRelease, folder: Path) -> None:
    artifact = f"org.opensearch.plugin:{name}:{release.version}.0:zip"
    scratch = folder.with_name(f".{folder.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    command = ["mvn", "-q", "-B", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={scratch}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
    )
    archives = sorted(scratch.glob("*.zip"))
    if not archives:
        raise Submission(f"Maven did not deliver {artifact}: {done.stdout[-1000:]}")
    digest = hashlib.sha256(archives[0].read_bytes()).hexdigest()
    if digest != release.plugins[name]:
        raise Submission(f"{artifact} has the checksum {digest}, not {release.plugins[name]}.")
    with zipfile.ZipFile(archives[0]) as archive:
        archive.extractall(scratch)
    archives[0].unlink()
    scratch.rename(folder)


if __name__ == "__main__":
    write_lock(NEWER)
    sys.exit(0)
