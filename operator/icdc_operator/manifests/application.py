"""The SparkApplication (v1beta2) of one run.

One immutable object for each attempt: spark-operator kills and restarts an application that is
edited, and its own restarts know neither our failure classes nor our epochs.

    part of the SparkApplication   from
    image, pull policy, secrets    spec.spark.image, else the operator's installation
    sparkConf, later ones win      defaults, BASE_CONF, IPV6_CONF, spec.spark.conf, FIXED_CONF,
                                   ENCRYPTION_CONF
    driver, executor               spec.spark.driver, spec.spark.executor, `templates`
    arguments                      the file of the run's request, see `config_map`
"""

import math
from dataclasses import replace
from typing import Any

from icdc_api.spec.spark import DynamicAllocation, Spark
from icdc_api.spec.spark_defaults import build_defaults
from icdc_api.status.runs import RunKind
from icdc_operator.manifests import metadata, spark_kind
from icdc_operator.manifests.launch import Launch
from icdc_operator.manifests.pods import pod_paths, refused_values, templates

API_VERSION = spark_kind.API_VERSION
KIND = spark_kind.KIND

SPARK_VERSION = "4.1.4"
"""Spark version of the image; a test compares it with the pyspark that pyproject.toml pins."""

DELETION_TTL_SECONDS = 86400
"""Seconds after which spark-operator deletes a deletion run, which has no owner: for one that is
left over when somebody removes the finalizer by hand."""

BASE_CONF = {
    # An executor that is removed, by a drained node or by dynamic allocation, migrates its shuffle
    # blocks, so that their stages need not run again, and stored parts of a comparison, which
    # nothing can compute again.
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.ui.prometheus.enabled": "true",
    # Without these spark-submit passes on the PYSPARK_PYTHON that spark-operator's pod may have.
    "spark.pyspark.python": pod_paths.PYTHON,
    "spark.pyspark.driver.python": pod_paths.PYTHON,
}
"""Further defaults of runs on a cluster; `spec.spark.conf` overrides them.

The application sets what it always needs when it starts. No jar is listed: the image has them in
Spark's own jars directory, where every class loader finds them.
"""

IPV6_CONF = {
    # Executors find the driver by its Service, which Spark makes for IPv4 alone by default. A
    # cluster without IPv4 refuses such a Service; with both families, the driver would listen at
    # another address than the Service has.
    "spark.kubernetes.driver.service.ipFamilies": "IPv6",
}
"""Further defaults where pods have addresses of IPv6."""

FIXED_CONF = {
    # The UI has no login: whoever reaches its port could end jobs.
    "spark.ui.killEnabled": "false",
}
"""Properties that no pipeline may change."""

ENCRYPTION_CONF = {
    # The driver creates a secret for itself and its executors. Without it nobody can register as
    # an executor, and receive tasks with the credentials in them, or fetch blocks.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # GCM also detects changes on the way, which CTR, the default, does not.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    # No fallback to the older protocol, which is weaker.
    "spark.network.crypto.saslFallback": "false",
    # Shuffle and spill on local disks.
    "spark.io.encryption.enabled": "true",
}
"""Properties that `spec.spark.encryption` sets."""


def build_spark_application(launch: Launch) -> dict[str, Any]:
    """Return the SparkApplication, named like the run. BadSpec for a template that would break it.

    Its driver does not start before the ConfigMap of the same name exists.
    """
    refused_values.check(launch.spec.spark, trusted=launch.settings.trusts(launch.owner.namespace))
    deletes = launch.run.kind == RunKind.DELETION
    if not launch.run.kind.needs_executors:
        launch = _without_executors(launch)
    if launch.max_cpu is not None:
        launch = _with_one_executor(launch, launch.max_cpu)
    spark = launch.spec.spark
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata.build_object_metadata(launch),
        "spec": {
            "type": "Python",
            "mode": "cluster",
            # spark-operator's default is 2.
            "pythonVersion": "3",
            "sparkVersion": SPARK_VERSION,
            **_build_image_fields(launch),
            "mainApplicationFile": f"local://{pod_paths.APPLICATION_FILE}",
            "arguments": [pod_paths.REQUEST_FILE],
            # Retries are ours. No timeToLiveSeconds either: the operator forgets a run once what
            # it says is in the status, and what is left of it goes with its pipeline.
            "restartPolicy": {"type": "Never"},
            **({"timeToLiveSeconds": DELETION_TTL_SECONDS} if deletes else {}),
            **_build_dynamic_allocation(spark),
            "sparkConf": {
                **build_defaults(spark, short=launch.short),
                **BASE_CONF,
                **(IPV6_CONF if launch.settings.ipv6 else {}),
                **spark.conf,
                **FIXED_CONF,
                **_build_cpu_conf(launch.max_cpu),
                **(ENCRYPTION_CONF if spark.encryption else {}),
            },
            "driver": _build_driver(launch),
            "executor": _build_executor(launch),
        },
    }


