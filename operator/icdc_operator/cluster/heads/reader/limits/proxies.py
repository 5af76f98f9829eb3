"""Hold requests that a proxy carries to the same addresses as those that go out directly.

A proxy looks names up and connects by itself, so `addresses.AddressGuard` sees the address of the
proxy alone. Both HTTP clients of this process are therefore checked where they hand a request to
the network: requests (REST catalogs, Google's store) and botocore (Glue, DynamoDB, STS, S3).

    HTTPS_PROXY=http://proxy:3128, glue.endpoint=https://169.254.169.254   refused
    HTTPS_PROXY=http://proxy:3128, glue.endpoint=https://glue.corp         asked of the proxy
    no proxy                                                               left to the AddressGuard

A proxy comes from the environment of this process alone, which the chart sets (`extraEnv`): no
property of a catalog names one (`catalog_properties`).
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from botocore.httpsession import URLLib3Session
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy

from icdc_operator.cluster.heads.reader.limits.addresses import AddressGuard

_send_by_requests: Callable[..., Any] = HTTPAdapter.send
_send_by_botocore: Callable[..., Any] = URLLib3Session.send


def install(guard: AddressGuard) -> None:
    """Check every request of this process that goes through a proxy, redirects included.

    On the classes, not on sessions: pyiceberg and boto3 create sessions of their own, for tokens
    and for roles.
    """

    def send_by_requests(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        # By now requests has added the proxies of the environment.
        if select_proxy(request.url, options.get("proxies") or {}):
            _check(guard, request.url)
        return _send_by_requests(self, request, *args, **options)

    def send_by_botocore(self: Any, request: Any) -> Any:
        if self._proxy_config.proxy_url_for(request.url):
            _check(guard, request.url)
        return _send_by_botocore(self, request)

    HTTPAdapter.send = send_by_requests  # type: ignore[method-assign]
    URLLib3Session.send = send_by_botocore


def _check(guard: AddressGuard, url: str) -> None:
    """Raise AccessRefused for a URL that this process would not connect to without the proxy."""
    target = urlsplit(url)
    port = target.port or (443 if target.scheme == "https" else 80)
    guard.check_beyond_proxy(target.hostname or "", port)
