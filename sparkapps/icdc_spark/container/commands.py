"""The command line and environment of a container of Spark on Kubernetes. Pure: starts nothing.

The driver is our Python itself, which starts the JVM as pyspark does anywhere: were it started by
spark-submit, the JVM would get SIGTERM in its place, and a run would end in the middle of a batch.
"""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"
EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_FLAGS = ("--verbose", "-v", "--supervise")
"""Options of spark-submit that have no value; all others have one."""
_JAVA_OPTION = "SPARK_JAVA_OPT_"

# Spark's classes, ready to use, and the jar that names all jars in the order in which that was made
# (tools/images/spark_class_data.py). A JVM that it does not fit goes on without it.
_ARCHIVE = "classes.jsa"
_JARS = "jars.jar"
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of the JVM that does nothing but print the command line of the driver's."""

_EXECUTOR_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""What an executor is told, and in which variable Spark put it."""


class MisuseError(Exception):
    """The container was not started as Spark on Kubernetes starts it."""


@dataclass(frozen=True)
class Command:
    """What the container becomes."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def command(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """What these arguments ask for; any other program than Spark's roles is started as it is.

    MisuseError where Spark's contract is not kept.
    """
    if not arguments:
        raise MisuseError("nothing to do: the first argument is driver, executor or a program")
    roles: Mapping[str, Callable[[Sequence[str], Mapping[str, str]], Command]] = {
        "driver": _driver,
        "executor": _executor,
    }
    first, *rest = arguments
    if first in roles:
        return roles[first](rest, environment)
    return Command(tuple(arguments), environment)


def _driver(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Python with the application; the options of spark-submit reach the JVM that it starts."""
    options, application = _split(arguments)
    if not application:
        raise MisuseError("driver: no application file is named")
    main_class = options.pop("--class", [_PYTHON_RUNNER])[-1]
    if main_class != _PYTHON_RUNNER:
        raise MisuseError(
            f"driver: this image runs applications in Python, not the class {main_class}"
        )
    file, *rest = application
    # The properties say `cluster`: that was for whoever made this pod. What comes later wins.
    submit = [
        *(word for name, values in options.items() for value in values for word in (name, value)),
        "--deploy-mode",
        "client",
        "--conf",
        f"spark.driver.bindAddress={_required(environment, 'SPARK_DRIVER_BIND_ADDRESS')}",
        "--conf",
        f"spark.driver.defaultExtraClassPath={_required(environment, 'SPARK_HOME')}/{_JARS}",
    ]
    return Command(
        (sys.executable, _local(file), *rest),
        {
            "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS,
            **environment,
            # The image's own, which has the application: what the pod has here is where the one
            # who submitted it, spark-operator, keeps a Python of its own.
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": shlex.join([*submit, "pyspark-shell"]),
            "SPARK_SUBMIT_OPTS": shlex.join(
                [*_class_data(environment), *shlex.split(environment.get("SPARK_SUBMIT_OPTS", ""))]
            ),
        },
    )


def _split(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The options of spark-submit by name, then the application file and its own arguments."""
    options: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name = rest.pop(0)
        if name in _FLAGS:
            continue
        if not rest:
            raise MisuseError(f"driver: {name} has no value")
        options.setdefault(name, []).append(rest.pop(0))
    return options, rest


def _local(file: str) -> str:
    """The path of a file in the image."""
    scheme, separator, path = file.partition("://")
    if not separator:
        return file
    if scheme not in ("local", "file"):
        raise MisuseError(f"driver: {file} is not in the image; say local:///…")
    return path


def _executor(_: Sequence[str], environment: Mapping[str, str]) -> Command:
    """The JVM of an executor."""
    memory = _required(environment, "SPARK_EXECUTOR_MEMORY")
    options = [
        word
        for option, variable in _EXECUTOR_ARGUMENTS.items()
        for word in (option, _required(environment, variable))
    ]
    java = Path(_required(environment, "JAVA_HOME"), "bin", "java")
    return Command(
        (
            str(java),
            *_class_data(environment),
            *_java_options(environment),
            f"-Xms{memory}",
            f"-Xmx{memory}",
            "-cp",
            _class_path(environment),
            EXECUTOR,
            *options,
        ),
        environment,
    )


def _java_options(environment: Mapping[str, str]) -> list[str]:
    """Spark numbers the options; one may hold spaces, and the order counts."""
    numbered = {
        int(name.removeprefix(_JAVA_OPTION)): value
        for name, value in environment.items()
        if name.startswith(_JAVA_OPTION) and name.removeprefix(_JAVA_OPTION).isdecimal()
    }
    return [numbered[number] for number in sorted(numbered)]


def _class_data(environment: Mapping[str, str]) -> list[str]:
    """Options for the archive; what does not fit to it is nothing that a user must know."""
    home = _required(environment, "SPARK_HOME")
    return [f"-XX:SharedArchiveFile={home}/{_ARCHIVE}", "-Xlog:cds*=off"]


def _class_path(environment: Mapping[str, str]) -> str:
    """A user's jars, then Spark's. No part is empty: that would be the working directory."""
    home = _required(environment, "SPARK_HOME")
    parts = [
        environment.get("SPARK_CLASSPATH", ""),
        f"{home}/{_JARS}",
        environment.get("SPARK_CONF_DIR", f"{home}/conf"),
        environment.get("HADOOP_CONF_DIR", ""),
        f"{home}/jars/*",
        environment.get("SPARK_EXTRA_CLASSPATH", ""),
        environment.get("SPARK_DIST_CLASSPATH", ""),
    ]
    return ":".join(filter(None, parts))


def _required(environment: Mapping[str, str], name: str) -> str:
    """The variable's value; MisuseError where it is missing or empty."""
    value = environment.get(name)
    if not value:
        raise MisuseError(f"the variable {name} is not set, which Spark sets in its pods")
    return value
