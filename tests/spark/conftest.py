"""What the tests on real parts share: an OpenSearch node, a fault proxy, and one Spark."""

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import StartTimeout, Submission
from icdc_api.spec.spark_defaults import DEFAULT_CONF
from icdc_cli.embedded import class_data, node_files
from icdc_cli.embedded.jars import fetch_jars
from icdc_cli.embedded.jdk import find_spark_jdk
from icdc_cli.embedded.lake import QUICK_START
from icdc_cli.embedded.opensearch_node import OpenSearchNode
from icdc_spark.iceberg.jvm.session import APPLICATION_CONF
from icdc_spark.opensearch.client import tasks
from icdc_spark.replication import context, deletion
from icdc_testing.lake.lake import CATALOG, Lake
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.spark_conf import UNCOMPILED
from icdc_testing.target import node_calls
from icdc_testing.waiting.wait import wait_until


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearchNode]:
    """One node for the whole test run; ICDC_TEST_OPENSEARCH chooses its version."""
    version = os.environ.get("ICDC_TEST_OPENSEARCH", "auto")
    folder = tmp_path_factory.mktemp("opensearch")
    # Snapshots of indices may be kept in the folder. The zone is for clusters that ask for one.
    settings = {"path.repo": str(folder), "node.attr.zone": "a"}
    with OpenSearchNode(folder, version=version, settings=settings) as node:
        yield node


@pytest.fixture
def clean_indices(opensearch: OpenSearchNode) -> Iterator[str]:
    """The URL of the node, without any index before and after the test."""
    node_calls.clean_indices(opensearch.url)
    yield opensearch.url
    node_calls.clean_indices(opensearch.url)


@pytest.fixture
def proxy(clean_indices: str) -> Iterator[FaultProxy]:
    """A fault proxy in front of the clean node."""
    with FaultProxy(clean_indices) as running:
        yield running


@pytest.fixture(scope="module")
def starting_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a node that waits for a second one before it recovers its indices."""
    settings = {"gateway.recover_after_data_nodes": "2"}
    node = OpenSearchNode(tmp_path_factory.mktemp("starting"), settings=settings)
    with ThreadPoolExecutor(1) as pool:
        never_ready = pool.submit(node.start)
        try:
            wait_until(lambda: bool(node_files.read_port(node.data_dir)), "it listens", seconds=120)
            url = f"http://127.0.0.1:{node_files.read_port(node.data_dir)}"
            answer = node_calls.call(url, "GET", "/any/_doc/1")
            assert (answer.status, b"state not recovered" in answer.body) == (503, True)
            yield url
        finally:
            node.stop()
        assert isinstance(never_ready.exception(60), Submission | StartTimeout)


@pytest.fixture(autouse=True, scope="module")
def quick_waits() -> Iterator[None]:
    """Shorten the waits of a run in this process for requests of older runs, from seconds.

    Where tests begin a run when the one before has ended, its tasks with it, and all that was
    received has been answered, there is nothing to wait for, and no assertion is about the wait.
    Folders and files where a run is overtaken or killed, or a request abandoned, and those that
    test the wait, replace this fixture by one that does nothing.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "EMPTY_SECONDS", 0.2)
        patch.setattr(tasks, "POLL_SECONDS", 0.05)
        for module in (context, deletion):
            patch.setattr(module, "OWNER_SECONDS", 0.5)
        yield


@pytest.fixture(autouse=True)
def _sockets_of_pyspark() -> Iterator[None]:
    """Ignores the sockets over which pyspark collects, which it leaves to the garbage collector."""
    with _ignore_unclosed_sockets():
        yield


@pytest.fixture(autouse=True, scope="module")
def _no_sockets_for_others() -> Iterator[None]:
    """Once for a module, because it takes a tenth of a second: nobody else meets those sockets."""
    yield
    with _ignore_unclosed_sockets():
        gc.collect()


@contextmanager
def _ignore_unclosed_sockets() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local Spark whose catalog `lake` keeps its tables in files."""
    os.environ["JAVA_HOME"] = str(find_spark_jdk().home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    class_data.make()
    os.environ.update(class_data.build_environment(os.environ))
    folder = tmp_path_factory.mktemp("lake")
    catalog = f"spark.sql.catalog.{CATALOG}"
    conf = {
        **APPLICATION_CONF,
        **DEFAULT_CONF,
        "spark.driver.extraClassPath": os.pathsep.join(map(str, fetch_jars("spark"))),
        "spark.driver.memory": "1500m",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.shuffle.partitions": "2",
        **UNCOMPILED,
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.ui.enabled": "false",
        # Each query is described for a page that nobody looks at.
        "spark.sql.ui.explainMode": "simple",
        "spark.ui.showConsoleProgress": "false",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(folder / "warehouse"),
        f"{catalog}.cache-enabled": "false",
    }
    # Tasks are tried again as on a cluster; Spark's own default in local mode is one attempt.
    builder = SparkSession.builder.master("local[2,4]").appName("tests")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    _write_no_checksums(session)
    yield session
    session.stop()


def _write_no_checksums(session: SparkSession) -> None:
    """As in an object store; Hadoop's local files of checksums cost a tenth of all time here."""
    conf = session.sparkContext._jsc.hadoopConfiguration()
    assert session._jvm is not None
    session._jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf).setWriteChecksum(False)


@pytest.fixture(scope="session")
def lake(spark: SparkSession) -> Lake:
    """The catalog."""
    return Lake(spark)
