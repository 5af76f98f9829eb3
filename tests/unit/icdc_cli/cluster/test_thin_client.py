"""The client of `icdc`: proxies, time limits, redirects, lines that come one by one, and Ctrl-C."""

import asyncio
import base64
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from icdc_api import naming
from icdc_api.errors import BadSpec
from icdc_cli.cluster import thin_client
from icdc_cli.cluster.credentials import Login
from icdc_cli.cluster.thin_client import ThinClient
from icdc_operator.cluster.kube import api_errors
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_testing.kube.api_stub import ApiStub, Object

pytestmark = pytest.mark.unit

Answer = Callable[[BaseHTTPRequestHandler], None]

# A shell that runs the tests in the background has its children ignore Ctrl-C.
PROGRAM = """
import signal, sys
from icdc_cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main.main(sys.argv[1:]))
"""

NOWHERE = "http://api.invalid"
"""A server that no name server knows: only a proxy can be asked for it."""


class RecordingServer:
    """Answers a GET by `answer`, and remembers who asked what."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        """Target and headers of every request; the names of headers in small letters."""
        server = self

        class AnswerHandler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.requests.append((self.path, headers))
                answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), AnswerHandler)
        self.http.daemon_threads = True
        self.http.block_on_close = False
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@contextmanager
def serve(answer: Answer) -> Iterator[RecordingServer]:
    server = RecordingServer(answer)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


def send_pipeline(handler: BaseHTTPRequestHandler) -> None:
    """Answer everything with an object."""
    data = json.dumps({"metadata": {"name": "shop"}}).encode()
    handler.send_response(200)
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def get(login: Login, *, seconds: float = 30.0) -> Object | None:
    """Return the pipeline `shop` as the client gets it."""

    async def ask() -> Object | None:
        api = ClusterApi(ThinClient(login), request_seconds=seconds)  # type: ignore[arg-type]
        try:
            return await api.get_pipeline("default", "shop")
        finally:
            await api.close()

    return asyncio.run(ask())


@pytest.fixture(autouse=True)
def _no_proxy_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_proxy_of_the_kubeconfig_is_asked_as_its_user() -> None:
    with serve(send_pipeline) as proxy:
        url = proxy.url.replace("//", "//jane:p%40ss@")
        assert get(Login(NOWHERE, proxy=url)) == {"metadata": {"name": "shop"}}
    ((target, headers),) = proxy.requests
    assert target.startswith(f"{NOWHERE}/apis/")
    user = base64.b64encode(b"jane:p@ss").decode()
    assert headers["proxy-authorization"] == f"Basic {user}"


def test_a_proxy_of_the_environment_is_asked_but_for_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve(send_pipeline) as proxy, serve(send_pipeline) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert get(Login(NOWHERE)) is not None
        assert get(Login(server.url)) is not None
        assert (len(proxy.requests), len(server.requests)) == (2, 0)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert get(Login(server.url)) is not None
    assert (len(proxy.requests), len(server.requests)) == (2, 1)


def test_a_proxy_of_another_kind_is_bad_usage_and_its_password_is_not_shown() -> None:
    with pytest.raises(BadSpec, match="is not an http:// or https:// URL") as caught:
        get(Login(NOWHERE, proxy="socks5://jane:secret@127.0.0.1:1"))
    assert "secret" not in caught.value.message


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    given_up = threading.Event()

    def wait(_: BaseHTTPRequestHandler) -> None:
        given_up.wait(60)

    with serve(wait) as server:
        with pytest.raises(api_errors.Unavailable, match="did not answer in time"):
            get(Login(server.url), seconds=0.05)
        given_up.set()


def test_no_other_server_gets_the_credentials_by_a_redirect() -> None:
    with serve(send_pipeline) as other:

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(307)
            handler.send_header("location", other.url)
            handler.send_header("content-length", "0")
            handler.end_headers()

        with serve(redirect) as server, pytest.raises(api_errors.Invalid, match="status 307"):
            get(Login(server.url, headers={"Authorization": "Bearer t"}))
    assert server.requests[0][1]["authorization"] == "Bearer t"
    assert other.requests == []


def test_a_line_of_a_log_is_there_before_the_next_one_is_sent(tmp_path: Path) -> None:
    seen = threading.Event()
    in_time: list[bool] = []

    def send_log(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"4\r\none\n\r\n")
        in_time.append(seen.wait(30))
        handler.wfile.write(b"3\r\ntwo\r\n0\r\n\r\n")

    lines = []

    async def follow(api: ClusterApi) -> None:
        async for line in api.follow_log("default", "driver", 10):
            lines.append(line)
            seen.set()

    with serve(send_log) as server:
        path = tmp_path / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": server.url}}
        context = {"name": "here", "context": {"cluster": "c"}}
        path.write_text(json.dumps({"clusters": [cluster], "contexts": [context]}))
        thin_client.run(follow, {"KUBECONFIG": str(path)}, context="here")
    assert lines == ["one\n", "two"]
    assert in_time == [True]


def test_a_question_is_taken_back_by_ctrl_c(api: ApiStub, shop: Object) -> None:
    asked = threading.Event()
    # While the answer to that request is on its way: the question is there, and nobody knows yet.
    api.after_patch = lambda _: asked.set()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "plan", "shop"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    assert printed.splitlines()[-1] == "icdc: interrupted"
    assert process.returncode == 130
    annotations = shop["metadata"]["annotations"]
    assert annotations[naming.ANNOTATION_ASK] is None


@pytest.mark.parametrize(
    ("accepted", "written", "tokens", "said"),
    [
        ("ab", "b", "aab", None),
        ("a", "b", "aab", "status 401"),
        ("a", None, "aa", "the login has expired, and there is no new one: the token file"),
        # Refused from the start: that is not what a new login cures.
        ("b", "b", "a", "status 401"),
    ],
)
def test_a_login_that_expires_is_read_anew_once(
    accepted: str, written: str | None, tokens: str, said: str | None, tmp_path: Path
) -> None:
    token, path = tmp_path / "token", tmp_path / "kubeconfig"
    token.write_text("a")

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers["authorization"].removeprefix("Bearer ")
        # The first token is good for one request.
        if asked not in accepted or (asked == "a" and len(server.requests) > 1):
            handler.send_response(401)
            handler.send_header("content-length", "0")
            handler.end_headers()
        else:
            send_pipeline(handler)

    async def ask_twice(api: ClusterApi) -> None:
        await api.get_pipeline("default", "shop")
        if written is None:
            token.unlink()
        else:
            token.write_text(written)
        await api.get_pipeline("default", "shop")

    with serve(answer) as server:
        document = {
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": {"tokenFile": "token"}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(document))
        run = partial(thin_client.run, ask_twice, {"KUBECONFIG": str(path)}, context="here")
        if said is None:
            run()
        else:
            with pytest.raises(api_errors.Denied, match=said):
                run()
        sent = [headers["authorization"][-1] for _, headers in server.requests]
    assert "".join(sent) == tokens
