"""The parts of a SparkApplication that hang on something."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icdc_api import naming
from icdc_api.base import MAX_TABLES
from icdc_api.json_size import measure_stored
from icdc_api.spec.limits import MAX_SECRETS, MAX_SPEC_BYTES
from icdc_api.spec.spark import Spark
from icdc_api.spec.spark_defaults import QUICK_COMPILER, build_defaults
from icdc_api.status.runs import RunKind
from icdc_operator.manifests import application, metadata
from icdc_operator.manifests.application import build_spark_application
from icdc_operator.manifests.launch import InstallSettings, Launch
from icdc_operator.manifests.pods import pod_paths
from icdc_operator.manifests.pods.templates import (
    build_driver_template,
    build_executor_template,
)
from icdc_testing.operator.deciding.pipelines import run_record
from icdc_testing.operator.deciding.worst_cases import make_many_tables

pytestmark = pytest.mark.unit

Make = Callable[..., Launch]
_BOUNDS = ("request", "limit")
ROOT = Path(__file__).parents[4]


def test_the_spark_version_is_the_one_that_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"pyspark=={application.SPARK_VERSION}" in project["optional-dependencies"]["spark"]


def test_it_is_named_labelled_and_owned(launch: Make) -> None:
    made = launch(run=run_record(run_id=None))
    result = build_spark_application(made)["metadata"]
    assert result["name"] == "shop-e1-1"
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", result["name"])
    assert result["labels"] == {
        "app.kubernetes.io/managed-by": "iceberg-cdc-operator",
        "icebergcdc.dev/pipeline": "shop",
        "icebergcdc.dev/run": "shop-e1-1",
    }
    # A record without a run id is known by its name, as in local runs.
    assert result["annotations"] == {
        "icebergcdc.dev/epoch": "1000",
        "icebergcdc.dev/run-id": "shop-e1-1",
    }
    (owner,) = result["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == (naming.KIND, made.owner.uid)
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, False)


def test_no_python_of_spark_operator_reaches_its_pods(launch: Make) -> None:
    conf = build_spark_application(launch())["spec"]["sparkConf"]
    assert conf["spark.pyspark.python"] == conf["spark.pyspark.driver.python"] == pod_paths.PYTHON
    entry = re.search(r"^ENTRYPOINT .*icdc_spark.*$", (ROOT / "Dockerfile").read_text(), re.M)
    assert entry is not None
    assert f'"{pod_paths.PYTHON}"' in entry[0]


def test_its_pods_can_be_told_without_it(launch: Make) -> None:
    made = launch()
    spec = build_spark_application(made)["spec"]
    for role in ("driver", "executor"):
        result = spec[role]["template"]["metadata"]
        assert metadata.build_labels(made).items() <= result["labels"].items()
        assert metadata.build_annotations(made).items() <= result["annotations"].items()


def test_it_never_restarts_or_goes_away_by_itself(launch: Make) -> None:
    spec = build_spark_application(launch())["spec"]
    assert spec["restartPolicy"] == {"type": "Never"}
    assert "timeToLiveSeconds" not in spec


def test_its_only_argument_is_where_the_request_is_mounted(launch: Make) -> None:
    spec = build_spark_application(launch())["spec"]
    (argument,) = spec["arguments"]
    pod = spec["driver"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    volume = next(
        volume for volume in pod["volumes"] if volume["name"] == mounts[str(Path(argument).parent)]
    )
    assert volume["configMap"] == {"name": "shop-e12-3"}
    assert Path(argument).name == pod_paths.REQUEST_KEY


@pytest.mark.parametrize(
    ("instances", "least", "most", "first"),
    [(2, 0, 8, 2), (9, 0, 8, 8), (1, 3, 8, 3), (2, 2, 2, 2)],
)
def test_dynamic_allocation_starts_between_its_bounds(
    instances: int, least: int, most: int, first: int, launch: Make
) -> None:
    spark = {
        "executor": {"instances": instances},
        "dynamicAllocation": {"minExecutors": least, "maxExecutors": most},
    }
    spec = build_spark_application(launch(spark=spark))["spec"]
    assert spec["dynamicAllocation"]["initialExecutors"] == first
    # Spark takes the larger of the two.
    assert "instances" not in spec["executor"]


def test_a_run_with_a_cpu_limit_has_one_executor_within_it(launch: Make) -> None:
    conf = {"spark.kubernetes.executor.request.cores": "4"}
    spec = {"conf": conf, "dynamicAllocation": {"maxExecutors": 8}, "executor": {"instances": 4}}
    for max_cpu, cores, amount in ((0.5, 1, "500m"), (1.0, 1, "1000m"), (2.25, 3, "2250m")):
        limited = replace(launch(spark=spec), max_cpu=max_cpu)
        made = build_spark_application(limited)["spec"]
        assert "dynamicAllocation" not in made
        assert (made["executor"]["instances"], made["executor"]["cores"]) == (1, cores)
        limits = {made["sparkConf"][f"spark.kubernetes.executor.{x}.cores"] for x in _BOUNDS}
        assert limits == {amount}


def test_an_executor_with_a_cpu_limit_has_room_for_one_task(launch: Make) -> None:
    for conf, cores in (("3", 3), (" 2 ", 2), ("1", 1)):
        spec = {"conf": {"spark.task.cpus": conf}, "executor": {"cores": 4}}
        limited = replace(launch(spark=spec), max_cpu=0.5)
        assert build_spark_application(limited)["spec"]["executor"]["cores"] == cores


def test_properties_of_the_user_go_over_the_defaults(launch: Make) -> None:
    conf = {
        "spark.decommission.enabled": "false",
        "spark.executor.extraJavaOptions": "-XX:+UseZGC",
        "spark.network.timeout": "300s",
        "spark.sql.codegen.cache.maxEntries": "7",
    }
    result = build_spark_application(launch(spark={"conf": conf}))["spec"]["sparkConf"]
    ours = {**application.BASE_CONF, **build_defaults(Spark(conf=conf))}
    assert result == ours | conf | application.FIXED_CONF | application.ENCRYPTION_CONF
    assert "spark.executor.defaultJavaOptions" not in result


def test_a_short_run_has_the_jvm_options_of_short_runs(launch: Make) -> None:
    made = build_spark_application(replace(launch(), short=True))["spec"]["sparkConf"]
    assert made["spark.executor.defaultJavaOptions"].startswith(QUICK_COMPILER)
    assert made["spark.driver.defaultJavaOptions"].startswith(QUICK_COMPILER)


ENCRYPTED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}


def test_runs_are_encrypted_unless_the_pipeline_says_otherwise(launch: Make) -> None:
    said = build_spark_application(launch())["spec"]["sparkConf"]
    assert ENCRYPTED.items() <= said.items()
    plain = build_spark_application(launch(spark={"encryption": False}))["spec"]["sparkConf"]
    assert {key for key in said if key not in plain} >= set(ENCRYPTED)
    assert not any("crypt" in key or "authenticate" in key for key in plain)


def test_nobody_can_end_jobs_in_the_browser(launch: Make) -> None:
    assert build_spark_application(launch())["spec"]["sparkConf"]["spark.ui.killEnabled"] == "false"


@pytest.mark.parametrize(
    ("conf", "port"),
    [({}, "4040"), ({"spark.ui.port": "4050"}, "4050"), ({"spark.ui.enabled": "False"}, None)],
)
def test_prometheus_is_sent_to_where_the_driver_answers(
    conf: dict[str, str], port: str | None, launch: Make
) -> None:
    result = build_driver_template(launch(spark={"conf": conf}))["metadata"]["annotations"]
    assert result.get("prometheus.io/port") == port
    assert ("prometheus.io/scrape" in result) == (port is not None)


def test_the_image_is_the_pipelines_or_else_the_operators(launch: Make) -> None:
    bare = InstallSettings(image="default:1")
    assert _build_image_fields(launch(settings=bare)) == {"image": "default:1"}
    assert _build_image_fields(launch(settings=bare, spark={"image": "own:2"})) == {
        "image": "own:2"
    }
    settings = InstallSettings("default:1", "Always", ("one", "two"))
    assert _build_image_fields(launch(settings=settings)) == {
        "image": "default:1",
        "imagePullPolicy": "Always",
        "imagePullSecrets": ["one", "two"],
    }


def _build_image_fields(launch: Launch) -> dict[str, Any]:
    spec = build_spark_application(launch)["spec"]
    return {key: value for key, value in spec.items() if key.startswith("image")}


def test_the_service_of_a_driver_is_of_the_family_of_the_cluster(launch: Make) -> None:
    key = "spark.kubernetes.driver.service.ipFamilies"
    four, six = InstallSettings("default:1"), InstallSettings("default:1", ipv6=True)
    assert key not in read_conf(launch(settings=four))
    assert read_conf(launch(settings=six))[key] == "IPv6"
    mine = {"conf": {key: "IPv6,IPv4"}}
    assert read_conf(launch(settings=six, spark=mine))[key] == "IPv6,IPv4"


def read_conf(launch: Launch) -> dict[str, str]:
    conf: dict[str, str] = build_spark_application(launch)["spec"]["sparkConf"]
    return conf


def test_driver_and_executors_get_the_proxies_unless_their_templates_name_others(
    launch: Make,
) -> None:
    every = {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".svc"}
    every |= {name.lower(): value for name, value in every.items()}
    settings = InstallSettings("default:1", proxies=tuple(every.items()))
    secret = {"secretKeyRef": {"name": "proxy", "key": "url"}}
    env = [{"name": "HTTPS_PROXY", "valueFrom": secret}, {"name": "no_proxy", "value": "*"}]
    beside = {"name": "other", "image": "other:1", "env": [{"name": "A", "value": "b"}]}
    mine = {"spec": {"containers": [{"name": "spark-kubernetes-executor", "env": env}, beside]}}
    other = {"spec": {"containers": [{**beside, "env": env}]}}
    templates = {"executor": {"template": mine}, "driver": {"template": other}}
    made = launch(settings=settings, spark=templates)
    (executor, _) = build_executor_template(made)["spec"]["containers"]
    # None of ours in other letters, and no variable with both a value and a source.
    assert [item for item in executor["env"] if "proxy" in item["name"].lower()] == env
    (driver, _) = build_driver_template(made)["spec"]["containers"]
    values = {item["name"]: item.get("value") for item in driver["env"]}
    assert values.items() >= every.items()


@pytest.mark.parametrize("log_format", [None, "json", "text"])
def test_the_log_of_the_driver_has_the_format_of_the_operators(
    launch: Make, log_format: str | None
) -> None:
    settings = InstallSettings("default:1", log_format=log_format)
    (container,) = build_driver_template(launch(settings=settings))["spec"]["containers"]
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert values.get("ICDC_LOG_FORMAT") == log_format


@pytest.mark.parametrize("kind", [RunKind.PLAN, RunKind.DEAD_LETTERS])
def test_a_run_that_reads_no_rows_has_no_executor_to_begin_with(
    kind: RunKind, launch: Callable[..., Launch]
) -> None:
    made = launch(spark={"executor": {"instances": 5}})
    run = made.run.model_copy(update={"kind": kind})
    spec = build_spark_application(replace(made, run=run))["spec"]
    allocation = spec["dynamicAllocation"]
    assert (allocation["initialExecutors"], allocation["minExecutors"]) == (0, 0)
    assert "instances" not in spec["executor"]


@pytest.mark.parametrize("kind", [RunKind.PLAN, RunKind.DELETION])
def test_a_run_that_reads_no_rows_waits_for_no_disk_and_has_each_volume_by_name(
    kind: RunKind, launch: Callable[..., Launch]
) -> None:
    """A container of the user's own may mount it, such as one that sets its owner."""
    made = launch(
        spark={
            "localVolumes": [{"hostPath": {"path": "/mnt/nvme0"}}, {"ephemeral": {"size": "1Gi"}}]
        }
    )
    run = made.run.model_copy(update={"kind": kind})
    template = build_spark_application(replace(made, run=run))["spec"]["driver"]["template"]
    volumes = [one for one in template["spec"]["volumes"] if "local-dir" in one["name"]]
    assert volumes == [{"name": f"spark-local-dir-{n}", "emptyDir": {}} for n in (1, 2)]


def test_the_largest_application_fits_into_etcd(launch: Make) -> None:
    names = [f"secret-{number}".ljust(253, "x") for number in range(MAX_SECRETS)]
    tables = make_many_tables(MAX_TABLES)["spec"]["tables"]
    for number, table in enumerate(tables):
        sources = [{"secretRef": {"name": names[number % MAX_SECRETS]}}]
        table["catalog"] = {"propertiesFrom": sources}
    template = {"metadata": {"annotations": {"note": "x" * 110_000}}}
    roles = {"driver": {"template": template}, "executor": {"template": template}}
    spec = {"tables": tables, "spark": roles}
    assert MAX_SPEC_BYTES * 0.8 < measure_stored(spec) < MAX_SPEC_BYTES
    result = build_spark_application(launch(**spec))
    mounted = result["spec"]["driver"]["template"]["spec"]["volumes"]
    assert len(mounted) == MAX_SECRETS + 2
    # Kubernetes adds managed fields, spark-operator a status.
    assert measure_stored(result) < 1_000_000
