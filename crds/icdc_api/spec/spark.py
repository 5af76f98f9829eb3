"""`spec.spark`: resources of the runs, and further Spark properties."""

import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from icdc_api.base import ApiModel, Count, Flag
from icdc_api.problems import build_problem, build_refusal
from icdc_api.spec.catalog import OBJECT_NAME_FORM, PropertyValue
from icdc_api.spec.spark_conf import find_problem

MEMORY_FORM = r"^[1-9][0-9]{0,8}[kKmMgGtT]$"
SIZE_FORM = r"^[1-9][0-9]{0,11}(\.[0-9]{1,3})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
PATH_FORM = r"^/"


def _check_memory(value: object) -> object:
    # Before the pattern, whose own message would show a regular expression.
    if isinstance(value, str) and not re.fullmatch(MEMORY_FORM, value):
        raise build_refusal(value, "it must be a whole number with the unit k, m, g or t, as 4g")
    return value


# As the JVM takes it for -Xmx, in lower or upper case; not a quantity of Kubernetes, whose Gi the
# JVM does not know.
Memory = Annotated[
    str, StringConstraints(pattern=MEMORY_FORM, max_length=10), BeforeValidator(_check_memory)
]
_TASK_CPUS = "spark.task.cpus"
_COUNTS = (_TASK_CPUS, "spark.task.maxFailures", "spark.default.parallelism")
"""Properties whose value is a number of at least 1. Spark takes others, and fails by them later, or
waits for ever."""
_CPUS = tuple(
    f"spark.kubernetes.{role}.{kind}.cores"
    for role in ("driver", "executor")
    for kind in ("request", "limit")
)
_COUNT = re.compile(r"[1-9][0-9]{0,8}")
_CPU = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?|[0-9]{1,12}[mun]")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# Whole ones, as Spark counts slots for tasks by them; fractions for Kubernetes are set by
# spark.kubernetes.{driver,executor}.request.cores.
Cores = Annotated[Count, Field(ge=1, le=512)]
# Without its schema, which would make the CRD larger than `kubectl apply` can store in its
# annotation (256 KiB). `manifests.pods` of the operator checks it.
Template = Annotated[
    dict[str, Any],
    Field(max_length=16, json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}),
]
ServiceAccount = Annotated[str, StringConstraints(pattern=OBJECT_NAME_FORM, max_length=253)]


def parse_memory(memory: str) -> int:
    """Return the bytes of a `Memory`, such as 1073741824 of "1g"."""
    return int(memory[:-1]) * _UNITS[memory[-1].lower()]


class Driver(ApiModel):
    """The driver of a run. In local runs `memory` holds for the one process there is."""

    cores: Cores = 1
    """CPU cores. Default 1."""
    memory: Memory = "1g"
    """JVM heap, a number with the unit k, m, g or t. Default 1g."""
    service_account: ServiceAccount = "icdc-spark"
    """Service account of the driver pod; it creates the executors. Default icdc-spark."""
    template: Template | None = None
    """A PodTemplateSpec for the driver pod: volumes, environment, affinity and so
    on. Its main container is named spark-kubernetes-driver. Default none. The operator checks it
    against all fields of Kubernetes, and refuses others."""


class Executor(ApiModel):
    """The executors of a run. Without effect in local runs, but for `cores`."""

    instances: Annotated[Count, Field(ge=1, le=1000)] = 2
    """Number of executors. Default 2. With dynamicAllocation, the number at the start."""
    cores: Cores = 2
    """CPU cores of each, and tasks that each runs at a time. Default 2."""
    memory: Memory = "4g"
    """JVM heap of each, a number with the unit k, m, g or t. Default 4g."""
    template: Template | None = None
    """A PodTemplateSpec for the executor pods. Its main container is named
    spark-kubernetes-executor. Default none. Checked as that of the driver."""


class HostPath(ApiModel):
    """A directory of the node."""

    path: Annotated[str, StringConstraints(pattern=PATH_FORM, max_length=4096)]
    """Absolute path on the node. Required."""


