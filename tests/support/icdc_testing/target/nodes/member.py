"""One OpenSearch node among several: a JVM of the embedded node's jars that finds its peers."""

import http.client
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from icdc_cli.embedded import node_files
from icdc_cli.embedded.launcher import MAIN_CLASS, Launcher
from icdc_testing.waiting.children import OUTLIVING
from icdc_testing.waiting.wait import wait_until

HTTP_PORT = 9200
START_SECONDS = 240.0

_QUICK: Mapping[str, str] = {
    # A node that is gone is noticed in two seconds instead of thirty.
    "cluster.fault_detection.leader_check.interval": "500ms",
    "cluster.fault_detection.leader_check.timeout": "1s",
    "cluster.fault_detection.leader_check.retry_count": "2",
    "cluster.fault_detection.follower_check.interval": "500ms",
    "cluster.fault_detection.follower_check.timeout": "1s",
    "cluster.fault_detection.follower_check.retry_count": "2",
    "cluster.publish.timeout": "5s",
    "cluster.follower_lag.timeout": "5s",
    "cluster.join.timeout": "10s",
    "cluster.election.initial_timeout": "100ms",
    "discovery.find_peers_interval": "200ms",
    "transport.connect_timeout": "3s",
}


@dataclass
class Member:
    """A node; its data outlives its processes."""

    name: str
    address: str
    peers: Sequence[str]
    """The addresses of all nodes."""
    names: Sequence[str]
    """The names of all nodes."""
    folder: Path
    version: str
    java: Path
    program: Launcher
    enter: Sequence[str]
    """What stands before a command that runs where the node runs."""
    heap: str = "512m"
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def url(self) -> str:
        """The URL for requests to this node."""
        return f"http://{self.address}:{HTTP_PORT}"

    @property
    def data(self) -> Path:
        """The folder that holds the files of its shards."""
        return self.folder / "data"

    @property
    def alive(self) -> bool:
        """True while its process runs."""
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process, and return before it answers."""
        assert not self.alive, f"{self.name} runs already"
        node_files.prepare(self.folder, self.version)
        archive = self.program.archive
        options = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
        command = [*self.enter, str(self.java), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [*options, f"-Xms{self.heap}", f"-Xmx{self.heap}", "-Xlog:disable"]
        command += [f"-Djava.io.tmpdir={self.folder / node_files.SCRATCH}"]
        command += ["-Djava.awt.headless=true", "-Dlog4j2.disable.jmx=true"]
        command += [f"-Dlog4j2.configurationFile={self.program.log_config}"]
        command += ["-cp", os.pathsep.join(map(str, self.program.class_path)), MAIN_CLASS]
        command += [str(self.folder), "watch"]
        command += [f"{key}={value}" for key, value in self._build_settings().items()]
        with (self.folder / "node.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        # The fixture that has the nodes ends it, not the test that restarts it.
        OUTLIVING.add(self.process.pid)

    def wait_until_it_answers(self) -> None:
        """Return once it answers, whether it has found its peers or not."""

        def answers() -> bool:
            assert self.alive, (
                f"{self.name} ended: {node_files.read_tail(self.folder / 'node.log')}"
            )
            return self.ask("/") is not None

        wait_until(answers, f"{self.name} answers", seconds=START_SECONDS)

    def ask(self, path: str, *, seconds: float = 5.0) -> object:
        """Return the answer to a GET; None where there is none, or one that says no."""
        connection = http.client.HTTPConnection(self.address, HTTP_PORT, timeout=seconds)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            return json.loads(body) if answer.status == 200 else None
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return None
        finally:
            connection.close()

    def kill(self) -> None:
        """Send SIGKILL, and return once it is dead."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.wait()
        OUTLIVING.discard(process.pid)
        if process.stdin is not None:
            process.stdin.close()

    def _build_settings(self) -> dict[str, str]:
        return {
            **_QUICK,
            "path.data": str(self.data),
            "path.logs": str(self.folder),
            "cluster.name": "icdc-nodes",
            "node.name": self.name,
            "network.host": self.address,
            "http.port": str(HTTP_PORT),
            "transport.port": "9300",
            "discovery.seed_hosts": ",".join(self.peers),
            "cluster.initial_cluster_manager_nodes": ",".join(self.names),
            "transport.type": "netty4",
            "http.type": "netty4",
            "node.store.allow_mmap": "false",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
