"""Hands kopf the address and the credentials that the client of the API uses too.

kopf's own ways to find them import a second client library, which costs tens of megabytes.
"""

from collections.abc import Mapping

import kopf

from icdc_operator.cluster.kube import connect


async def connection_info(env: Mapping[str, str]) -> kopf.ConnectionInfo:
    """What kopf connects with, read anew: tokens of pods change within the hour. Raises BadSpec."""
    settings = await connect.configuration(env)
    header = await settings.get_api_key_with_prefix("BearerToken", alias="authorization")
    scheme, _, token = (header or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=settings.host,
        ca_path=settings.ssl_ca_cert,
        insecure=not settings.verify_ssl,
        username=settings.username or None,
        password=settings.password or None,
        scheme=scheme or None,
        token=token or None,
        certificate_path=settings.cert_file,
        private_key_path=settings.key_file,
        proxy_url=settings.proxy,
        trust_env=True,
    )