class EphemeralVolume(ApiModel):
    """A volume that lives as long as its pod."""

    storage_class_name: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = (
        None
    )
    """Storage class. Default: the cluster's own."""
    size: Annotated[str, StringConstraints(pattern=SIZE_FORM, max_length=24)]
    """Size as a Kubernetes quantity, such as 100Gi. Required."""


LOCAL_VOLUME_RULE = "a local volume must be either hostPath or ephemeral"


class LocalVolume(ApiModel):
    """A node-local volume for shuffle and spill: one of hostPath and ephemeral."""

    host_path: HostPath | None = None
    """A directory of the node, which pods of several pipelines may share. Each pod has a directory
    `icdc-<uuid>` in it; those of pods that have ended are removed by the next pod of the same user.
    Excludes ephemeral."""
    ephemeral: EphemeralVolume | None = None
    """A volume created for each pod. Excludes hostPath."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.host_path is None) == (self.ephemeral is None):
            raise build_problem(LOCAL_VOLUME_RULE)
        return self


MIN_MAX_RULE = "minExecutors must be at most maxExecutors"


class DynamicAllocation(ApiModel):
    """Number of executors by the amount of work."""

    min_executors: Annotated[Count, Field(le=1000)] = 0
    """Executors that stay while there is no work. Default 0. At most maxExecutors."""
    max_executors: Annotated[Count, Field(ge=1, le=1000)] = 8
    """Executors at most. Default 8."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.min_executors > self.max_executors:
            rule = f"{MIN_MAX_RULE}, which is {self.max_executors}"
            raise build_refusal(self.min_executors, rule, "minExecutors")
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
    """Starts and ends executors by the amount of work. Default none: always executor.instances."""
    conf: Annotated[dict[str, PropertyValue], Field(max_length=256)] = Field(default_factory=dict)
    """Further Spark properties. Default empty. Only properties that driver and executors alone act
    on are allowed, such as spark.sql.*, spark.executor.* and spark.hadoop.fs.*:
    docs/spark-properties.md has the list. Jars, other files, class paths, logins and uncommon flags
    of the JVM need a trusted namespace, or a local run. No value may contain a file: URI. JVMs use
    the parallel garbage collector unless their extraJavaOptions name another one."""
    encryption: Flag = True
    """True: driver and executors of a run authenticate each other with a secret, and encrypt their
    traffic and what they write to local disks. False switches all of this off, for networks and
    disks that are already encrypted. Default true. Without effect in local runs, which are one
    process, on loopback."""

    @property
    def most_executors(self) -> int:
        """The number of executors, at most."""
        dynamic = self.dynamic_allocation
        return self.executor.instances if dynamic is None else dynamic.max_executors

    @property
    def task_cpus(self) -> int:
        """CPU cores that each task takes."""
        return int(self.conf.get(_TASK_CPUS, "1"))

    @model_validator(mode="after")
    def _check_conf(self) -> Self:
        for key, value in self.conf.items():
            # Not `find_risk`: which namespaces are trusted is known to the operator alone.
            wrong = find_problem(key, value)
            if wrong is not None:
                raise build_problem(wrong, "conf", key)
            if key in _COUNTS and not _COUNT.fullmatch(value.strip()):
                raise build_refusal(value, "it must be a whole number of at least 1", "conf", key)
            if key in _CPUS and not _CPU.fullmatch(value.strip()):
                rule = "it must be a number of CPUs of Kubernetes, such as 500m or 1.5"
                raise build_refusal(value, rule, "conf", key)
            # The API server refuses that beside a request, and Spark says so in a log alone.
            if key in _CPUS and ".limit." in key and not re.search("[1-9]", value):
                rule = "it must be above 0; only a request may be 0"
                raise build_refusal(value, rule, "conf", key)
        self._check_task_cpus()
        return self

    def _check_task_cpus(self) -> None:
        # Spark does not start where an executor has no room for one task.
        most = self.executor.cores
        if self.task_cpus > most:
            rule = f"it must be at most spec.spark.executor.cores, which is {most}"
            raise build_refusal(self.conf[_TASK_CPUS], rule, "conf", _TASK_CPUS)
