"""Trust further authorities in this process, which reads one catalog: `catalog.tls.caFrom`.

Part 2 of `reader`: resolve. Both HTTP clients of this process take a file with certificates, in
place of the usual ones, and this process can write none. So their contexts for TLS get the
certificates, and load the usual ones (certifi, or what REQUESTS_CA_BUNDLE and AWS_CA_BUNDLE name)
themselves. The classes are patched, not instances: both libraries create their clients themselves
(see `proxies`).
"""

import ssl
from typing import Any

from botocore.httpsession import URLLib3Session
from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

from icdc_api import authorities

_init_poolmanager = HTTPAdapter.init_poolmanager
_proxy_manager_for = HTTPAdapter.proxy_manager_for


def install(certificates: str) -> None:
    """Trust the certificates (PEM) for every client that is made from now on.

    Raises ValueError if the text is not a certificate.
    """

    def build_context(*_: object) -> ssl.SSLContext:
        context = create_urllib3_context()
        authorities.add_to(context, certificates)
        return context

    def init_poolmanager(self: Any, *args: Any, **options: Any) -> Any:
        return _init_poolmanager(self, *args, ssl_context=build_context(), **options)

    def proxy_manager_for(self: Any, proxy: str, **options: Any) -> Any:
        return _proxy_manager_for(self, proxy, ssl_context=build_context(), **options)

    # Once now, so that a wrong certificate is reported before any request.
    build_context()
    HTTPAdapter.init_poolmanager = init_poolmanager  # type: ignore[method-assign]
    HTTPAdapter.proxy_manager_for = proxy_manager_for  # type: ignore[method-assign]
    URLLib3Session._get_ssl_context = build_context
