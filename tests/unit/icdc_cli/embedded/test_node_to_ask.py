"""Where a question finds the embedded node of its pipeline."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from icdc_api.errors import BadSpec
from icdc_cli.embedded import node_files
from icdc_cli.local import host, resource
from icdc_cli.local.state_dir import StateDir

pytestmark = pytest.mark.unit

PIPELINE = """
apiVersion: icebergcdc.dev/v1alpha1
kind: IcebergCDCPipeline
metadata: {name: shop}
spec:
  catalog: {properties: {type: hadoop, warehouse: /lake}}
  tables: [{name: shop.orders}]
  sink: {opensearch: {hosts: embedded}}
"""


class _Health(BaseHTTPRequestHandler):
    """Answers as an embedded node does whose shards are active."""

    def do_GET(self) -> None:
        answer = b'{"cluster_name": "icdc-embedded", "status": "green"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def local(tmp_path: Path) -> resource.LocalPipeline:
    (tmp_path / "shop.yaml").write_text(PIPELINE, encoding="utf-8")
    return resource.load(tmp_path / "shop.yaml")


def test_a_question_is_asked_at_the_node_of_a_run_that_is_active(
    tmp_path: Path, port: int, local: resource.LocalPipeline
) -> None:
    state = StateDir(tmp_path / "state")
    with StateDir(tmp_path / "state"):
        node_files.prepare(state.node_path, "3.8.0")
        (state.node_path / node_files.PID).write_text(str(os.getpid()), encoding="utf-8")
        (state.node_path / node_files.PORT).write_text(str(port), encoding="utf-8")
        with host.with_node_to_ask(local, state) as asked:
            hosts = asked.request["spec"]["sink"]["opensearch"]["hosts"]
            assert hosts == [f"http://127.0.0.1:{port}"]
        assert node_files.find_running(state.node_path) is not None


def test_no_node_is_started_beside_a_run_that_starts_its_own(
    tmp_path: Path, local: resource.LocalPipeline
) -> None:
    state = StateDir(tmp_path / "state")
    with (
        StateDir(tmp_path / "state"),
        pytest.raises(BadSpec, match="is in use by another icdc run"),
        host.with_node_to_ask(local, state),
    ):
        pass
