"""A real OpenSearch node on this host: for `hosts: [embedded]`, the demo and the tests.

What a user gains: `icdc run` and `icdc demo` work on a host that has no OpenSearch, container
engine or root, for 70 to 90 MB of jars that are fetched once. Starting and stopping 3.8.0 takes
2.6 CPU seconds with the launcher's class-data archive and 5.8 without (2 busy cores, November
2026). A node holds some 330 MB of memory at a heap of 512 MB.

Starts and stops one JVM with its own data folder, on loopback only. Knows nothing of indices,
documents or pipelines; who talks to the node uses `url`.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from icdc_api.errors import BadSpec, StartTimeout, Submission
from icdc_cli.embedded import jdk as jdks
from icdc_cli.embedded import node_files
from icdc_cli.embedded.jars import OPENSEARCH_VERSIONS
from icdc_cli.embedded.launcher import MAIN_CLASS, Launcher, build_launcher

START_SECONDS = 120.0
"""How long a node may take until it answers; a loaded machine needs several times the usual 5."""

_STOP_SECONDS = 30.0
"""Grace before each harder signal in `stop`; a node usually ends within half a second."""
_POLL_SECONDS = 0.05
_QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SHOWN_LINES = 25
"""Last lines of the node's log in an error."""
_OPENSEARCH_JDKS = {"2.19.6": range(11, 26), "3.8.0": range(21, 100)}
"""Majors of Java that run each release; 2.19.6 was seen to start on 25."""
_WANTED = {"2.19.6": "11, 17 or 21", "3.8.0": "21 or later"}
"""The same in the words of an error: releases with long support, which a user can install."""


