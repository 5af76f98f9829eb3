"""The SparkApplication (v1beta2) of one run.

One immutable object for each attempt: spark-operator kills and reruns an application that is
edited, and its own restarts know neither our failure classes nor our epochs.
"""

from dataclasses import replace
from typing import Any

from icdc_api.runs import RunKind
from icdc_api.spark import DynamicAllocation, Spark
from icdc_api.spark_defaults import build_defaults
from icdc_operator.manifests import metadata, pod_paths, refusals, templates
from icdc_operator.manifests.launch import Launch

API_VERSION = "sparkoperator.k8s.io/v1beta2"
KIND = "SparkApplication"

SPARK_VERSION = "4.1.4"
"""The Spark of the image: the pyspark that pyproject.toml pins, which a test compares."""

DELETION_TTL_SECONDS = 86400
"""After which spark-operator deletes a deletion run, which nobody owns: for one that is left
behind when somebody takes the finalizer away by hand."""

BASE_CONF = {
    # An executor that is taken away, by a drained node or by dynamic allocation, hands over its
    # shuffle blocks, so that the stages behind them need not run again.
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.ui.prometheus.enabled": "true",
    # Without these spark-submit hands on the PYSPARK_PYTHON that spark-operator's pod may have.
    "spark.pyspark.python": pod_paths.PYTHON,
    "spark.pyspark.driver.python": pod_paths.PYTHON,
}
"""Further defaults of runs on a cluster; `spec.spark.conf` goes over them.

What the application needs in any case it sets itself when it starts. No jar is named: the image
has them in Spark's own jars directory, where every class loader finds them.
"""

FIXED_CONF = {
    # Whoever reaches the port of the UI could else end jobs; it has no login.
    "spark.ui.killEnabled": "false",
}
"""What nobody may change."""

ENCRYPTION_CONF = {
    # The driver makes a secret for itself and its executors. Who does not know it can neither
    # register as an executor, and be sent tasks with the credentials in them, nor fetch blocks.
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # GCM also notices what was changed on the way, which CTR, the default, does not.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    # Without a way back to the older protocol, which is weaker.
    "spark.network.crypto.saslFallback": "false",
    # Shuffle and spill on local disks.
    "spark.io.encryption.enabled": "true",
}
"""What `spec.spark.encryption` stands for."""


def build_spark_application(launch: Launch) -> dict[str, Any]:
    """The SparkApplication, named as the run; raises BadSpec for a template that would break it.

    Needs the ConfigMap of the same name, or its driver waits.
    """
    refusals.check(launch.spec.spark, trusted=launch.settings.trusts(launch.owner.namespace))
    deletes = launch.run.kind == RunKind.DELETION
    if not launch.run.kind.needs_executors:
        launch = _without_executors(launch)
    spark = launch.spec.spark
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata.object_metadata(launch),
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "pythonVersion": "3",
            "sparkVersion": SPARK_VERSION,
            **_image(launch),
            "mainApplicationFile": f"local://{pod_paths.APPLICATION_FILE}",
            "arguments": [pod_paths.REQUEST_FILE],
            # Retries are ours. No timeToLiveSeconds either: the operator forgets a run once what
            # it says is in the status, and what is left of it goes with its pipeline.
            "restartPolicy": {"type": "Never"},
            **({"timeToLiveSeconds": DELETION_TTL_SECONDS} if deletes else {}),
            **_dynamic_allocation(spark),
            "sparkConf": {
                **build_defaults(spark),
                **BASE_CONF,
                **spark.conf,
                **FIXED_CONF,
                **(ENCRYPTION_CONF if spark.encryption else {}),
            },
            "driver": _driver(launch),
            "executor": _executor(launch),
        },
    }


def _without_executors(launch: Launch) -> Launch:
    """The launch of a run that reads no rows: one driver, and nothing that it could wait for.

    Static allocation has at least one executor, by the schema of SparkApplication.
    """
    none = DynamicAllocation(min_executors=0, max_executors=1)
    fewer = {"dynamic_allocation": none, "local_volumes": ()}
    spark = launch.spec.spark
    fewer["executor"] = spark.executor.model_copy(update={"instances": 0})
    spec = launch.spec.model_copy(update={"spark": spark.model_copy(update=fewer)})
    return replace(launch, spec=spec)


def _image(launch: Launch) -> dict[str, Any]:
    settings = launch.settings
    fields: dict[str, Any] = {"image": launch.spec.spark.image or settings.image}
    if settings.image_pull_policy is not None:
        fields["imagePullPolicy"] = settings.image_pull_policy
    if settings.image_pull_secrets:
        fields["imagePullSecrets"] = list(settings.image_pull_secrets)
    return fields


def _driver(launch: Launch) -> dict[str, Any]:
    driver = launch.spec.spark.driver
    return {
        "cores": driver.cores,
        "memory": driver.memory,
        "serviceAccount": driver.service_account,
        "template": templates.driver_template(launch),
    }


def _executor(launch: Launch) -> dict[str, Any]:
    spark = launch.spec.spark
    fields: dict[str, Any] = {"cores": spark.executor.cores, "memory": spark.executor.memory}
    if spark.dynamic_allocation is None:
        # With dynamic allocation Spark would begin with at least these, whatever the maximum.
        fields["instances"] = spark.executor.instances
    return {
        **fields,
        # The driver's: clouds give access to storage by service account, and rows are read here.
        "serviceAccount": spark.driver.service_account,
        "template": templates.executor_template(launch),
    }


def _dynamic_allocation(spark: Spark) -> dict[str, Any]:
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
