"""The embedded node as a user meets it: real JVMs, killed parents, taken ports."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from icdc_api.errors import BadSpec, Submission
from icdc_cli.embedded import node_files
from icdc_cli.embedded.jars import OPENSEARCH_VERSIONS
from icdc_cli.embedded.opensearch_node import OpenSearchNode, choose_version
from icdc_testing.target.node_calls import call, read_documents
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

_PARENT = """
import sys
from pathlib import Path
from icdc_cli.embedded.opensearch_node import OpenSearchNode
node = OpenSearchNode(Path(sys.argv[1]), heap="256m", keep=sys.argv[2] == "keep")
node.start()
print(node.url, flush=True)
sys.stdin.read()
"""


def _list_startable() -> list[str]:
    """Return the versions that the JDKs of this machine can run."""
    startable = []
    for version in OPENSEARCH_VERSIONS:
        try:
            choose_version(version, Path("/nonexistent"))
        except Submission:
            continue
        startable.append(version)
    return startable


def _is_answering(url: str) -> bool:
    try:
        return call(url, "GET", "/").status == 200
    except (OSError, http.client.HTTPException):
        return False


def _read_version(url: str) -> str:
    return str(json.loads(call(url, "GET", "/").body)["version"]["number"])


@pytest.fixture
def parent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process that starts a node in `tmp_path` and waits; both are ended at the end."""
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "node"), request.param]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()
    # A kept node that the test did not come to stop.
    left = node_files.find_running(tmp_path / "node")
    if left is not None and left.stays:
        os.kill(left.pid, signal.SIGTERM)


@pytest.mark.parametrize("version", _list_startable())
def test_a_node_starts_on_loopback_and_keeps_its_data_over_a_restart(
    version: str, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder with spaces, a comma and é"
    with OpenSearchNode(folder, version=version, heap="256m") as node:
        assert _read_version(node.url) == version
        local = json.loads(call(node.url, "GET", "/_nodes/_local/http,transport").body)
        (only,) = local["nodes"].values()
        bound = only["http"]["bound_address"] + only["transport"]["bound_address"]
        assert {address.rpartition(":")[0] for address in bound} == {"127.0.0.1"}
        call(node.url, "PUT", "/people/_doc/1?refresh=true", {"name": "Ada"})
    assert not _is_answering(node.url)

    with OpenSearchNode(folder, heap="256m") as again:
        assert _read_version(again.url) == version
        assert read_documents(again.url, "people") == {"1": (1, {"name": "Ada"})}


def test_two_nodes_run_side_by_side_with_their_own_settings(tmp_path: Path) -> None:
    refusing = {"action.auto_create_index": "false"}
    with (
        OpenSearchNode(tmp_path / "a", heap="256m") as one,
        OpenSearchNode(tmp_path / "b", heap="256m", settings=refusing) as other,
    ):
        assert one.url != other.url
        statuses = [
            call(url, "PUT", "/people/_doc/1", {"name": "Ada"}).status
            for url in (one.url, other.url)
        ]
    assert statuses == [201, 404]


@pytest.mark.parametrize("parent", ["watch"], indirect=True)
def test_a_node_ends_when_its_parent_is_killed(
    parent: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    assert _is_answering(url)
    parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not _is_answering(url), "the node does not answer any more")
    wait_until(lambda: not (tmp_path / "node" / node_files.PID).exists(), "the node has ended")


@pytest.mark.parametrize("parent", ["keep"], indirect=True)
def test_a_kept_node_outlives_its_parent_and_is_joined_then_stopped(
    parent: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    parent.kill()
    parent.wait()
    assert _is_answering(url)

    with OpenSearchNode(tmp_path / "node") as joined:
        assert joined.url == url
    assert _is_answering(url)

    subprocess.run(joined.stop_command, shell=True, check=True)
    wait_until(lambda: not _is_answering(url), "the node does not answer any more")
    wait_until(lambda: node_files.find_running(tmp_path / "node") is None, "the node is gone")


def test_a_node_that_was_killed_starts_again_on_its_folder(tmp_path: Path) -> None:
    node = OpenSearchNode(tmp_path, heap="256m")
    node.start()
    call(node.url, "PUT", "/people/_doc/1", {"name": "Ada"})
    os.kill(node.pid, signal.SIGKILL)
    node.stop()
    with OpenSearchNode(tmp_path, heap="256m") as again:
        assert read_documents(again.url, "people") == {"1": (1, {"name": "Ada"})}


def test_a_folder_is_not_shared_with_a_node_of_a_living_run(tmp_path: Path) -> None:
    with OpenSearchNode(tmp_path, heap="256m") as node:
        with pytest.raises(Submission, match=f"Process {node.pid} runs an OpenSearch node"):
            OpenSearchNode(tmp_path).start()
        (tmp_path / node_files.PORT).unlink()
        with pytest.raises(Submission, match="Another OpenSearch node uses"):
            OpenSearchNode(tmp_path, heap="256m").start()
        assert _is_answering(node.url)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        node = OpenSearchNode(tmp_path, port=port, heap="256m")
        with pytest.raises(Submission, match=f"cannot use port {port}: it is taken"):
            node.start()


def test_a_node_that_ends_while_it_starts_shows_its_log(tmp_path: Path) -> None:
    node = OpenSearchNode(tmp_path, heap="256m", settings={"no.such.setting": "1"})
    with pytest.raises(Submission, match=r"(?s)ended while it started.*no\.such\.setting"):
        node.start()


def test_an_older_version_is_refused_on_a_newer_folder(tmp_path: Path) -> None:
    node_files.prepare(tmp_path, OPENSEARCH_VERSIONS[-1])
    with pytest.raises(BadSpec, match="was written by OpenSearch"):
        OpenSearchNode(tmp_path, version=OPENSEARCH_VERSIONS[0]).start()
