"""`spec.spark`: the resources of the runs, and which Spark properties a pipeline may set.

A property is refused when it belongs to us, when spark-operator denies it, or when it would
change what is written.
"""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from icdc_api.base import ApiModel, Count
from icdc_api.catalog import PropertyValue
from icdc_api.problems import not_allowed, problem


class Refusal(StrEnum):
    """Why a Spark property is refused; what to do instead."""

    OURS = "it is set for every run"
    FIELD = "it has a field of its own in spec.spark"
    CATALOG = "catalogs belong in spec.catalog or spec.tables[].catalog"
    DOCUMENTS = "it would change the form of the documents"
    SPECULATION = "a task that runs twice could write an old row over a new one"
    DENIED = "spark-operator denies it"


REFUSED_KEYS = {
    "spark.master": Refusal.OURS,
    "spark.app.name": Refusal.OURS,
    "spark.app.id": Refusal.OURS,
    "spark.plugins": Refusal.OURS,
    "spark.scheduler.mode": Refusal.OURS,
    "spark.sql.extensions": Refusal.OURS,
    "spark.sql.defaultCatalog": Refusal.OURS,
    "spark.kubernetes.namespace": Refusal.OURS,
    "spark.kubernetes.driver.pod.name": Refusal.OURS,
    "spark.kubernetes.driver.master": Refusal.DENIED,
    "spark.kubernetes.container.image": Refusal.FIELD,
    "spark.kubernetes.driver.container.image": Refusal.FIELD,
    "spark.kubernetes.executor.container.image": Refusal.FIELD,
    "spark.kubernetes.driver.podTemplateFile": Refusal.FIELD,
    "spark.kubernetes.executor.podTemplateFile": Refusal.FIELD,
    "spark.driver.cores": Refusal.FIELD,
    "spark.driver.memory": Refusal.FIELD,
    "spark.executor.cores": Refusal.FIELD,
    "spark.executor.instances": Refusal.FIELD,
    "spark.executor.memory": Refusal.FIELD,
    "spark.dynamicAllocation.enabled": Refusal.FIELD,
    "spark.dynamicAllocation.minExecutors": Refusal.FIELD,
    "spark.dynamicAllocation.maxExecutors": Refusal.FIELD,
    "spark.python.daemon.module": Refusal.OURS,
    "spark.sql.ansi.enabled": Refusal.DOCUMENTS,
    "spark.sql.caseSensitive": Refusal.DOCUMENTS,
    "spark.sql.jsonGenerator.ignoreNullFields": Refusal.DOCUMENTS,
    "spark.sql.jsonGenerator.writeNullIfWithDefaultValue": Refusal.DOCUMENTS,
    "spark.sql.session.timeZone": Refusal.DOCUMENTS,
    "spark.sql.variable.substitute": Refusal.DOCUMENTS,
}
REFUSED_PREFIXES = {
    "spark.submit.": Refusal.OURS,
    "spark.speculation": Refusal.SPECULATION,
    "spark.sql.catalog.": Refusal.CATALOG,
    "spark.sql.legacy.": Refusal.DOCUMENTS,
    "spark.kubernetes.authenticate.": Refusal.DENIED,
}


def refusal(key: str) -> Refusal | None:
    """Why a pipeline may not set that Spark property; None when it may."""
    found = REFUSED_KEYS.get(key)
    if found is None:
        found = next(
            (why for prefix, why in REFUSED_PREFIXES.items() if key.startswith(prefix)), None
        )
    return found


Memory = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,8}[kKmMgGtT]$", max_length=10)]
Cores = Annotated[Count, Field(ge=1, le=512)]
Template = Annotated[
    dict[str, Any],
    Field(max_length=16, json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}),
]
ServiceAccount = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)
]


