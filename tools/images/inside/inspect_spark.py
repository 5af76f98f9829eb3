"""Runs in the Spark image: tries what its Java and its Python must be able to do, beyond starting.

A Java runtime of chosen modules and a Spark without many of its jars start well: what is missing
shows only when a class is first looked for, by name, in a run with Kerberos, TLS or a catalog that
nobody here has. So each trial goes one such way, to a part that the Dockerfile might leave out.
What a user gains: an image smaller by 300 MB (image_checks.py) that still can do what Spark can.

Travels there as text with inspect_image.py. Judges nothing: it says which trial failed, and how.
Nothing here needs a network.
"""

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Loaded by name alone: jlink leaves out a module that is not listed, and no other trial here would
# touch these.
_JAVA_CLASSES = (
    # Kerberos, and the user of Hadoop's own login
    "com.sun.security.auth.module.Krb5LoginModule",
    "com.sun.security.auth.module.UnixLoginModule",
    "com.sun.security.sasl.gsskerb.JdkSASL",
    "sun.security.jgss.krb5.Krb5MechFactory",
    # services that are found by DNS
    "com.sun.jndi.dns.DnsContextFactory",
    # what observes a JVM: JMX from afar, Flight Recorder, agents
    "com.sun.tools.attach.VirtualMachine",
    "java.lang.instrument.Instrumentation",
    "javax.management.remote.rmi.RMIConnectorServer",
    "jdk.jfr.Recording",
    # what libraries use that are not bound to Java SE
    "com.sun.nio.file.ExtendedOpenOption",
    "java.beans.Introspector",
    "javax.xml.crypto.dsig.XMLSignature",
    "jdk.incubator.vector.IntVector",
    "sun.misc.Unsafe",
)
# Most are in jdk.charsets, beside those few that java.base has: CSV and databases may need them.
_CHARSETS = ("Big5", "EUC-JP", "GB18030", "IBM1047", "Shift_JIS", "windows-1252")
_PASSWORD = "changeit"
"""Of Debian's store of authorities, and of the trial's own: keytool asks for six letters."""
_REST = "http://127.0.0.1:1"
"""Port 1: nobody listens there, and nobody needs to, as clients connect at their first request."""
_CATALOGS = {
    "org.apache.iceberg.hive.HiveCatalog": {"uri": "thrift://127.0.0.1:1"},
    "org.apache.iceberg.jdbc.JdbcCatalog": {"uri": "jdbc:sqlite::memory:", "warehouse": "/tmp"},
    "org.apache.iceberg.aws.glue.GlueCatalog": {"warehouse": "s3://b/w"},
}
"""Catalogs that open without their server, and how: they load the clients of Thrift, JDBC, AWS."""
_AWS = {
    "client.region": "eu-central-1",
    "s3.access-key-id": "a",
    "s3.secret-access-key": "b",
    "s3.endpoint": _REST,
}


def list_failures() -> list[str]:
    """Return what failed, one line for each trial; [] if all is well.

    Raises where Spark itself does not start, which ends the inspection: no trial could tell more.
    """
    # Here, not at the top: the same text goes to the operator's image, which has no pyspark.
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as scratch:
        # The name of this host may be known to no one.
        os.environ["SPARK_LOCAL_HOSTNAME"] = os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = SparkSession.builder.master("local[1]").appName("inspect")
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": scratch,
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": f"{scratch}/lake",
            # One port and some threads less; the page is not what is tried.
            "spark.ui.enabled": "false",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        # Any text does for all three, as no request is sent.
        # Not in the environment: Spark asks for the name of this host where it finds them there.
        for name in ("aws.accessKeyId", "aws.secretAccessKey", "aws.region"):
            _set_property(session, name, _AWS["client.region"])
        try:
            return list(_try_all(session, Path(scratch)))
        finally:
            session.stop()


def _set_property(session: Any, name: str, value: str) -> None:
    session._jvm.java.lang.System.setProperty(name, value)


