"""Serves the pages on loopback, to who has the token, and to no script but their own.

The page acts with a person's permissions, on a port that every process and every web page of this
host can send requests to. So each request is checked, in this order, before anything is read:

    another method than GET or HEAD       405    nothing here changes anything
    Host is not loopback by name          403    a name of somebody else that now means 127.0.0.1
    Origin is another site                403    a script of another page
    no token at the start of the path     403    who was not given the address

Must not know what a page shows.
"""

import base64
import hashlib
import hmac
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from icdc_api.errors import WhoActs
from icdc_cli.commands.ui.elements import SCRIPT, STYLE, make, render_document
from icdc_cli.commands.ui.site import Page, PageSite

HOST = "127.0.0.1"
"""Served on no other address: what is shown is for the person at this host."""
REQUEST_SECONDS = 30
"""How long a request may take to arrive."""

_NAMES = ("127.0.0.1", "localhost")
"""Hosts in an address of this page, on whatever port: a tunnel may lead from another one."""


def _hash(text: str) -> str:
    """Return the text's name in a policy, which then allows this text inline and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_hash(STYLE)}; "
    # The script reads this page anew, and nothing else.
    f"script-src {_hash(SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Content-Type": "text/html; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # The address has the token.
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer, refusals as well."""


class PageServer(ThreadingHTTPServer):
    """Serves a site to who has the token."""

    daemon_threads = True
    # Python of some versions shares a port that another process of this person serves.
    allow_reuse_port = False

    def __init__(self, port: int, site: PageSite, token: str) -> None:
        """Listen on `port` of loopback, 0 for a free one; OSError where it is taken."""
        super().__init__((HOST, port), _PageHandler)
        self.site = site
        self.token = token

    def handle_error(self, request: object, client_address: object) -> None:
        """Do nothing: what arrives here is a connection that the browser has closed."""


class _PageHandler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "icdc"
    sys_version = ""
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer with a page."""
        self._answer(self._build_safely())

    def do_HEAD(self) -> None:
        """Answer with the headers of a page."""
        self._answer(self._build_safely())

    def _build_safely(self) -> Page:
        try:
            return self._build()
        except Exception as error:  # noqa: BLE001 - the root of a thread; the other pages go on
            text = f"Internal error: {type(error).__name__}: {error}"
            who = f"Who acts: {WhoActs.MAINTAINER.value}"
            return _refuse(HTTPStatus.INTERNAL_SERVER_ERROR, text, who)

    def _build(self) -> Page:
        refusal = self._find_refusal()
        if refusal is not None:
            return refusal
        path, _, query = self.path.partition("?")
        token, _, rest = path.removeprefix("/").partition("/")
        expected = self.server.token.encode()
        # In constant time: a wrong token says nothing of how much of it is right.
        if not hmac.compare_digest(token.encode("utf-8", errors="replace"), expected):
            text = "The address of this page has a token: icdc ui prints it whole."
            return _refuse(HTTPStatus.FORBIDDEN, text)
        return self.server.site.build(rest, query)

    def _find_refusal(self) -> Page | None:
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host.partition(":")[0].lower() not in _NAMES:
            return _refuse(HTTPStatus.FORBIDDEN, "This page is served to this host alone.")
        if origin is not None and origin != f"http://{host}":
            return _refuse(HTTPStatus.FORBIDDEN, "This page answers no other site.")
        return None

    def _answer(self, page: Page) -> None:
        body = page.text.encode()
        self.send_response(page.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if page.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of HTTP, or has another method than those above."""
        # The library says 501 to a method without a function here, and its page quotes the request.
        status = HTTPStatus(code)
        if status == HTTPStatus.NOT_IMPLEMENTED:
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self._answer(_refuse(status, "This page is only read."))

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: the path of each request has the token."""


def _refuse(status: HTTPStatus, *sentences: str) -> Page:
    text = (make("p", sentence) for sentence in sentences)
    body = make("body", make("main", make("h1", status.phrase), *text))
    document = make("html", make("head", make("title", "icdc"), make("style")), body, lang="en")
    return Page(status, render_document(document))
