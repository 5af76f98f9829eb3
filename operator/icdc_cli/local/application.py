"""The start of the Spark application on this host: its file, its JDK, its jars, its settings.

In a cluster the image fixes all of this and spark-operator calls spark-submit. A host has whatever
its owner installed: another Spark in SPARK_HOME, a JDK that is too new, no jars at all. So
JDK and jars are chosen by us, and variables that would change our Spark are removed.

    icdc (python)                     holds the pipe of standard input
      python main.py request.json     the driver: our child, a session of its own
        java … SparkSubmit            started by pyspark; ends when its standard input does
          python worker_daemon        forks workers, which write to OpenSearch

The driver's Python is our direct child and starts the JVM itself, through the spark-submit of
the installed pyspark: with spark-submit on top, the JVM would stand between us and the driver and
pass on neither the end of standard input nor a polite signal. Starts nothing itself.
"""

import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from icdc_api.errors import Submission
from icdc_api.spec.catalog import Catalog
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.spec.spark import Spark
from icdc_api.spec.spark_defaults import build_defaults
from icdc_cli.embedded import class_data, jars, jdk
from icdc_cli.local import files, processes

TASK_ATTEMPTS = 4
"""As on a cluster; Spark's own default in local mode is one, with which the first task that fails
fails its batch. `spark.task.maxFailures` does not count in local mode: the number stands in the
master, local[CORES,ATTEMPTS]."""

FIXED_CONF: Mapping[str, str] = {
    # The ports of a driver are open to its network by default, and the host's own name, which Spark
    # would look up, may lead to an address that a VPN has just taken away.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # It costs memory and a port, and nobody reads it: the view of `icdc run` says what is done.
    # Progress bars of stages would fill the log with carriage returns.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # One host has few cores; 200 shuffle tasks would cost more than the rows of most batches.
    "spark.sql.shuffle.partitions": "8",
}
"""Further defaults of local runs; `spec.spark.conf` goes over them."""

_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", jdk.SUBMIT_OPTIONS)
"""What gives a JVM options beside its command line. One may name a garbage collector, and a JVM
with two does not start; see `build_defaults`."""

LOCAL_PACKAGES = ("pyspark", "rich")
"""What a run on this host needs beyond the extra `cli`: Spark, and the live table of `icdc run`."""

INSTALL = "pip install 'iceberg-cdc-operator[operator,spark]'"
"""What installs them."""

_INSTALL = f"{INSTALL} (a pipeline in a cluster needs neither: icdc plan NAME)"


@dataclass(frozen=True)
class Application:
    """What it takes to start the application on this host."""

    main_file: Path
    """The script that the driver's Python runs."""
    python: str
    """Interpreter of driver and workers: they must be of one version."""
    java_home: Path | None
    """JDK of the driver's JVM; None leaves the choice to pyspark."""
    class_path: tuple[Path, ...] = ()
    """Jars before those of pyspark, in this order."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the environment of the driver gets on top."""


def find_installed(spec: PipelineSpec | None = None) -> Application:
    """Return the installed application with a JDK and jars that fit; Submission if one is missing.

    With all jars of the image where a catalog of the pipeline is not on this host alone.
    """
    return Application(
        main_file=find_main_file(),
        python=sys.executable,
        java_home=jdk.find_spark_jdk().home,
        class_path=tuple(jar for name in list_jar_sets(spec) for jar in jars.fetch_jars(name)),
        variables=class_data.build_environment(os.environ),
    )


def list_jar_sets(spec: PipelineSpec | None) -> list[str]:
    """Return the names of the sets of jars that runs of a pipeline need on this host."""
    catalogs = () if spec is None else tuple(map(spec.get_catalog, spec.tables))
    return [jars.SPARK_SET, *([jars.IMAGE_SET] if any(map(leaves_the_host, catalogs)) else [])]


def leaves_the_host(catalog: Catalog) -> bool:
    """Return whether a catalog may need the libraries of AWS, or a database driver.

        {type: hadoop, warehouse: /data}                    False
        {type: jdbc, uri: jdbc:sqlite:/data/c.db}           False: its driver is in the Spark set
        {type: jdbc, uri: jdbc:postgresql://…}              True: the driver of PostgreSQL
        {type: hadoop, warehouse: s3://bucket}              True
        any, with propertiesFrom                            True: a Secret may say anything

    True when in doubt: a class that is missing fails a run, while jars cost one download.
    """
    properties = catalog.properties
    of_files = properties.get("type") == "hadoop"
    here = of_files or properties.get("uri", "").startswith("jdbc:sqlite:")
    return bool(catalog.properties_from) or not here or "s3" in " ".join(properties.values())


