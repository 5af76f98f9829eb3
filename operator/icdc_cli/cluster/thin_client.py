"""A client of one API server over aiohttp alone, because the `kubernetes` library costs a command
126 MB and 0.3 s of importing for the one or two requests that it sends.

    kube.transport calls    in the operator              in icdc
    param_serialize         ApiClient of the library     adds server and login to path and headers
    call_api                ApiClient of the library     sends one request of aiohttp
    close                   ApiClient of the library     closes the session

It stands in place of that library's `ApiClient` and has the methods that `kube.transport`
calls, so that time limits, errors and messages are those of the operator. Must know no kind of
object.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
from yarl import URL

from icdc_api.errors import BadSpec
from icdc_cli.cluster import credentials
from icdc_cli.cluster.credentials import Login
from icdc_operator.cluster.kube.api import ClusterApi

Request = tuple[str, str, dict[str, str], Any]
"""Method, URL, headers and body: what `param_serialize` returns and `call_api` takes."""


class ThinAnswer:
    """The answer to one request; its body is not read yet."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        """For what is read as it comes: the lines of a log that is followed."""
        self.status = response.status
        """Status of HTTP."""
        self.headers = response.headers
        """Among them Retry-After of an API server that is overloaded."""

    async def read(self) -> bytes:
        """Return the whole body."""
        return await self.response.read()


class ThinClient:
    """Requests with the credentials of a login. For one event loop.

    Made inside of a running loop, as aiohttp binds its session to that; `close` must follow, or
    Python warns of connections that were left open.
    """

    def __init__(self, login: Login) -> None:
        self._login = login
        # Proxies of the environment, as kubectl takes them, unless the kubeconfig names one.
        self._session = aiohttp.ClientSession(trust_env=login.proxy is None)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

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
        # A coroutine only because the library's is one, and the caller awaits either.
        headers = {**header_params, **self._login.headers}
        return method, self._login.server + path, headers, body

    async def call_api(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Any,
        *,
        _request_timeout: aiohttp.ClientTimeout,
    ) -> ThinAnswer:
        """Send one request; raises the errors of aiohttp."""
        response = await self._session.request(
            method,
            # `kinds` has quoted the names; quoting them again would ask for others.
            URL(url, encoded=True),
            headers=headers,
            data=None if body is None else json.dumps(body),
            # The caller's: a followed log has no limit, every other request has one.
            timeout=_request_timeout,
            # True is the default of aiohttp; only a server without TLS has no context.
            ssl=self._login.tls or True,
            server_hostname=self._login.server_name,
            proxy=self._login.proxy,
            # An API server redirects nobody; what does may not be given the credentials.
            allow_redirects=False,
        )
        return ThinAnswer(response)


@asynccontextmanager
async def open_api(env: Mapping[str, str], *, context: str | None) -> AsyncIterator[ClusterApi]:
    """Open the API server of a context; of the pod itself where it is None.

    BadSpec where it cannot be known. Takes the client of the `kubernetes` library for a user that
    logs in by an `auth-provider`.
    """
    try:
        login = credentials.read_login(env, context)
    except credentials.NeedsLibrary:
        async with _open_with_library(env, context) as api:
            yield api
        return
    # A cast, and no common base class: naming that class would import the library.
    api = ClusterApi(cast(Any, ThinClient(login)))
    try:
        yield api
    finally:
        await api.close()


@asynccontextmanager
async def _open_with_library(
    env: Mapping[str, str], context: str | None
) -> AsyncIterator[ClusterApi]:
    try:
        # Here and not above: it is the import that this module exists to avoid.
        from icdc_operator.cluster.kube import connect
    except ImportError as error:
        raise BadSpec(
            f"the user of the context {context} logs in by an auth-provider, which needs the "
            "kubernetes library: install iceberg-cdc-operator with its extra operator, or use a "
            "credential plugin (users[].user.exec)"
        ) from error
    async with connect.open_api(env, context=context) as api:
        yield api
