"""Builds the command line and environment of a container of Spark on Kubernetes. Starts nothing.

The driver is our Python itself, which starts the JVM as pyspark does anywhere: were it started by
spark-submit, the JVM would get SIGTERM in its place, and a run would end in the middle of a batch.
"""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from icdc_api.errors import BadSpec
from icdc_api.job.proxies import read_proxies

_PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"
EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_FLAGS = ("--verbose", "-v", "--supervise")
"""Options of spark-submit that have no value; all others have one."""
_JAVA_OPTION = "SPARK_JAVA_OPT_"

# Spark's classes, ready to use, and the jar that names all jars in the order in which that was made
# (tools/images/java/spark_class_data.py). A JVM that it does not fit goes on without it.
_ARCHIVE = "classes.jsa"
_JARS = "jars.jar"
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the JVM that only prints the command line of the driver's JVM."""

_EXECUTOR_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""The options of an executor, each with the variable in which Spark put its value."""


class MisuseError(Exception):
    """The container was not started as Spark on Kubernetes starts it."""


@dataclass(frozen=True)
class Command:
    """The program that the container becomes."""

    arguments: tuple[str, ...]
    """The program and its arguments."""
    environment: Mapping[str, str]
    """Its whole environment."""


def build_command(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Return the command that the arguments ask for.

    `driver` and `executor` are Spark's roles; any other program is started as it is. MisuseError
    where a value is missing that Spark sets in its pods.

    Example: `driver --properties-file /opt/spark/conf/spark.properties local:///app/main.py run`
    becomes `python /app/main.py run` with PYSPARK_SUBMIT_ARGS=`--properties-file … --deploy-mode
    client … pyspark-shell`, from which pyspark starts the JVM.
    """
    if not arguments:
        raise MisuseError("nothing to do: the first argument is driver, executor or a program")
    roles: Mapping[str, Callable[[Sequence[str], Mapping[str, str]], Command]] = {
        "driver": _build_driver,
        "executor": _build_executor,
    }
    # As Spark's own image: the first argument is a role, or a program that somebody wants to run.
    first, *rest = arguments
    if first in roles:
        return roles[first](rest, environment)
    return Command(tuple(arguments), environment)


def _build_driver(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Return Python with the application; options of spark-submit reach the JVM that it starts."""
    options, application = _split(arguments)
    if not application:
        raise MisuseError("driver: no application file is named")
    main_class = options.pop("--class", [_PYTHON_RUNNER])[-1]
    if main_class != _PYTHON_RUNNER:
        raise MisuseError(
            f"driver: this image runs applications in Python, not the class {main_class}"
        )
    file, *rest = application
    # The properties say `cluster`, which was for whoever created this pod. The last option wins.
    submit = [
        *(word for name, values in options.items() for value in values for word in (name, value)),
        "--deploy-mode",
        "client",
        "--conf",
        f"spark.driver.bindAddress={_read_variable(environment, 'SPARK_DRIVER_BIND_ADDRESS')}",
        "--conf",
        f"spark.driver.defaultExtraClassPath={_read_variable(environment, 'SPARK_HOME')}/{_JARS}",
    ]
    return Command(
        (sys.executable, _parse_local_path(file), *rest),
        {
            "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS,
            **environment,
            # The image's own, which has the application: what the pod has here is where the one
            # who submitted it, spark-operator, keeps a Python of its own.
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": shlex.join([*submit, "pyspark-shell"]),
            "SPARK_SUBMIT_OPTS": shlex.join(
                [
                    *_build_class_data(environment),
                    *shlex.split(environment.get("SPARK_SUBMIT_OPTS", "")),
                ]
            ),
        },
    )


def _split(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options of spark-submit by name, and the application file with its arguments."""
    options: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        # Without a value: the word after it is another option, or the application.
        if name in _FLAGS:
            continue
        if not rest:
            raise MisuseError(f"driver: {name} has no value")
        options.setdefault(name, []).append(rest.pop(0))
    return options, rest


def _parse_local_path(file: str) -> str:
    """Return the path of a file in the image; MisuseError for one that is elsewhere."""
    scheme, separator, path = file.partition("://")
    if not separator:
        return file
    if scheme not in ("local", "file"):
        raise MisuseError(f"driver: {file} is not in the image; say local:///…")
    return path


def _build_executor(_: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Return the JVM of an executor."""
    memory = _read_variable(environment, "SPARK_EXECUTOR_MEMORY")
    options = [
        word
        for option, variable in _EXECUTOR_ARGUMENTS.items()
        for word in (option, _read_variable(environment, variable))
    ]
    java = Path(_read_variable(environment, "JAVA_HOME"), "bin", "java")
    return Command(
        (
            str(java),
            *_build_class_data(environment),
            *_list_proxy_options(environment),
            *_list_java_options(environment),
            f"-Xms{memory}",
            f"-Xmx{memory}",
            "-cp",
            _build_class_path(environment),
            EXECUTOR,
            *options,
        ),
        environment,
    )


def _list_proxy_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options for the proxies; before those of the pipeline, which may name others."""
    try:
        properties = read_proxies(environment).list_java_properties()
    except BadSpec as error:
        raise MisuseError(f"executor: {error.message}") from error
    return [f"-D{name}={value}" for name, value in properties.items()]


def _list_java_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options of the JVM in the order of their numbers; one may hold spaces."""
    numbered = {
        int(name.removeprefix(_JAVA_OPTION)): value
        for name, value in environment.items()
        if name.startswith(_JAVA_OPTION) and name.removeprefix(_JAVA_OPTION).isdecimal()
    }
    return [numbered[number] for number in sorted(numbered)]


def _build_class_data(environment: Mapping[str, str]) -> list[str]:
    """Return the options for the archive of classes."""
    # Without the log: a JVM that the archive does not fit says so on standard output otherwise.
    home = _read_variable(environment, "SPARK_HOME")
    return [f"-XX:SharedArchiveFile={home}/{_ARCHIVE}", "-Xlog:cds*=off"]


def _build_class_path(environment: Mapping[str, str]) -> str:
    """Return the class path: a user's jars, then Spark's."""
    home = _read_variable(environment, "SPARK_HOME")
    parts = [
        environment.get("SPARK_CLASSPATH", ""),
        f"{home}/{_JARS}",
        environment.get("SPARK_CONF_DIR", f"{home}/conf"),
        environment.get("HADOOP_CONF_DIR", ""),
        f"{home}/jars/*",
        environment.get("SPARK_EXTRA_CLASSPATH", ""),
        environment.get("SPARK_DIST_CLASSPATH", ""),
    ]
    # An empty part would stand for the working directory.
    return ":".join(filter(None, parts))


def _read_variable(environment: Mapping[str, str], name: str) -> str:
    """Return the value of a variable; MisuseError where it is missing or empty."""
    value = environment.get(name)
    if not value:
        raise MisuseError(f"the variable {name} is not set, which Spark sets in its pods")
    return value
