"""What a container of Spark on Kubernetes becomes, by its arguments and variables."""

import shlex
import subprocess
import sys
from collections.abc import Mapping

import pytest

from icdc_operator.manifests.pods import pod_paths
from icdc_spark.container import commands

pytestmark = pytest.mark.unit

DRIVER = {
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_DRIVER_BIND_ADDRESS": "10.244.0.7",
    "SPARK_HOME": "/opt/spark",
}
PROPERTIES = ["--properties-file", "/opt/spark/conf/spark.properties"]
RUNNER = ["--class", "org.apache.spark.deploy.PythonRunner"]
APPLICATION = [f"local://{pod_paths.APPLICATION_FILE}", pod_paths.REQUEST_FILE]
CLIENT = (
    "--deploy-mode client --conf spark.driver.bindAddress=10.244.0.7 "
    "--conf spark.driver.defaultExtraClassPath=/opt/spark/jars.jar pyspark-shell"
)
CLASS_DATA = "-XX:SharedArchiveFile=/opt/spark/classes.jsa '-Xlog:cds*=off'"

EXECUTOR = {
    "JAVA_HOME": "/java",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver-svc:7078",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_EXECUTOR_POD_IP": "10.244.0.9",
    "SPARK_EXECUTOR_POD_NAME": "shop-c1-1-exec-3",
    "SPARK_HOME": "/opt/spark",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def _build_driver_command(*arguments: str, **more: str) -> commands.Command:
    return commands.build_command(["driver", *arguments], {**DRIVER, **more})


def _get_option(command: commands.Command, name: str) -> str:
    return command.arguments[command.arguments.index(name) + 1]


def test_the_driver_is_python_so_that_it_gets_the_signal_to_stop() -> None:
    driver = _build_driver_command(*PROPERTIES, *RUNNER, *APPLICATION)
    assert driver.arguments == (sys.executable, pod_paths.APPLICATION_FILE, pod_paths.REQUEST_FILE)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (PROPERTIES, f"{shlex.join(PROPERTIES)} {CLIENT}"),
        ([*PROPERTIES, "--verbose"], f"{shlex.join(PROPERTIES)} {CLIENT}"),
        (
            ["--proxy-user", "ann", *PROPERTIES],
            f"--proxy-user ann {shlex.join(PROPERTIES)} {CLIENT}",
        ),
        (["--conf", "a=1 2", "--conf", "b=3"], f"--conf 'a=1 2' --conf b=3 {CLIENT}"),
        (["--deploy-mode", "cluster"], f"--deploy-mode cluster {CLIENT}"),
        ([], CLIENT),
    ],
)
def test_the_options_of_spark_submit_reach_the_jvm(options: list[str], option: str) -> None:
    driver = _build_driver_command(*options, *RUNNER, *APPLICATION)
    assert driver.environment["PYSPARK_SUBMIT_ARGS"] == option


def test_an_argument_of_the_application_is_no_option_of_spark() -> None:
    driver = _build_driver_command(*RUNNER, "/main.py", "--class", "mine")
    assert driver.arguments[1:] == ("/main.py", "--class", "mine")


@pytest.mark.parametrize(
    "of_spark_operator",
    [
        {},
        {"PYSPARK_PYTHON": "/usr/bin/python3.12"},
        {"PYSPARK_DRIVER_PYTHON": "/usr/bin/python3.12", "PYSPARK_PYTHON": "python3"},
    ],
)
def test_the_driver_runs_the_python_of_its_image_whatever_was_submitted(
    of_spark_operator: dict[str, str],
) -> None:
    command = _build_driver_command(*RUNNER, *APPLICATION, **of_spark_operator)
    assert command.arguments[0] == sys.executable
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        assert command.environment[name] == sys.executable


def test_all_other_variables_of_the_driver_stay() -> None:
    driver = _build_driver_command(*RUNNER, *APPLICATION, POD_NAME="shop-driver")
    assert driver.environment.items() >= {**DRIVER, "POD_NAME": "shop-driver"}.items()