class Driver(ApiModel):
    """The driver of a run. In local runs `memory` holds for the one process there is."""

    cores: Cores = 1
    """CPU cores. Default 1."""
    memory: Memory = "1g"
    """JVM heap, a number with the unit k, m, g or t. Default 1g."""
    service_account: ServiceAccount = "icdc-spark"
    """Service account of the driver pod; it creates the executors. Default icdc-spark."""
    template: Template | None = None
    """A PodTemplateSpec that the driver pod is made from: volumes, environment, affinity and so
    on. Its main container is named spark-kubernetes-driver. Default none. Not checked here."""


class Executor(ApiModel):
    """The executors of a run. Without effect in local runs, but for `cores`."""

    instances: Annotated[Count, Field(ge=1, le=1000)] = 2
    """Number of executors. Default 2. With dynamicAllocation, the number at the start."""
    cores: Cores = 2
    """CPU cores of each, and tasks that each runs at a time. Default 2."""
    memory: Memory = "4g"
    """JVM heap of each, a number with the unit k, m, g or t. Default 4g."""
    template: Template | None = None
    """A PodTemplateSpec that the executor pods are made from. Its main container is named
    spark-kubernetes-executor. Default none. Not checked here."""


class HostPath(ApiModel):
    """A directory of the node."""

    path: Annotated[str, StringConstraints(pattern=r"^/", max_length=4096)]
    """Absolute path on the node. Required."""


class EphemeralVolume(ApiModel):
    """A volume that lives as long as its pod."""

    storage_class_name: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = (
        None
    )
    """Storage class. Default: the cluster's own."""
    size: Annotated[
        str,
        StringConstraints(
            pattern=r"^[1-9][0-9]{0,11}(\.[0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$", max_length=24
        ),
    ]
    """Size as a Kubernetes quantity, such as 100Gi. Required."""


LOCAL_VOLUME_RULE = "a local volume is one of hostPath and ephemeral"


class LocalVolume(ApiModel):
    """A node-local volume for shuffle and spill: one of hostPath and ephemeral."""

    host_path: HostPath | None = None
    """A directory of the node. Excludes ephemeral."""
    ephemeral: EphemeralVolume | None = None
    """A volume made for each pod. Excludes hostPath."""

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if (self.host_path is None) == (self.ephemeral is None):
            raise problem(LOCAL_VOLUME_RULE)
        return self


MIN_MAX_RULE = "minExecutors is at most maxExecutors"


class DynamicAllocation(ApiModel):
    """Executors come and go with the work."""

    min_executors: Annotated[Count, Field(le=1000)] = 0
    """Executors that are kept while there is no work. Default 0. At most maxExecutors."""
    max_executors: Annotated[Count, Field(ge=1, le=1000)] = 8
    """Executors at most. Default 8."""

    @model_validator(mode="after")
    def _min_is_at_most_max(self) -> Self:
        if self.min_executors > self.max_executors:
            rule = f"{MIN_MAX_RULE}, which is {self.max_executors}"
            raise not_allowed(self.min_executors, rule, "minExecutors")
        return self


class Spark(ApiModel):
    """The Spark applications of the pipeline."""

    image: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = None
    """Image of driver and executors. Default: the one that the operator was installed with.
    Without effect in local runs."""
    driver: Driver = Driver()
    """The driver. A change takes effect with the next run."""
    executor: Executor = Executor()
    """The executors. A change takes effect with the next run."""
    local_volumes: Annotated[tuple[LocalVolume, ...], Field(max_length=16)] = ()
    """Node-local volumes for shuffle and spill; each becomes spark-local-dir-N. Default empty:
    the root disk of the pods."""
    dynamic_allocation: DynamicAllocation | None = None
    """Lets executors come and go with the work. Default none: always executor.instances."""
    conf: Annotated[dict[str, PropertyValue], Field(max_length=256)] = Field(default_factory=dict)
    """Further Spark properties. Default empty. Refused are those that are set for every run or
    have a field here, those that spark-operator denies, and those that change the documents. JVMs
    collect garbage in parallel unless their extraJavaOptions name another collector."""

    @model_validator(mode="after")
    def _conf_is_free_to_set(self) -> Self:
        for key in self.conf:
            why = refusal(key)
            if why is not None:
                raise problem(f"the property is refused: {why}", "conf", key)
        return self