def _without_executors(launch: Launch) -> Launch:
    """The launch of a run that reads no rows: one driver, and nothing that it could wait for.

    Static allocation has at least one executor, by the schema of SparkApplication.
    """
    none = DynamicAllocation(min_executors=0, max_executors=1)
    spark = launch.spec.spark
    executor = spark.executor.model_copy(update={"instances": 0})
    fewer = {"dynamic_allocation": none, "executor": executor}
    spec = launch.spec.model_copy(update={"spark": spark.model_copy(update=fewer)})
    return replace(launch, spec=spec)


def _with_one_executor(launch: Launch, max_cpu: float) -> Launch:
    """Return the launch with one executor, which has as many tasks at a time as it has CPUs."""
    spark = launch.spec.spark
    # Spark refuses an executor that has no room for one task.
    cores = max(math.ceil(max_cpu), spark.task_cpus)
    one = spark.executor.model_copy(update={"instances": 1, "cores": cores})
    fewer = {"executor": one, "dynamic_allocation": None}
    spec = launch.spec.model_copy(update={"spark": spark.model_copy(update=fewer)})
    return replace(launch, spec=spec)


def _build_cpu_conf(max_cpu: float | None) -> dict[str, str]:
    """Return the properties by which Kubernetes limits the executor, also to a part of a CPU."""
    if max_cpu is None:
        return {}
    amount = f"{max(1, round(max_cpu * 1000))}m"
    # Both, and after the user's: a request above the limit is refused.
    parts = ("request", "limit")
    return {f"spark.kubernetes.executor.{part}.cores": amount for part in parts}


def _build_image_fields(launch: Launch) -> dict[str, Any]:
    settings = launch.settings
    fields: dict[str, Any] = {"image": launch.spec.spark.image or settings.image}
    if settings.image_pull_policy is not None:
        fields["imagePullPolicy"] = settings.image_pull_policy
    if settings.image_pull_secrets:
        fields["imagePullSecrets"] = list(settings.image_pull_secrets)
    return fields


def _build_driver(launch: Launch) -> dict[str, Any]:
    driver = launch.spec.spark.driver
    return {
        "cores": driver.cores,
        "memory": driver.memory,
        "serviceAccount": driver.service_account,
        "template": templates.build_driver_template(launch),
    }


def _build_executor(launch: Launch) -> dict[str, Any]:
    spark = launch.spec.spark
    fields: dict[str, Any] = {"cores": spark.executor.cores, "memory": spark.executor.memory}
    if spark.dynamic_allocation is None:
        # With dynamic allocation Spark would begin with at least these, whatever the maximum.
        fields["instances"] = spark.executor.instances
    return {
        **fields,
        # The driver's: clouds give access to storage by service account, and rows are read here.
        "serviceAccount": spark.driver.service_account,
        "template": templates.build_executor_template(launch),
    }


def _build_dynamic_allocation(spark: Spark) -> dict[str, Any]:
    wanted = spark.dynamic_allocation
    if wanted is None:
        return {}
    first = max(wanted.min_executors, min(spark.executor.instances, wanted.max_executors))
    return {
        "dynamicAllocation": {
            "enabled": True,
            "initialExecutors": first,
            "minExecutors": wanted.min_executors,
            "maxExecutors": wanted.max_executors,
            # There is no external shuffle service on Kubernetes.
            "shuffleTrackingEnabled": True,
        }
    }