def _try_all(session: Any, scratch: Path) -> Iterator[str]:
    """Yield "what: class of the error: its text" for each trial that raises, in one line."""
    trials: dict[str, Callable[[], object]] = {
        "rows by Arrow and Iceberg": lambda: _write_and_read(session),
        "TLS": lambda: _serve_tls(session, scratch),
        "authorities": lambda: _count_authorities(session),
        "a zip file system": lambda: _open_jar(session),
        "Hadoop's user": lambda: _name_user(session),
        "S3": lambda: _open_s3(session),
        "JDBC of PostgreSQL": lambda: _load_class(session, "org.postgresql.Driver"),
        "JMX": lambda: _find_beans(session),
        # name=name: a lambda reads a variable only when it is called: all would try the last name.
        **{f"class {name}": lambda name=name: _load_class(session, name) for name in _JAVA_CLASSES},  # type: ignore[misc]
        **{f"charset {name}": lambda name=name: _find_charset(session, name) for name in _CHARSETS},  # type: ignore[misc]
        **{
            f"catalog {name}": lambda name=name: _open_catalog(session, name)  # type: ignore[misc]
            for name in _CATALOGS
        },
    }
    for what, trial in trials.items():
        try:
            trial()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is asked for
            yield f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _write_and_read(session: Any) -> None:
    """Let a Python worker make rows, write them as a table, and read its files without Spark.

    Rows 0 … 9, doubled by the worker (Arrow to and from Java), summed by Spark: 90. Read again by
    pyarrow from the one file of the table: 90, so that both sides have Parquet.
    """
    # Here, not at the top, as pyspark in `list_failures`.
    import pyarrow.parquet

    def double(batches: Any) -> Any:
        # In the function: it is pickled and runs in another process.
        import pyarrow

        for batch in batches:
            values = [2 * value for value in batch.column(0).to_pylist()]
            yield pyarrow.record_batch([pyarrow.array(values)], names=["id"])

    rows = session.range(10).mapInArrow(double, "id long")
    rows.writeTo("lake.db.numbers").create()
    total = session.sql("SELECT sum(id) FROM lake.db.numbers").collect()[0][0]
    ((file,),) = session.sql("SELECT file_path FROM lake.db.numbers.files").collect()
    read = pyarrow.parquet.read_table(file.removeprefix("file:"))
    if total != 90 or sum(read.column("id").to_pylist()) != 90:
        raise ValueError(f"{total} and {read}")


def _serve_tls(session: Any, scratch: Path) -> None:
    """Serve with a key on an elliptic curve, and speak to it from Python and from Java.

    Curves are a module of their own (jdk.crypto.ec): a runtime without it fails only in a handshake
    with a server that has such a certificate, as many have.
    """
    jvm, gateway = session._jvm, session.sparkContext._gateway
    # keytool, as the JDK offers no public way to sign a certificate in the process. Without
    # -validity it is good for 90 days, without -storetype it is a PKCS12.
    store, trusted = scratch / "server.p12", scratch / "server.pem"
    made = "-genkeypair -alias s -keyalg EC -dname CN=localhost -ext san=dns:localhost"
    for words in (made, f"-exportcert -rfc -alias s -file {trusted}"):
        _run_keytool(store, words.split())
    password = _build_characters(gateway, _PASSWORD)
    keys = jvm.java.security.KeyStore.getInstance(jvm.java.io.File(str(store)), password)
    managers = jvm.javax.net.ssl.KeyManagerFactory.getInstance("PKIX")
    managers.init(keys, password)
    trust = jvm.javax.net.ssl.TrustManagerFactory.getInstance("PKIX")
    trust.init(keys)
    context = jvm.javax.net.ssl.SSLContext.getInstance("TLS")
    context.init(managers.getKeyManagers(), trust.getTrustManagers(), None)
    at = jvm.java.net.InetSocketAddress("127.0.0.1", 0)
    # Nothing is served: a finished handshake ends in 404, which is all that is asked below.
    server = jvm.com.sun.net.httpserver.HttpsServer.create(at, 0)
    server.setHttpsConfigurator(jvm.com.sun.net.httpserver.HttpsConfigurator(context))
    server.start()
    try:
        port = server.getAddress().getPort()
        _speak_tls(port, trusted)
        opened = jvm.java.net.URL(f"https://localhost:{port}/").openConnection()
        opened.setSSLSocketFactory(context.getSocketFactory())
        if opened.getResponseCode() != 404:
            raise ValueError(opened.getResponseMessage())
    finally:
        server.stop(0)


