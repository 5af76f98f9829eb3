"""Give kopf the same address and credentials as `connect` gives the API client.

kopf's own login handlers import a second client library, which costs tens of megabytes.
"""

from collections.abc import Mapping

import kopf

from icdc_operator.cluster.kube import connect


async def load_connection_info(env: Mapping[str, str]) -> kopf.ConnectionInfo:
    """Read address and credentials for kopf. Raises BadSpec.

    Read again for each login: the kubelet renews the token of a pod within the hour.
    """
    settings = await connect.load_configuration(env)
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
        # A proxy of the kubeconfig, else those of the environment.
        proxy_url=settings.proxy,
        trust_env=True,
    )
