"""Who is served: who has the token, from this host, and only to read."""

import http.client
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

import pytest

from icdc_api.status.table_parts import LastBatch
from icdc_cli.commands.ui import server, site
from icdc_cli.commands.ui.elements import SCRIPT
from icdc_cli.commands.ui.readers import PageReading, ReadRefusal, SeenPipeline
from icdc_cli.commands.ui.server import PageServer
from icdc_cli.commands.ui.site import PageSite
from icdc_testing.operator.deciding.pipelines import NOW, make_caught_up

pytestmark = pytest.mark.unit

TOKEN = "secret"


class FixedReader:
    """Gives the same reading each time, or fails."""

    def __init__(self, reading: PageReading) -> None:
        self.reading: PageReading | Exception = reading
        self.count = 0

    def read(self) -> PageReading:
        self.count += 1
        if isinstance(self.reading, Exception):
            raise self.reading
        return self.reading


@pytest.fixture
def reader(
    make_pipeline: Callable[..., SeenPipeline], make_reading: Callable[..., PageReading]
) -> FixedReader:
    return FixedReader(make_reading(make_pipeline(make_caught_up())))


@pytest.fixture
def port(reader: FixedReader) -> Iterator[int]:
    serving = PageServer(0, PageSite(reader, f"/{TOKEN}/"), TOKEN)
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield serving.server_port
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join()


def ask(
    port: int, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        (f"/{TOKEN}/", 200, "sales/"),
        (f"/{TOKEN}", 200, "sales/"),
        (f"/{TOKEN}/pipelines/sales/shop", 200, "shop.orders"),
        (f"/{TOKEN}/pipelines/sales/shop?pause&all", 200, ">Resume<"),
        (f"/{TOKEN}/pipelines/sales/%3Cb%3E", 404, "no pipeline &lt;b&gt; in"),
        (f"/{TOKEN}/words", 200, "IncompatibleSchema"),
        (f"/{TOKEN}/words/gap", 200, "Who acts"),
        (f"/{TOKEN}/words/nonsense", 404, "no such page"),
        (f"/{TOKEN}/../etc/passwd", 404, "no such page"),
        ("/", 403, "has a token"),
        ("/favicon.ico", 403, "has a token"),
        (f"/{TOKEN}x/", 403, "has a token"),
        (f"/{TOKEN[:-1]}/", 403, "has a token"),
        (f"http://127.0.0.1/{TOKEN}/", 403, "has a token"),
    ],
)
def test_an_address_without_the_token_shows_nothing(
    path: str, status: int, said: str, port: int, reader: FixedReader
) -> None:
    answer, text = ask(port, path)
    assert (answer.status, said in text) == (status, True), text
    assert (TOKEN in text) == (status in (200, 404))
    assert status != 403 or reader.count == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:9"}, 200),
        ({"Host": "LOCALHOST"}, 200),
        ({"Host": "evil.example:80"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "localhost:9", "Origin": "http://localhost:9"}, 200),
        ({"Host": "localhost:9", "Origin": "http://localhost:8"}, 403),
        ({"Host": "localhost:9", "Origin": "https://localhost:9"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_a_name_or_a_page_of_somebody_else_is_refused(
    headers: dict[str, str], status: int, port: int, reader: FixedReader
) -> None:
    assert ask(port, f"/{TOKEN}/", headers=headers)[0].status == status
    assert reader.count == (status == 200)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"])
def test_only_reads_are_answered(method: str, port: int, reader: FixedReader) -> None:
    answer, _ = ask(port, f"/{TOKEN}/", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert reader.count == 0


def test_head_is_a_page_without_its_body(port: int) -> None:
    request = f"HEAD /{TOKEN}/ HTTP/1.0\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request.encode())
        with connection.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200")
    assert b"Content-Length: " in head
    assert body == b""


@pytest.mark.parametrize("path", [f"/{TOKEN}/", "/", f"/{TOKEN}/nothing"])
def test_every_answer_has_a_policy_that_allows_our_style_and_nothing_else(
    path: str, port: int
) -> None:
    answer, text = ask(port, path)
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert [rule.partition("-")[0] for rule in policy[1:3]] == ["style", "script"]
    assert all(re.fullmatch(r"\w+-src 'sha256-\S+'", rule) for rule in policy[1:3])
    assert policy[3] == "connect-src 'self'"
    assert {name: answer.headers[name] for name in server.HEADERS} == server.HEADERS
    # A style in an attribute would need unsafe-inline.
    assert " style=" not in text
    assert text.replace(f"<script>{SCRIPT}</script>", "").count("<script") == 0


def test_no_page_refers_to_anything_elsewhere(port: int) -> None:
    links: set[str] = set()
    for path in ("", "pipelines/sales/shop", "words/gap"):
        links |= set(re.findall(r'(?:href|src)="([^"]*)"', ask(port, f"/{TOKEN}/{path}")[1]))
    assert {link for link in links if not link.startswith((f"/{TOKEN}/", "#"))} == set()
    for link in {link for link in links if link.startswith("/")}:
        assert ask(port, link)[0].status == 200, link


def test_a_page_refreshes_itself_unless_it_is_paused(port: int) -> None:
    page = ask(port, f"/{TOKEN}/")[1]
    assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in page
    assert page.count("<script") == 1
    assert ' data-refresh="10">' in page
    page = ask(port, f"/{TOKEN}/?pause")[1]
    assert "http-equiv" not in page
    assert "<script" not in page


def test_pages_that_are_asked_for_at_once_share_a_reading(port: int, reader: FixedReader) -> None:
    for _ in range(3):
        assert ask(port, f"/{TOKEN}/")[0].status == 200
    assert reader.count == 1


def test_batches_are_remembered_from_one_reading_to_the_next(
    port: int,
    reader: FixedReader,
    make_pipeline: Callable[..., SeenPipeline],
    make_reading: Callable[..., PageReading],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site, "READING_SECONDS", 0.0)
    for second, plots in ((1, 0), (2, 4)):
        batch = LastBatch(at=NOW + timedelta(seconds=second), upserted=second)
        reader.reading = make_reading(make_pipeline(make_caught_up(last_batch=batch)))
        assert ask(port, f"/{TOKEN}/pipelines/sales/shop")[1].count("<svg") == plots


def test_a_cluster_that_shows_nothing_is_an_error_with_who_acts(
    port: int, reader: FixedReader, make_reading: Callable[..., PageReading]
) -> None:
    refusal = ReadRefusal("namespace sales", "no answer", "nobody: it is retried")
    reader.reading = make_reading(refusals=(refusal,))
    answer, text = ask(port, f"/{TOKEN}/")
    assert answer.status == 502
    assert "no answer" in text
    assert "nobody: it is retried" in text
    assert "http-equiv" in text


def test_an_error_that_nobody_expected_ends_one_page(port: int, reader: FixedReader) -> None:
    reader.reading = ValueError("<b>")
    answer, text = ask(port, f"/{TOKEN}/")
    assert answer.status == 500
    assert "ValueError: &lt;b&gt;" in text
    assert ask(port, f"/{TOKEN}/words")[0].status == 200