@pytest.mark.parametrize(
    ("variables", "launcher", "driver"),
    [
        ({}, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", CLASS_DATA),
        (
            {"SPARK_LAUNCHER_OPTS": "-Da=1", "SPARK_SUBMIT_OPTS": "-Xshare:off '-Db=1 2'"},
            "-Da=1",
            f"{CLASS_DATA} -Xshare:off '-Db=1 2'",
        ),
    ],
)
def test_both_jvms_of_the_driver_start_quickly_unless_a_user_says_otherwise(
    variables: dict[str, str], launcher: str, driver: str
) -> None:
    environment = _build_driver_command(*RUNNER, *APPLICATION, **variables).environment
    assert environment["SPARK_LAUNCHER_OPTS"] == launcher
    assert environment["SPARK_SUBMIT_OPTS"] == driver


def test_the_executor_is_java_with_what_spark_says_in_variables() -> None:
    executor = commands.build_command(["executor"], EXECUTOR)
    backend = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert executor.environment == EXECUTOR
    assert shlex.join(executor.arguments) == (
        f"/java/bin/java {CLASS_DATA} -Xms2g -Xmx2g "
        "-cp '/opt/spark/jars.jar:/opt/spark/conf:/opt/spark/jars/*' "
        f"{backend} --driver-url spark://CoarseGrainedScheduler@driver-svc:7078 --executor-id 3 "
        "--cores 2 --app-id spark-1 --hostname 10.244.0.9 --resourceProfileId 0 "
        "--podName shop-c1-1-exec-3"
    )


def test_the_executor_gets_the_proxies_before_what_the_pipeline_says_of_them() -> None:
    variables = {"HTTPS_PROXY": "http://proxy:3128", "SPARK_JAVA_OPT_0": "-Dhttps.proxyHost=mine"}
    executor = commands.build_command(["executor"], {**EXECUTOR, **variables})
    assert executor.arguments[3:9] == (
        "-Dhttp.proxyHost=proxy",
        "-Dhttp.proxyPort=3128",
        "-Dhttps.proxyHost=proxy",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|127.*|[::1]",
        "-Dhttps.proxyHost=mine",
    )


def test_an_executor_is_not_started_with_a_proxy_that_is_none() -> None:
    variables = {"HTTPS_PROXY": "http://ann:sword#fish@proxy:3128"}
    with pytest.raises(commands.MisuseError, match="executor: HTTPS_PROXY is not http://HOST:PORT"):
        commands.build_command(["executor"], {**EXECUTOR, **variables})


def test_the_executor_gets_java_options_in_the_order_of_their_numbers() -> None:
    options = {f"SPARK_JAVA_OPT_{n}": f"-Dx={n} y" for n in (10, 2, 0)}
    executor = commands.build_command(["executor"], {**EXECUTOR, **options})
    assert executor.arguments[3:6] == ("-Dx=0 y", "-Dx=2 y", "-Dx=10 y")


@pytest.mark.parametrize(
    ("variables", "class_path"),
    [
        ({}, "/opt/spark/jars.jar:/opt/spark/conf:/opt/spark/jars/*"),
        (
            {"SPARK_CLASSPATH": "/x.jar"},
            "/x.jar:/opt/spark/jars.jar:/opt/spark/conf:/opt/spark/jars/*",
        ),
        ({"SPARK_CONF_DIR": "/c"}, "/opt/spark/jars.jar:/c:/opt/spark/jars/*"),
        (
            {"HADOOP_CONF_DIR": "/h", "SPARK_EXTRA_CLASSPATH": "/e", "SPARK_DIST_CLASSPATH": "/d"},
            "/opt/spark/jars.jar:/opt/spark/conf:/h:/opt/spark/jars/*:/e:/d",
        ),
    ],
)
def test_the_class_path_has_no_empty_part(variables: dict[str, str], class_path: str) -> None:
    executor = commands.build_command(["executor"], {**EXECUTOR, **variables})
    assert _get_option(executor, "-cp") == class_path


def test_any_other_program_is_started_as_it_is() -> None:
    command = commands.build_command(["python", "-V"], {"A": "b"})
    assert command == commands.Command(("python", "-V"), {"A": "b"})


@pytest.mark.parametrize(
    ("arguments", "environment", "why"),
    [
        ([], {}, "nothing to do"),
        (["driver", *PROPERTIES], DRIVER, "no application file"),
        (["driver", "--properties-file"], DRIVER, "--properties-file has no value"),
        (
            ["driver", "--class", "org.example.Pi", "x.jar"],
            DRIVER,
            "not the class org",
        ),
        (["driver", *RUNNER, "s3a://bucket/main.py"], DRIVER, "is not in the image"),
        *(
            (
                ["driver", *RUNNER, *APPLICATION],
                {k: v for k, v in DRIVER.items() if k != name},
                f"{name} is not set",
            )
            for name in ("SPARK_DRIVER_BIND_ADDRESS", "SPARK_HOME")
        ),
        *(
            (["executor"], {k: v for k, v in EXECUTOR.items() if k != name}, f"{name} is not set")
            for name in EXECUTOR
            if name != "SPARK_CONF_DIR"
        ),
    ],
)
def test_a_broken_contract_is_named(
    arguments: list[str], environment: Mapping[str, str], why: str
) -> None:
    with pytest.raises(commands.MisuseError, match=why):
        commands.build_command(arguments, environment)


def _start(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "icdc_spark.container", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_entry_becomes_the_program() -> None:
    done = _start(sys.executable, "-c", "print('here')")
    assert (done.returncode, done.stdout) == (0, "here\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["executor"], 2, "error: the variable SPARK_EXECUTOR_MEMORY is not set"),
        (["/no/such/program"], 127, "error: /no/such/program cannot be started"),
    ],
)
def test_the_entry_says_in_one_line_why_it_cannot(
    arguments: list[str], code: int, said: str
) -> None:
    done = _start(*arguments)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_the_entry_loads_neither_spark_nor_anything_else_that_takes_time() -> None:
    slow = "{'pyspark', 'py4j', 'pydantic', 'pyarrow'} & set(sys.modules)"
    code = f"import sys, icdc_spark.container.commands; print({slow} or 'none')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "none\n"


def test_an_executor_keeps_the_secret_by_which_its_driver_knows_it() -> None:
    secret = {"_SPARK_AUTH_SECRET": "of this run"}
    executor = commands.build_command(["executor"], {**EXECUTOR, **secret})
    assert secret.items() <= executor.environment.items()
    assert not any("of this run" in argument for argument in executor.arguments)
