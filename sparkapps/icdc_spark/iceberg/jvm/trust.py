"""Has the JVM of the driver trust the authorities that catalogs name, beside those of its JDK.

No client of Iceberg's catalogs and stores takes certificates as a property. All of them ask the
JVM: those of AWS read the file that a system property names, whenever a client is made; Iceberg's
own uses the default context of the JVM, which reads that file once. In local mode that is all; an
executor makes a file of its own when its container starts, see `container.trust_store`. It must not
know where the certificates are from.

    javax.net.ssl.trustStore    trusted
    not set                     the authorities of the JDK
    …/trust-3f0c….p12           these, and the authority of the first catalog
    …/trust-91ab….p12           these, and another catalog's, or the next value of its Secret
"""

import threading
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_api import authorities
from icdc_spark.iceberg.jvm.bridge import Bridge
from icdc_spark.iceberg.jvm.source_errors import translate_source_errors

STORE = "javax.net.ssl.trustStore"
"""The system property that names the file."""
_FACTORY = "javax.net.ssl.TrustManagerFactory"
_KIND = "PKCS12"
_PASSWORD = "changeit"
"""Java's own: it protects nothing, since certificates are no secret."""
_ADDING = threading.Lock()


def trust_authority(application: SparkSession, certificates: str) -> None:
    """Have the JVM trust certificates (PEM) for clients that are made from now on.

    They stay trusted until it ends, by all catalogs of the pipeline.
    """
    with _ADDING, translate_source_errors("catalog.tls.caFrom"):
        bridge = Bridge(application)
        system = bridge.get_statics("java.lang.System")
        added = system.getProperty(authorities.PROPERTY) or ""
        if certificates in added:
            return
        # In the folder of Spark's passing files, which Spark removes with the JVM.
        file = str(Path(str(application.sparkContext._temp_dir), f"trust-{uuid.uuid4()}.p12"))
        _store(bridge, [*_list_trusted(bridge), *_parse(bridge, certificates)], file)
        for name, value in (("Password", _PASSWORD), ("Type", _KIND), ("", file)):
            system.setProperty(f"{STORE}{name}", value)
        _replace_default(bridge)
        system.setProperty(authorities.PROPERTY, f"{added}{certificates}")


def _replace_default(bridge: Bridge) -> None:
    """Replace the context that a connection may have made by default before now."""
    contexts = bridge.get_statics("javax.net.ssl.SSLContext")
    context = contexts.getInstance("TLS")
    context.init(None, None, None)
    contexts.setDefault(context)
    # It has a copy of the default.
    connections = bridge.get_statics("javax.net.ssl.HttpsURLConnection")
    connections.setDefaultSSLSocketFactory(context.getSocketFactory())


def _list_trusted(bridge: Bridge) -> list[Any]:
    """Return the certificates that a client trusts that is made now."""
    factories = bridge.get_statics(_FACTORY)
    factory = factories.getInstance(factories.getDefaultAlgorithm())
    # By its signature: py4j might take null for the argument of the other `init`.
    kinds = bridge.create_array("java.lang.Class", [bridge.load_class("java.security.KeyStore")])
    init = bridge.load_class(_FACTORY).getMethod("init", kinds)
    init.invoke(factory, bridge.create_array("java.lang.Object", [None]))
    return list(factory.getTrustManagers()[0].getAcceptedIssuers())


def _parse(bridge: Bridge, certificates: str) -> list[Any]:
    stream = bridge.create_object("java.io.ByteArrayInputStream", certificates.encode("ascii"))
    kinds = bridge.get_statics("java.security.cert.CertificateFactory")
    return list(kinds.getInstance("X.509").generateCertificates(stream).toArray())


def _store(bridge: Bridge, trusted: list[Any], file: str) -> None:
    store = bridge.get_statics("java.security.KeyStore").getInstance(_KIND)
    password = bridge.create_array("char", _PASSWORD)
    store.load(None, password)
    for number, certificate in enumerate(trusted):
        store.setCertificateEntry(str(number), certificate)
    stream = bridge.create_object("java.io.FileOutputStream", file)
    try:
        store.store(stream, password)
    finally:
        stream.close()
