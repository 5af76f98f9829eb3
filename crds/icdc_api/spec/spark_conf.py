"""The Spark properties that a pipeline may set: an allow-list, each entry with its reason.

Properties take effect in three places. In driver and executors they affect this pipeline only. In
spark-operator's pod, where spark-submit runs for all tenants, some of them read files, load classes
or fetch archives with that pod's permissions. And some would change what a run writes. So a
property is allowed by name or prefix, and one that is not listed is refused. Messages, the CEL rule
of the CRD and docs/spark-properties.md are generated from the tables here.

An entry that ends with a dot or a star is the beginning of keys, any other one is a whole key.
`{role}` stands for driver and for executor. A key is first looked up in REFUSED, then in TRUSTED,
then in ALLOWED: `spark.network.crypto.enabled` is refused although `spark.network.` is allowed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from icdc_api import naming

Why = TypeVar("Why", bound=StrEnum)

DOCUMENT = "docs/spark-properties.md"


class Refusal(StrEnum):
    """Why a Spark property is refused; what to do instead."""

    OURS = "it is set for every run"
    FIELD = "it has its own field in spec.spark"
    CATALOG = "catalogs belong in spec.catalog or spec.tables[].catalog"
    DOCUMENTS = "it would change the form of the documents"
    SPECULATION = "a task that runs twice could write an old row over a new one"
    DENIED = "spark-operator denies it"
    NAMES = "the operator finds runs and their pods by it; use another key"
    TEMPLATE = "use spec.spark.driver.template or spec.spark.executor.template"
    OPERATOR = "spark-operator would read or send files of its own pod"
    ABSENT = "it needs RocksDB, which is not in the image"


class Risk(StrEnum):
    """Why a Spark property is allowed in trusted namespaces only."""

    FETCHES = "spark-operator fetches or reads what it names, with the permissions of its own pod"
    LOADS = "it names classes or files that are loaded into Spark"
    LOGIN = "it decides who may log in, or with which identity Spark logs in"
    JVM = "it has a flag that is not known to be harmless"


class Use(StrEnum):
    """Purpose of an allowed property, and why it is harmless."""

    SQL = "planning and execution of queries; what changes documents is refused, see below"
    EXECUTOR = "memory, heartbeats, logs and lifetime of executors"
    DRIVER = "memory, ports and limits of the driver"
    MEMORY = "division of the heap, and memory outside of it"
    SHUFFLE = "shuffle, spill and the blocks that executors exchange"
    NETWORK = "time-outs, sizes and threads of the network; encryption is refused, see below"
    TASKS = "scheduling and retries of tasks and stages"
    STORES = "clients of file systems and object stores, which only driver and executors open"
    PODS = "requests, limits, placement and lifetime of pods"
    NAMES = "labels and annotations, as for cost centres and meshes; ours are refused, see below"
    EVENTS = "Spark's event log; its folder is in an object store or HDFS"
    SCREEN = "Spark's pages in the browser; links that end jobs are refused, see below"
    METRICS = "where metrics go"
    LOGS = "level and format of logs"
    PYTHON = "reuse and memory of Python workers"
    JVM = "flags of the JVM that are known to be harmless"


REFUSED: Mapping[Refusal, str] = {
    Refusal.OURS: """spark.master spark.app.* spark.plugins spark.scheduler.mode spark.submit.*
        spark.sql.extensions spark.sql.defaultCatalog spark.kubernetes.namespace
        spark.kubernetes.driver.pod.name spark.python.daemon.module spark.python.worker.module
        spark.pyspark.* spark.redaction.* spark.sql.redaction.* spark.ui.killEnabled""",
    Refusal.FIELD: """spark.kubernetes.container.image spark.kubernetes.{role}.container.image
        spark.kubernetes.{role}.podTemplateFile spark.driver.cores spark.driver.memory
        spark.executor.cores spark.executor.instances spark.executor.memory
        spark.dynamicAllocation.enabled spark.dynamicAllocation.minExecutors
        spark.dynamicAllocation.maxExecutors spark.local.dir spark.authenticate.* spark.authenticate
        spark.network.crypto.* spark.network.sasl.* spark.io.encryption.* spark.io.crypto.*""",
    Refusal.CATALOG: "spark.sql.catalog.*",
    Refusal.DOCUMENTS: """spark.sql.ansi.* spark.sql.caseSensitive spark.sql.parser.*
        spark.sql.mapKeyDedupPolicy spark.sql.decimalOperations.* spark.sql.timestampType
        spark.sql.jsonGenerator.* spark.sql.json.* spark.sql.csv.* spark.sql.function.*
        spark.sql.icu.* spark.sql.columnNameOfCorruptRecord spark.sql.chunkBase64String.*
        spark.sql.variant.allowDuplicateKeys spark.sql.session.timeZone
        spark.sql.variable.substitute spark.sql.legacy.*""",
    Refusal.SPECULATION: "spark.speculation*",
    Refusal.DENIED: "spark.kubernetes.authenticate.* spark.kubernetes.driver.master",
    Refusal.NAMES: " ".join(
        f"spark.kubernetes.{owner}.{kind}.{beginning}*"
        for owner in ("{role}", "driver.service")
        for kind in ("label", "annotation")
        for beginning in naming.RESERVED_KEYS
    ),
    Refusal.TEMPLATE: """spark.kubernetes.driverEnv.* spark.executorEnv.*
        spark.kubernetes.{role}.volumes.* spark.kubernetes.{role}.secrets.*
        spark.kubernetes.{role}.secretKeyRef.*""",
    Refusal.OPERATOR: "spark.kubernetes.file.upload.path spark.jars.ivySettings",
    Refusal.ABSENT: "spark.ui.store.path",
}
"""Refused everywhere, also where a beginning below would allow it, with what to do instead."""

TRUSTED: Mapping[Risk, str] = {
    Risk.FETCHES: "spark.jars spark.jars.* spark.files spark.archives",
    Risk.LOADS: """spark.{role}.extraClassPath spark.{role}.extraLibraryPath
        spark.{role}.userClassPathFirst spark.extraListeners spark.shuffle.manager
        spark.shuffle.sort.io.plugin.class spark.sql.queryExecutionListeners spark.sql.streaming.*
        spark.sql.hive.* spark.sql.artifact.* spark.sql.cache.serializer
        spark.kubernetes.{role}.pod.featureSteps spark.metrics.conf""",
    Risk.LOGIN: """spark.kerberos.* spark.kubernetes.kerberos.* spark.kubernetes.hadoop.*
        spark.security.credentials.* spark.hadoop.hadoop.security.* spark.ssl.* spark.ui.filters
        spark.acls.enable spark.admin.acls spark.admin.acls.groups spark.modify.acls
        spark.modify.acls.groups spark.ui.view.acls spark.ui.view.acls.groups""",
}
"""Useful and dangerous: allowed in namespaces that the operator trusts, and in local runs."""

ALLOWED: Mapping[Use, str] = {
    Use.SQL: "spark.sql.*",
    Use.EXECUTOR: "spark.executor.*",
    Use.DRIVER: """spark.driver.memoryOverhead spark.driver.memoryOverheadFactor
        spark.driver.minMemoryOverhead spark.driver.maxResultSize spark.driver.port
        spark.driver.blockManager.port spark.driver.timeout spark.driver.metrics.pollingInterval
        spark.driver.resource.* spark.driver.log.redirectConsoleOutputs""",
    Use.MEMORY: "spark.memory.* spark.unsafe.* spark.buffer.* spark.cleaner.*",
    Use.SHUFFLE: """spark.shuffle.* spark.reducer.* spark.storage.* spark.broadcast.* spark.rdd.*
        spark.io.* spark.serializer spark.serializer.* spark.kryo.* spark.kryoserializer.*
        spark.decommission.* spark.checkpoint.compress spark.files.*""",
    Use.NETWORK: "spark.network.* spark.rpc.* spark.blockManager.port spark.port.maxRetries",
    Use.TASKS: """spark.task.* spark.stage.* spark.locality.* spark.default.parallelism
        spark.dynamicAllocation.* spark.excludeOnFailure.* spark.scheduler.excludeOnFailure.*
        spark.scheduler.listenerbus.* spark.scheduler.minRegisteredResourcesRatio
        spark.scheduler.maxRegisteredResourcesWaitingTime spark.scheduler.revive.interval""",
    Use.STORES: """spark.hadoop.fs.* spark.hadoop.dfs.* spark.hadoop.ipc.* spark.hadoop.hive.*
        spark.hadoop.parquet.* spark.hadoop.google.cloud.*""",
    Use.PODS: """spark.kubernetes.{role}.request.cores spark.kubernetes.{role}.limit.cores
        spark.kubernetes.memoryOverheadFactor spark.kubernetes.node.selector.*
        spark.kubernetes.{role}.node.selector.* spark.kubernetes.scheduler.name
        spark.kubernetes.{role}.scheduler.name spark.kubernetes.container.image.pullPolicy
        spark.kubernetes.container.image.pullSecrets spark.kubernetes.local.dirs.tmpfs
        spark.kubernetes.allocation.batch.* spark.kubernetes.allocation.maxPendingPods
        spark.kubernetes.allocation.executor.timeout
        spark.kubernetes.allocation.driver.readinessTimeout
        spark.kubernetes.dynamicAllocation.deleteGracePeriod
        spark.kubernetes.executor.terminationGracePeriodSeconds
        spark.kubernetes.executor.deleteOnTermination spark.kubernetes.executor.useDriverPodIP
        spark.kubernetes.executor.missingPodDetectDelta spark.kubernetes.executor.checkAllContainers
        spark.kubernetes.executor.apiPollingInterval
        spark.kubernetes.executor.eventProcessingInterval spark.kubernetes.driver.connectionTimeout
        spark.kubernetes.driver.requestTimeout spark.kubernetes.driver.ownPersistentVolumeClaim
        spark.kubernetes.driver.reusePersistentVolumeClaim
        spark.kubernetes.driver.waitToReusePersistentVolumeClaim
        spark.kubernetes.driver.service.ipFamilies
        spark.kubernetes.driver.service.ipFamilyPolicy""",
    Use.NAMES: """spark.kubernetes.{role}.label.* spark.kubernetes.{role}.annotation.*
        spark.kubernetes.driver.service.label.* spark.kubernetes.driver.service.annotation.*""",
    Use.EVENTS: "spark.eventLog.*",
    Use.SCREEN: "spark.ui.*",
    Use.METRICS: "spark.metrics.*",
    Use.LOGS: "spark.log.* spark.logConf",
    Use.PYTHON: "spark.python.worker.* spark.python.use.daemon spark.python.task.killTimeout",
    Use.JVM: "spark.{role}.extraJavaOptions spark.{role}.defaultJavaOptions",
}
"""Allowed everywhere."""


@dataclass(frozen=True)
class PropertyTable(Generic[Why]):
    """Keys and prefixes of keys, each with its reason."""

    keys: Mapping[str, Why]
    """Reason by whole key."""
    beginnings: Mapping[str, Why]
    """Reason by prefix of keys."""

    @classmethod
    def of(cls, entries: Mapping[Why, str]) -> "PropertyTable[Why]":
        """Return the table for `entries`: names with spaces between them, by their reason."""
        named = [(name, why) for why, names in entries.items() for name in expand_names(names)]
        return cls(
            {name: why for name, why in named if not name.endswith("*")},
            {name.removesuffix("*"): why for name, why in named if name.endswith("*")},
        )

    def find_reason(self, key: str) -> Why | None:
        """Return the reason of the entry for `key`: a whole key first, then a prefix; else None."""
        whole = self.keys.get(key)
        if whole is not None:
            return whole
        return next((why for start, why in self.beginnings.items() if key.startswith(start)), None)


def expand_names(names: str) -> Iterator[str]:
    """Yield the names of one entry; `{role}` yields one for driver and one for executor."""
    for name in names.split():
        if "{role}" in name:
            yield from (name.replace("{role}", role) for role in ("driver", "executor"))
        else:
            yield name


REFUSED_TABLE = PropertyTable.of(REFUSED)
TRUSTED_TABLE = PropertyTable.of(TRUSTED)
ALLOWED_TABLE = PropertyTable.of(ALLOWED)

_KEY = re.compile(r"spark(\.[A-Za-z0-9_*/-]+)+")
"""Form of a key. spark-submit would read one with an equals sign as another key."""

_URI_KEYS = ("spark.jars", "spark.files", "spark.archives", "spark.jars.repositories")
_EVENT_FOLDER = "spark.eventLog.dir"
_URI = re.compile(r"(?!file:|http:|ftp:)[a-z][a-z0-9+.-]*:/[^,]+")
_STORE = re.compile(r"(?!file:|local:|https?:|ftp:)[a-z][a-z0-9+.-]*://[^,]+")
_FILE_URI = re.compile(r"(^|[\s,;=])file:", re.IGNORECASE)
_FOREIGN_VARIABLE = re.compile(r"\$\{(env|system):")

HARMLESS_PROPERTIES = (
    *("aws.region", "file.encoding", "http.nonProxyHosts", "http.proxyHost", "http.proxyPort"),
    *("https.proxyHost", "https.proxyPort", "io.netty.*", "java.io.tmpdir"),
    *("java.net.preferIPv4Stack", "java.net.preferIPv6Addresses", "javax.net.ssl.trustStore"),
    *("javax.net.ssl.trustStorePassword", "javax.net.ssl.trustStoreType", "jdk.tls.*"),
    *("sun.net.inetaddr.ttl", "sun.net.inetaddr.negative.ttl"),
)


def _convert_to_regex(name: str) -> str:
    return name.replace(".", "[.]").replace("*", r"[\w.]+")


HARMLESS_FLAGS: Mapping[str, str] = {
    # OnError, OnOutOfMemoryError, Flags and their like take commands and files, and so are none.
    "-XX:+NAME, -XX:-NAME": r"-XX:[+-][A-Za-z0-9]+",
    "-XX:NAME=NUMBER": r"-XX:[A-Za-z0-9]+=[0-9]+(\.[0-9]+)?[kKmMgGtT]?",
    "-XX:HeapDumpPath=/…, -XX:ErrorFile=/…": r"-XX:(HeapDumpPath|ErrorFile)=/[\w./%-]+",
    "-Xms, -Xmn, -Xss with a size": r"-X(ms|mn|ss)[0-9]+[kKmMgG]?",
    "-Xlog:…": r"-Xlog:[\w.,:=+*/%-]+",
    "-Xshare:auto, on, off": r"-Xshare:(auto|on|off)",
    "-server, -verbose:gc": r"-server|-verbose:gc",
    "--add-opens=…, --add-exports=…, --add-reads=…, --add-modules=…": (
        r"--add-(opens|exports|reads|modules)=[\w.,=/-]+"
    ),
    # No -Dspark.…: that would set any property, past this list.
    f"-D with one of {', '.join(HARMLESS_PROPERTIES)}": (
        rf"-D({'|'.join(map(_convert_to_regex, HARMLESS_PROPERTIES))})=[\w./:|*-]*"
    ),
}
"""Flags of a JVM that every pipeline may set, as they are shown, and an expression for each."""

_JVM_OPTIONS = re.compile(rf"\s*(({'|'.join(HARMLESS_FLAGS.values())})(\s+|$))*")


def find_problem(key: str, value: str) -> str | None:
    """Return why no pipeline may set `key` to `value`; None where one may.

    The value is not repeated, since it may be secret.
    """
    if not _KEY.fullmatch(key):
        return "the key is not allowed: use the name of a Spark property, such as spark.sql.…"
    refused = REFUSED_TABLE.find_reason(key)
    if refused is not None:
        return f"the property is refused: {refused}"
    if TRUSTED_TABLE.find_reason(key) is None and ALLOWED_TABLE.find_reason(key) is None:
        return (
            f"the property is refused: it is not in {DOCUMENT}; allowed are {_suggest_allowed(key)}"
        )
    wrong = _find_value_problem(key, value)
    return None if wrong is None else f"the value is not allowed: {wrong}"


def find_risk(key: str, value: str) -> Risk | None:
    """Return why `key` needs a trusted namespace; None where every pipeline may set it.

    Only for what `find_problem` lets pass.
    """
    if ALLOWED_TABLE.find_reason(key) is Use.JVM and not _JVM_OPTIONS.fullmatch(value):
        return Risk.JVM
    return TRUSTED_TABLE.find_reason(key)


def _find_value_problem(key: str, value: str) -> str | None:
    if _FILE_URI.search(value):
        return "a file: URI is a file of the process that reads it; for the image write local:///…"
    if _FOREIGN_VARIABLE.search(value):
        return "the process that reads a variable would replace it by its own; write the value"
    if key == _EVENT_FOLDER and not _STORE.fullmatch(value):
        return "set the URI of a folder in an object store or HDFS, such as s3a://logs/events"
    if key in _URI_KEYS and not all(map(_URI.fullmatch, re.split(r"\s*,\s*", value.strip()))):
        return "each must be a whole URI, such as s3a://…, https://… or, in the image, local:///…"
    return None


def _suggest_allowed(key: str) -> str:
    """Return the allowed names of the family of `key`, or else all short prefixes."""
    every = sorted(
        [*ALLOWED_TABLE.keys, *(f"{beginning}*" for beginning in ALLOWED_TABLE.beginnings)]
    )
    family = ".".join(key.split(".")[:2])
    near = [name for name in every if name.startswith(f"{family}.")]
    return ", ".join(near or [name for name in every if name.endswith("*") and name.count(".") < 3])
