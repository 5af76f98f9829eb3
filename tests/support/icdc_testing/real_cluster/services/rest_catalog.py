"""An Iceberg REST catalog on the bridge, whose tables are in the object store.

The server is the one of Iceberg's own tests, from published jars that a lock of its own pins.
`python -m icdc_testing.real_cluster.services.rest_catalog` writes that lock anew.
"""

import os
import sys
from pathlib import Path

from icdc_cli.embedded import jar_lock, jars, jdk
from icdc_testing import ROOT
from icdc_testing.kube.server_process import FixedPort, Probe, Program
from icdc_testing.real_cluster.host import layout
from icdc_testing.real_cluster.host.programs import Starter
from icdc_testing.real_cluster.services import object_store

PORT = FixedPort(layout.ADDRESS, 8182)
URI = f"http://{PORT.address}"
WAREHOUSE = f"s3://{object_store.BUCKET}/warehouse"

_FOLDER = ROOT / "tests" / "tools" / "rest-catalog"
_LOCK = _FOLDER / jar_lock.LOCK_NAME
_SET = "rest-catalog"
_START_SECONDS = 120.0

# Iceberg publishes no jar of its tests for 1.12.0; a server of 1.11.0 serves clients of 1.12.0.
_ICEBERG = "1.11.0"
_ROOTS = (
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}",
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}:tests",
    f"org.apache.iceberg:iceberg-aws:{_ICEBERG}",
    f"org.apache.iceberg:iceberg-aws-bundle:{_ICEBERG}",
    "org.eclipse.jetty:jetty-servlet:11.0.24",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "org.slf4j:slf4j-simple:2.0.17",
)


def fetch() -> list[Path]:
    """Return the jars of the server; fetched once. Submission where they cannot be had."""
    return jars.fetch_jars(_SET, jar_lock.parse(_LOCK.read_text(encoding="utf-8")))


def start(starter: Starter) -> Program:
    """Start it; `wait_until_ready` waits for it."""
    class_path = os.pathsep.join(map(str, fetch()))
    folder = starter.paths.run / "catalog"
    folder.mkdir(exist_ok=True)
    behind = {
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": WAREHOUSE,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        **object_store.PROPERTIES,
    }
    java = jdk.find_jdk((17, 21, 25), purpose="to run the catalog", wanted="17", compiler=True)
    return starter.start(
        java.java,
        [
            *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", class_path),
            # Compiled as it is started.
            str(_FOLDER / "RestCatalog.java"),
            *(PORT.host, str(PORT.number)),
            *(f"{key}={value}" for key, value in behind.items()),
        ],
        name="rest-catalog",
        # The client of the store wants to know a region, which ours does not have.
        environment={"AWS_REGION": object_store.REGION},
    )


def wait_until_ready(program: Program) -> dict[str, str]:
    """Return, once it answers, the properties by which a client in a pod or here finds it."""
    program.wait_until(Probe(PORT, "/v1/config").answers, "/v1/config", seconds=_START_SECONDS)
    return {"uri": URI, "warehouse": WAREHOUSE, **object_store.PROPERTIES}


def main() -> int:
    """Write the lock anew, from Maven."""
    text = jar_lock.render({_SET: jars.resolve(_SET, _ROOTS)})
    _LOCK.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