def find_main_file() -> Path:
    """Return the main file of the installed `icdc_spark`, found without importing it.

    Submission where Spark is not installed: `icdc_spark` alone is part of every install.
    """
    require_spark()
    package = importlib.util.find_spec("icdc_spark")
    folders = [] if package is None else list(package.submodule_search_locations or ())
    for folder in folders:
        main_file = Path(folder, "process", "main.py")
        if main_file.is_file():
            return main_file
    raise Submission(f"the Spark application (package icdc_spark) is not installed; {_INSTALL}")


def list_missing_packages() -> tuple[str, ...]:
    """Return the packages of a local run that are not installed.

    Find them without importing: pyspark takes its time, and no caller needs it in this process.
    """
    return tuple(name for name in LOCAL_PACKAGES if importlib.util.find_spec(name) is None)


def require_spark() -> None:
    """Raise Submission where the packages of a local run are not installed."""
    missing = list_missing_packages()
    if missing:
        raise Submission(f"a run on this host needs {' and '.join(missing)}: {_INSTALL}")


def build_command(application: Application, request: Path) -> list[str]:
    """Return the command line, without secrets, as any user of the host may list processes.

    The request is a file that only its owner reads, and so are the settings of Spark.
    """
    return [application.python, str(application.main_file), str(request)]


def build_environment(
    application: Application, spark: Spark, *, scratch: Path, marker: str, short: bool = False
) -> dict[str, str]:
    """Return the environment of the driver, and through it of every process of the run.

    Write the settings of Spark into `scratch`, where its launcher reads them. `short`: the run is
    expected to end within a minute.
    """
    env = jdk.without_other_spark(os.environ)
    env |= {
        processes.MARKER_VARIABLE: marker,
        "PYSPARK_PYTHON": application.python,
        "PYSPARK_SUBMIT_ARGS": shlex.join(
            build_submit_arguments(application, spark, scratch=scratch, short=short)
        ),
        # Or a file of the working directory, such as queue.py, would stand in for a module of
        # Python in Spark's workers, which are started by `python -m`.
        "PYTHONSAFEPATH": "1",
        # The log is a file: unbuffered, it has the last lines of a driver that was killed.
        "PYTHONUNBUFFERED": "1",
        # Beside spark.driver.host: asks no resolver for the name of the host, and warns of nothing.
        "SPARK_LOCAL_IP": "127.0.0.1",
        **application.variables,
    }
    if application.java_home is not None:
        env["JAVA_HOME"] = str(application.java_home)
    return env


def build_submit_arguments(
    application: Application, spark: Spark, *, scratch: Path, short: bool = False
) -> list[str]:
    """Return the options of spark-submit: local mode, bounded by the host, spill in `scratch`.

    Settings are in a file there: pyspark puts its options onto the command line of the JVM, and
    `spec.spark.conf` may hold the key of an object store.

    Settings by rising precedence: defaults of every run, FIXED_CONF, `spec.spark.conf`. The last
    word is the name by which spark-submit knows that it is called by pyspark; without it, it would
    look for a program to run.
    """
    java_options = [os.environ.get(name, "") for name in _JAVA_VARIABLES]
    defaults = build_defaults(spark, *java_options, short=short)
    fixed = {**defaults, **FIXED_CONF, "spark.local.dir": str(scratch)}
    arguments = ["--master", f"local[{_count_cores(spark)},{TASK_ATTEMPTS}]"]
    # As an option and not by a session's config: the heap of a JVM is fixed when it starts. In
    # local mode it is the memory of the executors as well.
    arguments += ["--driver-memory", spark.driver.memory]
    if application.class_path:
        # On the class path, not as --jars: a JDBC driver is only found by the first class loader.
        jars_path = os.pathsep.join(str(jar) for jar in application.class_path)
        arguments += ["--driver-class-path", jars_path]
    settings = scratch / "spark.properties"
    files.write_atomically(settings, to_properties({**fixed, **spark.conf}))
    return [*arguments, "--properties-file", str(settings), "pyspark-shell"]


def to_properties(conf: Mapping[str, str]) -> str:
    r"""Return the settings as a file of Java properties: `spark.a=b\ c` for the value "b c"."""
    lines = (f"{_escape(key)}={_escape(value)}\n" for key, value in sorted(conf.items()))
    return "".join(lines)


def _escape(text: str) -> str:
    # A backslash takes its meaning from any character but these letters, which get one by it.
    escaped = re.sub(r"[^\w.]", r"\\\g<0>", text)
    return escaped.replace("\n", "n").replace("\r", "r").replace("\t", "t").replace("\f", "f")


def _count_cores(spark: Spark) -> int:
    """Return how many tasks run at a time: as many as on the executors, at most this host's cores.

    A spec for 10 executors of 4 cores gives 8 on a laptop of 8: more tasks than cores only share
    the heap of the one JVM among more sorts and hash tables.
    """
    wanted = spark.executor.cores * spark.executor.instances
    return max(1, min(wanted, os.cpu_count() or 1))