def _build_characters(gateway: Any, text: str) -> Any:
    """Return a Java char[] of the text: py4j makes a String of it, and KeyStore takes none."""
    array = gateway.new_array(gateway.jvm.char, len(text))
    for at, character in enumerate(text):
        array[at] = character
    return array


def _speak_tls(port: int, trusted: Path) -> None:
    context = ssl.create_default_context(cafile=str(trusted))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        # Both sides speak it by default: less would mean that one of them lacks a cipher.
        if secured.version() != "TLSv1.3":
            raise ValueError(secured.version())


def _run_keytool(store: Path, arguments: list[str]) -> None:
    keytool = shutil.which("keytool", path=f"{os.environ['JAVA_HOME']}/bin")
    password = ("-storepass", _PASSWORD, "-keystore", str(store))
    command = [str(keytool), *arguments, *password]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _count_authorities(session: Any) -> None:
    """Raise where Java trusts far fewer authorities than Debian, or than Python.

    The runtime's file is a link to Debian's, rewritten without dates: an empty or a broken store
    opens as well, and every TLS connection would then fail.
    """
    jvm, gateway = session._jvm, session.sparkContext._gateway
    file = jvm.java.io.File(f"{os.environ['JAVA_HOME']}/lib/security/cacerts")
    password = _build_characters(gateway, _PASSWORD)
    size = jvm.java.security.KeyStore.getInstance(file, password).size()
    if size < 100 or size < len(ssl.create_default_context().get_ca_certs()) // 2:
        raise ValueError(f"{size} authorities")


def _open_jar(session: Any) -> None:
    """Open a jar as a file system, which is a provider in the module jdk.zipfs."""
    jvm = session._jvm
    jar = next(Path(os.environ["SPARK_HOME"], "jars").glob("spark-core*.jar"))
    address = jvm.java.net.URI.create(f"jar:{jar.as_uri()}")
    jvm.java.nio.file.FileSystems.newFileSystem(address, jvm.java.util.HashMap()).close()


def _name_user(session: Any) -> None:
    """Log in as Hadoop does, by a class that asks Unix for the user's name (jdk.security.auth)."""
    users = session._jvm.org.apache.hadoop.security.UserGroupInformation
    if not users.getCurrentUser().getUserName():
        raise ValueError("no name")


def _open_s3(session: Any) -> None:
    s3 = session._jvm.org.apache.iceberg.aws.s3.S3FileIO()
    s3.initialize(_AWS)
    s3.client().close()


def _open_catalog(session: Any, name: str) -> None:
    configuration = session._jsc.hadoopConfiguration()
    properties = {**_AWS, **_CATALOGS[name]}
    # As Spark's catalogs do: by the name of the class, with properties and Hadoop's configuration.
    catalogs = session._jvm.org.apache.iceberg.CatalogUtil
    catalogs.loadCatalog(name, "other", properties, configuration)


def _find_beans(session: Any) -> None:
    """Raise without the one server of beans that tools for metrics ask."""
    jvm = session._jvm
    jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    if jvm.javax.management.MBeanServerFactory.findMBeanServer(None).size() != 1:
        raise ValueError("no server of beans")


def _load_class(session: Any, name: str) -> None:
    session._jvm.java.lang.Class.forName(name)


def _find_charset(session: Any, name: str) -> None:
    session._jvm.java.nio.charset.Charset.forName(name)
