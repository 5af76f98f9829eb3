"""Why no answer came is said where the failure shows it, and is not guessed where it does not."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from opensearchpy.exceptions import OpenSearchException, SSLError
from urllib3.exceptions import SSLError as UrllibSSLError

from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.client.target_errors import translate
from icdc_testing.network.tls import Certificates, make_certificates

pytestmark = pytest.mark.unit

WAIT_SECONDS = 30.0
NO_TLS = ": it does not answer with TLS; unless a proxy fails, its address is http://."
NO_CLIENT_CERTIFICATE = (
    ": it asks for a client certificate (mutual TLS), for which there is no setting."
)
NO_ANSWER = (
    ": it closed the connection without an answer, as a server does that restarts or expects "
    "https://."
)
NOTHING = "."
HALF = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"


def say(text: bytes, peer: socket.socket) -> None:
    peer.recv(1 << 16)
    peer.sendall(text)


def speak_tls(context: ssl.SSLContext, peer: socket.socket) -> None:
    """Refuse the client, which has no certificate; it reads why before the connection ends."""
    secured = context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
    with secured:
        with suppress(ssl.SSLError):
            secured.do_handshake()
        secured.shutdown(socket.SHUT_WR)
        while secured.recv(1 << 16):
            pass


@contextmanager
def serve(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Answer one connection on a port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_SECONDS)

        def accept() -> None:
            peer, _ = server.accept()
            peer.settimeout(WAIT_SECONDS)
            with peer:
                answer(peer)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(WAIT_SECONDS)


def explain(scheme: str, port: int) -> str:
    """Ask, and return what the message says after the address."""
    connection = Connection((f"{scheme}://127.0.0.1:{port}",), verify=False, timeout=WAIT_SECONDS)
    client = open_client(connection)
    with pytest.raises(OpenSearchException) as lost:
        client.info()
    client.close()
    return translate(lost.value, connection).message.partition("cannot be reached")[2]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(Path(tmp_path_factory.mktemp("tls")))


@pytest.mark.parametrize(
    ("scheme", "text", "said"),
    [
        ("https", b"HTTP/1.0 400 Bad Request\r\n\r\n", NO_TLS),
        ("https", b"", NOTHING),
        ("http", b"", NO_ANSWER),
        ("http", HALF, NOTHING),
        ("http", b"This is not an HTTP port", NOTHING),
    ],
)
def test_an_answer_that_ends_early_is_explained_by_what_came(
    scheme: str, text: bytes, said: str
) -> None:
    with serve(partial(say, text)) as port:
        assert explain(scheme, port) == said


def test_a_connection_that_is_reset_gave_no_answer() -> None:
    # What it did not read makes it a reset.
    with serve(lambda peer: None) as port:
        assert explain("http", port) == NO_ANSWER


@pytest.mark.parametrize("demands", [True, False])
def test_a_server_that_speaks_tls_is_not_said_to_speak_none(
    certificates: Certificates, demands: bool
) -> None:
    context = certificates.make_server_context()
    if demands:
        context.verify_mode = ssl.CERT_REQUIRED
    else:
        # None that a client of ours offers.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AES128-SHA")
    with serve(partial(speak_tls, context)) as port:
        assert explain("https", port) == (NO_CLIENT_CERTIFICATE if demands else NOTHING)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", NO_TLS),
        # OpenSSL 3.2 and newer.
        ("[SSL: RECORD_LAYER_FAILURE] record layer failure (_ssl.c:1010)", NO_TLS),
        # Servers in Java, and older ones in Go.
        ("[SSL: SSLV3_ALERT_BAD_CERTIFICATE] ssl/tls alert bad certificate (_ssl.c:2580)",
         NO_CLIENT_CERTIFICATE),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required",
         NO_CLIENT_CERTIFICATE),
        ("[SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] sslv3 alert handshake failure", NOTHING),
        ("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol", NOTHING),
    ],
)  # fmt: skip
def test_a_failure_of_tls_has_the_explanation_of_its_kind(text: str, said: str) -> None:
    lost = SSLError("N/A", text, UrllibSSLError(text))
    message = translate(lost, Connection(("https://search:9200",))).message
    assert message == f"OpenSearch at https://search:9200 cannot be reached{said}"
