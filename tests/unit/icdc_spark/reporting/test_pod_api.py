"""What goes over the wire to the API server, and what becomes of its answers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from icdc_spark.reporting import pod_api
from icdc_spark.reporting.pod_api import OwnPod
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.unit

SECONDS = 10.0
TEXT = "eJyr/VZ8=="


class OneAnswerServer:
    """An API server of one answer; None: it takes the request and says nothing."""

    def __init__(self) -> None:
        self.answer: tuple[int, str] | None = (200, "{}")
        self.requests: list[tuple[str, str, str | None, Any]] = []
        self.ended = threading.Event()
        answering = self

        class PodHandler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                kind = self.headers["content-type"]
                answering.requests.append((self.command, self.path, kind, body))
                if answering.answer is None:
                    answering.ended.wait(30)
                    return
                status, text = answering.answer
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), PodHandler)
        self.http.daemon_threads = True
        self.http.block_on_close = False

    def make_pod(self) -> OwnPod:
        host = f"http://127.0.0.1:{self.http.server_port}"
        return OwnPod("lake", "shop-c1-1-driver", lambda: Configuration(host=host))


@pytest.fixture
def server() -> Iterator[OneAnswerServer]:
    server = OneAnswerServer()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.ended.set()
    server.http.shutdown()
    server.http.server_close()
    thread.join()


def test_a_report_is_one_merge_patch_of_the_own_pod(server: OneAnswerServer) -> None:
    own = server.make_pod()
    assert own.annotate(TEXT, SECONDS) is None
    assert own.annotate("other", SECONDS) is None
    path = "/api/v1/namespaces/lake/pods/shop-c1-1-driver"
    kind = "application/merge-patch+json"
    assert server.requests == [
        ("PATCH", path, kind, {"metadata": {"annotations": {"icebergcdc.dev/report": text}}})
        for text in (TEXT, "other")
    ]


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (403, json.dumps({"message": 'pods "p" is forbidden'}), '403 Forbidden pods "p" is'),
        (404, json.dumps({"message": "not found"}), "404 Not Found not found"),
        (409, json.dumps([]), "409 Conflict"),
        (422, json.dumps({"message": "too\n long " * 1000}), "422 Unprocessable "),
        (429, "wait", "429 Too Many Requests"),
        (500, "", "500 Internal Server Error"),
        (503, json.dumps({"message": 5}), "503 Service Unavailable"),
    ],
)
def test_an_answer_that_is_no_success_is_one_short_line_after_one_request(
    status: int, body: str, problem: str, server: OneAnswerServer
) -> None:
    server.answer = (status, body)
    reason = server.make_pod().annotate(TEXT, SECONDS)
    assert reason is not None
    assert reason.startswith(problem)
    assert "\n" not in reason
    assert len(reason) <= pod_api.MAX_SHOWN_TEXT
    assert len(server.requests) == 1


def test_a_server_that_says_nothing_is_left_after_the_time_given(server: OneAnswerServer) -> None:
    server.answer = None
    reason = server.make_pod().annotate(TEXT, 0.2)
    assert reason is not None
    assert "timed out" in reason
    # The server may not have read it yet when it is given up.
    wait_until(lambda: bool(server.requests), "the request has come")
    assert len(server.requests) == 1


def test_a_server_that_is_not_there_is_said_at_once(server: OneAnswerServer) -> None:
    host = f"http://127.0.0.1:{server.http.server_port}"
    server.http.shutdown()
    server.http.server_close()
    reason = OwnPod("n", "p", lambda: Configuration(host=host)).annotate(TEXT, SECONDS)
    assert reason is not None
    assert "refused" in reason


def test_an_account_that_cannot_be_read_yet_is_tried_again(server: OneAnswerServer) -> None:
    host = f"http://127.0.0.1:{server.http.server_port}"
    answers = iter([ConfigException("no token"), FileNotFoundError("ca.crt")])

    def configure() -> Configuration:
        error = next(answers, None)
        if error is not None:
            raise error
        return Configuration(host=host)

    own = OwnPod("n", "p", configure)
    assert own.annotate(TEXT, SECONDS) == "ConfigException: no token"
    assert own.annotate(TEXT, SECONDS) == "FileNotFoundError: ca.crt"
    assert own.annotate(TEXT, SECONDS) is None


def test_outside_a_cluster_there_is_no_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    reason = OwnPod("n", "p").annotate(TEXT, SECONDS)
    assert reason == "ConfigException: Service host/port is not set."