class OpenSearchNode:
    """One node and its JVM; a context manager, or `start` and `stop` by hand.

    `version` is "auto" (the one that wrote the data folder, else the newest that the JDKs found
    here can run) or one of OPENSEARCH_VERSIONS; `port` 0 takes a free one; `heap` as in -Xmx;
    `settings` are OpenSearch settings on top of ours; with `keep` the node outlives this process
    until `stop_command` is run, and the next start on the folder joins it; without `quick_start`
    the JVM takes seconds more to start and indexes faster after some minutes.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        version: str = "auto",
        port: int = 0,
        heap: str = "512m",
        settings: Mapping[str, str] | None = None,
        keep: bool = False,
        quick_start: bool = True,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.version = version
        self.port = port
        self.url = ""
        self.pid = 0
        self.start_seconds = 0.0
        self._heap = heap
        self._own_settings = dict(settings or {})
        self._keep = keep
        self._quick_start = quick_start
        self._process: subprocess.Popen[bytes] | None = None
        self._new_archive: tuple[Path, Path] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._keep:
            self.stop()

    @property
    def log_file(self) -> Path:
        """Path of the output of the JVM and the node."""
        return self.data_dir / "node.log"

    @property
    def stop_command(self) -> str:
        """Command with which a user stops a node that was left running."""
        return f"kill $(cat {shlex.quote(str(self.data_dir / node_files.PID))})"

    def start(self) -> None:
        """Start the node and wait until it answers; join one that was left running on the folder.

        Submission: no JDK, no jars, or the JVM ended (with the end of its log);
        StartTimeout: no answer within START_SECONDS.
        """
        there = node_files.find_running(self.data_dir)
        if there is not None:
            self._join(there)
            return
        self.version, jdk = choose_version(self.version, self.data_dir)
        # A first start fetches and compiles, which must not eat the time of the node.
        program = build_launcher(self.version, jdk)
        node_files.prepare(self.data_dir, self.version, keep=self._keep)
        began = time.monotonic()
        self._launch(program, jdk)
        try:
            self._wait_until_ready(began + START_SECONDS)
        except BaseException:
            self.stop()
            raise
        self.start_seconds = time.monotonic() - began

    def stop(self) -> None:
        """End the JVM that `start` made, by SIGKILL if need be; a node that was joined goes on."""
        process, self._process = self._process, None
        if process is None:
            return
        # The launcher ends with its input, as it does when this process dies; a node that
        # outlives it has no input and gets the signal.
        if process.stdin is not None:
            process.stdin.close()
        else:
            process.terminate()
        for force in (signal.SIGTERM, signal.SIGKILL, None):
            try:
                process.wait(_STOP_SECONDS)
                break
            except subprocess.TimeoutExpired:  # a node that still starts does not read its input
                if force is not None:
                    process.send_signal(force)
        node_files.forget(self.data_dir)
        self._keep_archive(process.returncode)

    def _join(self, there: node_files.Running) -> None:
        if not there.stays:
            raise Submission(
                f"Process {there.pid} runs an OpenSearch node on {self.data_dir} and will end it; "
                "wait for it, or use another folder."
            )
        self.pid, self.url, self.version = there.pid, there.url, there.version

    def _launch(self, program: Launcher, jdk: jdks.Jdk) -> None:
        command = [str(jdk.java), *self._build_jvm_options(program), MAIN_CLASS, str(self.data_dir)]
        command.append("detach" if self._keep else "watch")
        command += [f"{key}={value}" for key, value in self._build_settings().items()]
        self.log_file.unlink(missing_ok=True)
        with self.log_file.open("wb") as log:
            try:
                # In a process group of its own: Ctrl-C reaches the run, which then stops the node.
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL if self._keep else subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.data_dir,
                    start_new_session=True,
                )
            except OSError as exc:
                raise Submission(f"{jdk.java} could not be started: {exc.strerror}") from exc
        self.pid = self._process.pid

    def _build_jvm_options(self, program: Launcher) -> list[str]:
        options = [
            f"-Xms{self._heap}",
            f"-Xmx{self._heap}",
            # A JVM without memory may go on half dead; one that ends is noticed at once.
            "-XX:+ExitOnOutOfMemoryError",
            # Errors alone: an archive that does not fit would warn at each start.
            "-Xlog:disable",
            "-Xlog:all=error:stderr",
            f"-Djava.io.tmpdir={self.data_dir / node_files.SCRATCH}",
            "-Djava.awt.headless=true",
            "-Dlog4j2.disable.jmx=true",
            f"-Dlog4j2.configurationFile={program.log_config}",
            "-cp",
            os.pathsep.join(map(str, program.class_path)),
        ]
        # At first another compiler and collector cost more than they give. G1 is OpenSearch's own.
        options += _QUICK if self._quick_start else ["-XX:+UseG1GC"]
        if program.archive.is_file():
            return [f"-XX:SharedArchiveFile={program.archive}", *options]
        if self._keep:
            return options  # Nobody would be there to collect the archive at its end.
        own = self.data_dir / node_files.SCRATCH / program.archive.name
        self._new_archive = (own, program.archive)
        return [f"-XX:ArchiveClassesAtExit={own}", *options]

    def _build_settings(self) -> dict[str, str]:
        return {
            "path.data": str(self.data_dir / "data"),
            "path.logs": str(self.data_dir),
            "cluster.name": "icdc-embedded",  # by which `node_files.is_healthy` knows its own
            "node.name": "embedded",
            # It elects itself, and never looks for other nodes to join.
            "discovery.type": "single-node",
            # There is no security plugin: whoever reaches the node may do anything.
            "network.host": "127.0.0.1",
            "http.port": str(self.port),
            # Nobody connects to it: any free port will do.
            "transport.port": "0",
            "transport.type": "netty4",
            "http.type": "netty4",
            # Mapped files may be more than vm.max_map_count allows, and raising it takes root.
            "node.store.allow_mmap": "false",
            # A disk that is 95 % full turns indices read-only, as a developer's may well be.
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            **self._own_settings,
        }

    def _wait_until_ready(self, deadline: float) -> None:
        while True:
            if self._process is None or self._process.poll() is not None:
                raise Submission(self._explain_failure("ended while it started"))
            port = node_files.read_port(self.data_dir)
            if port and node_files.is_healthy(port):
                self.url = f"http://127.0.0.1:{port}"
                return
            if time.monotonic() > deadline:
                raise StartTimeout(
                    self._explain_failure(f"did not answer within {START_SECONDS:.0f} s")
                )
            time.sleep(_POLL_SECONDS)

    def _explain_failure(self, what: str) -> str:
        log = node_files.read_tail(self.log_file)
        if "failed to obtain node locks" in log:
            return (
                f"Another OpenSearch node uses {self.data_dir} and does not answer; end it first."
            )
        if "BindHttpException" in log:
            return f"The embedded OpenSearch node cannot use port {self.port}: it is taken."
        last = "\n".join(log.splitlines()[-_SHOWN_LINES:])
        return f"The embedded OpenSearch node {what}; its log is {self.log_file}:\n{last}"

    def _keep_archive(self, exit_code: int | None) -> None:
        """Move the class-data archive of a clean exit to where the next start finds it."""
        if self._new_archive is None:
            return
        made, final = self._new_archive
        self._new_archive = None
        # 143: ended by SIGTERM through the shutdown hook, which writes the archive as well.
        if exit_code in (0, 143) and made.is_file():
            scratch = final.with_name(f".{final.name}.{os.getpid()}")
            with contextlib.suppress(OSError):
                made.replace(scratch)
                scratch.replace(final)
        made.unlink(missing_ok=True)


def choose_version(
    wanted: str, data_dir: Path, installed: Sequence[jdks.Jdk] | None = None
) -> tuple[str, jdks.Jdk]:
    """Return the version to start and a JDK for it; BadSpec if it is not one embedded here.

    A data folder stays with the version that wrote it, unless a newer one is asked for by name.
    """
    if wanted not in ("auto", *OPENSEARCH_VERSIONS):
        raise BadSpec(
            f"OpenSearch {wanted} cannot be embedded; allowed: auto, "
            f"{', '.join(OPENSEARCH_VERSIONS)}."
        )
    written = node_files.read_version(data_dir)
    order = OPENSEARCH_VERSIONS.index
    if wanted == "auto":
        candidates = [written] if written else list(reversed(OPENSEARCH_VERSIONS))
    elif written and order(wanted) < order(written):
        raise BadSpec(
            f"{data_dir} was written by OpenSearch {written}, which {wanted} cannot read; "
            "use that version or another folder."
        )
    else:
        candidates = [wanted]
    jdks_here = jdks.discover() if installed is None else list(installed)
    # Only the last one's error is raised: for `auto` on a new folder that is the oldest release,
    # which runs on the most JDKs. Of a folder with data there is one candidate.
    for version in candidates[:-1]:
        with contextlib.suppress(Submission):
            return version, _find_jdk(version, jdks_here)
    return candidates[-1], _find_jdk(candidates[-1], jdks_here)


def _find_jdk(version: str, installed: list[jdks.Jdk]) -> jdks.Jdk:
    return jdks.find_jdk(
        _OPENSEARCH_JDKS[version],
        purpose=f"to run OpenSearch {version}",
        wanted=_WANTED[version],
        compiler=True,
        installed=installed,
    )
