"""A client of one API server over urllib3 alone, because the `kubernetes` library costs a command
126 MB and 0.3 s of importing for the one or two requests that it sends, and aiohttp still 0.1 s.

    kube.transport calls    in the operator              in icdc
    param_serialize         ApiClient of the library     adds server and login to path and headers
    call_api                ApiClient of the library     sends one request of urllib3
    close                   ApiClient of the library     closes the connections

It stands in place of that library's `ApiClient` and has the methods that `kube.transport`
calls, so that errors and messages are those of the operator. They are coroutines only for that: a
request blocks, as a command does one thing at a time. So a command needs no event loop, and Ctrl-C
raises KeyboardInterrupt at the line that waits. Must know no kind of object.
"""

import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, NewConnectionError

from icdc_api.errors import BadSpec, Bug
from icdc_cli.cluster import credentials
from icdc_cli.cluster.credentials import Login
from icdc_operator.cluster.kube import api_errors
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.transport import TimeLimit

Request = tuple[str, str, dict[str, str], Any]
"""Method, URL, headers and body: what `param_serialize` returns and `call_api` takes."""

UNAUTHORIZED = 401
"""Status of an answer to credentials that are not valid, or not any more."""

Result = TypeVar("Result")

Work = Callable[[ClusterApi], Coroutine[Any, Any, Result]]
"""What a command does with an open connection."""


class ThinAnswer:
    """The answer to one request; its body is read on demand, unless the request has a limit."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.status = response.status
        """Status of HTTP."""
        self.headers = response.headers
        """Among them Retry-After of an API server that is overloaded."""

    @property
    def response(self) -> "ThinAnswer":
        """The stream of the body: that library has it in an object of its own."""
        return self

    @property
    async def content(self) -> AsyncIterator[bytes]:
        """Yield the lines of a body as they come, such as of a log that is followed."""
        with _map_to_os_errors():
            for line in self._response:
                yield line

    async def read(self) -> bytes:
        """Return the whole body."""
        with _map_to_os_errors():
            return self._response.data

    def close(self) -> None:
        """Close the connection, whatever is left to be read."""
        self._response.close()


class ThinClient:
    """Requests with the credentials of a login, one after another."""

    def __init__(self, login: Login, renew: Callable[[], Login] | None = None) -> None:
        """Set up connections with the login; BadSpec for a proxy that is none of HTTP.

        `renew` reads it anew where the server has accepted it and then does not any more.
        """
        self._renew = renew
        self._is_accepted = False
        self._connect(login)

    def _connect(self, login: Login) -> None:
        self._login = login
        tls: dict[str, Any] = {"ssl_context": login.tls, "server_hostname": login.server_name}
        if login.tls is not None and login.tls.verify_mode == ssl.CERT_NONE:
            # Who wrote insecure-skip-tls-verify need not read of it with each command.
            urllib3.disable_warnings(InsecureRequestWarning)
        proxy = login.proxy or _read_proxy(login.server)
        if proxy is None:
            self._pools = urllib3.PoolManager(**tls)
            return
        try:
            user = urllib3.util.parse_url(proxy).auth
            headers = urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else None
            self._pools = urllib3.ProxyManager(proxy, proxy_headers=headers, **tls)
        except HTTPError as error:
            # Without the URL, which may hold a password.
            raise BadSpec(
                "the proxy of the API server is not an http:// or https:// URL"
            ) from error

    async def close(self) -> None:
        """Close the connections."""
        self._pools.clear()

    async def param_serialize(
        self,
        method: str,
        path: str,
        *,
        header_params: Mapping[str, str],
        body: Any,
        auth_settings: object,
    ) -> Request:
        """Return the arguments of `call_api`; `auth_settings` is the library's business."""
        headers = {**header_params, **self._login.headers}
        return method, self._login.server + path, headers, body

    async def call_api(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Any,
        *,
        _request_timeout: TimeLimit,
    ) -> ThinAnswer:
        """Send one request; raises OSError, such as TimeoutError.

        The limit of the whole request is one of each wait for the next bytes here. A login that
        has expired meanwhile is renewed once; Denied where it cannot be.
        """
        answer = self._send(method, url, headers, body, limit=_request_timeout)
        # Never for the first answer: a plugin would ask its person twice for what is refused.
        if answer.status == UNAUTHORIZED and self._is_accepted and self._renew is not None:
            answer.close()
            try:
                self._connect(self._renew())
            except (BadSpec, credentials.NeedsLibrary) as error:
                raise api_errors.Denied(
                    f"the login has expired, and there is no new one: {error}"
                ) from error
            headers = {**headers, **self._login.headers}
            answer = self._send(method, url, headers, body, limit=_request_timeout)
        self._is_accepted = answer.status != UNAUTHORIZED
        return answer

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: Any, *, limit: TimeLimit
    ) -> ThinAnswer:
        limited = limit.total is not None
        # The API server then compresses an answer of more than 128 KiB. Not a log, which would be
        # shown late.
        more = {"Accept-Encoding": "gzip"} if limited else {}
        with _map_to_os_errors():
            response = self._pools.urlopen(
                method,
                url,
                headers={**headers, **more},
                body=None if body is None else json.dumps(body),
                timeout=urllib3.Timeout(connect=limit.connect, read=limit.total),
                # Whether to ask again is for the caller to know.
                retries=False,
                # An API server redirects nobody; what does may not be given the credentials.
                redirect=False,
                preload_content=limited,
            )
        return ThinAnswer(response)


@contextmanager
def _map_to_os_errors() -> Iterator[None]:
    """Raise errors of urllib3 in the body as those of sockets, which `kube.api_errors` maps."""
    try:
        yield
    # First, as it is a TimeoutError for urllib3, also where a connection was refused.
    except NewConnectionError as error:
        raise ConnectionError(str(error)) from error
    except urllib3.exceptions.TimeoutError as error:
        raise TimeoutError(str(error)) from error
    except HTTPError as error:
        raise ConnectionError(str(error)) from error


def _read_proxy(server: str) -> str | None:
    """Return the URL of the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY say, as for kubectl."""
    url = urlsplit(server)
    return None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)


def run(work: Work[Result], env: Mapping[str, str], *, context: str | None) -> Result:
    """Do `work` with the API server of a context, or of the pod itself where it is None.

    BadSpec where it cannot be known. Takes the client of the `kubernetes` library for a user that
    logs in by an `auth-provider`.
    """
    try:
        login = credentials.read_login(env, context)
    except credentials.NeedsLibrary:
        return _run_with_library(work, env, context)
    client = ThinClient(login, lambda: credentials.read_login(env, context))

    async def close_afterwards() -> Result:
        try:
            # A cast, and no common base class: naming that class would import the library.
            return await work(ClusterApi(cast(Any, client)))
        finally:
            await client.close()

    coroutine = close_afterwards()
    # To its end in one go, without the event loop whose import takes 0.04 s: whatever it awaits
    # is a request of this client, or made of those.
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast(Result, end.value)
    raise Bug("a command about a cluster awaits something else than its requests")


def _run_with_library(work: Work[Result], env: Mapping[str, str], context: str | None) -> Result:
    try:
        # Here and not above: it is the import that this module exists to avoid.
        import asyncio

        from icdc_operator.cluster.kube import connect
    except ImportError as error:
        raise BadSpec(
            f"the user of the context {context} logs in by an auth-provider, which needs the "
            "kubernetes library: install iceberg-cdc-operator with its extra operator, or use a "
            "credential plugin (users[].user.exec)"
        ) from error

    async def open_first() -> Result:
        async with connect.open_api(env, context=context) as api:
            return await work(api)

    return asyncio.run(open_first())
