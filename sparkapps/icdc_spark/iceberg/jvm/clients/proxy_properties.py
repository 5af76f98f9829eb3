"""Has the JVM of the driver use the proxies of this process, and know what it is to ask directly.

Its properties can say less than NO_PROXY. Names without a dot have no pattern of their own, so the
host of a catalog is listed when that is opened: the client of Nessie goes by these properties.

    http.nonProxyHosts                      catalog                 then
    localhost|127.*|[::1]|svc|*.svc         http://nessie:19120     …|*.svc|nessie
"""

import threading
from typing import Any

from icdc_api.job.proxies import EXCEPTIONS_OF_JAVA, Proxies

_ADDING = threading.Lock()


def set_proxies(system: Any, proxies: Proxies) -> None:
    """Set the properties of `system` (java.lang.System), unless the pipeline gives it others.

    Executors get them when their containers start.
    """
    if system.getProperty("http.proxyHost") or system.getProperty("https.proxyHost"):
        return
    for name, value in proxies.list_java_properties().items():
        system.setProperty(name, value)


def except_catalog(system: Any, proxies: Proxies, uri: str) -> None:
    """Have clients that are made from now on ask the host of a catalog directly, if it is near.

    Changes nothing where the pipeline gives the JVM proxies of its own.
    """
    host = proxies.find_direct_host(uri)
    if host is None:
        return
    ours = proxies.list_java_properties()
    with _ADDING:
        for name, value in ours.items():
            if name != EXCEPTIONS_OF_JAVA and system.getProperty(name) != value:
                return
        listed = (system.getProperty(EXCEPTIONS_OF_JAVA) or "").split("|")
        if host not in listed:
            system.setProperty(EXCEPTIONS_OF_JAVA, "|".join([*filter(None, listed), host]))
