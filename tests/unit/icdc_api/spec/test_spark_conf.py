"""Which Spark properties a pipeline may set, and where it must be trusted for that."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icdc_api.crd.cel import RULES
from icdc_api.spec import spark_conf
from icdc_api.spec.spark_conf import (
    ALLOWED_TABLE,
    REFUSED_TABLE,
    TRUSTED_TABLE,
    PropertyTable,
    Refusal,
    Risk,
    find_problem,
    find_risk,
)

pytestmark = pytest.mark.unit

USEFUL = [
    ("spark.sql.shuffle.partitions", "400"),
    ("spark.sql.catalogImplementation", "in-memory"),
    ("spark.sql.iceberg.vectorization.enabled", "false"),
    ("spark.executor.memoryOverhead", "1g"),
    ("spark.executor.heartbeatInterval", "10s"),
    ("spark.driver.memoryOverhead", "512m"),
    ("spark.driver.maxResultSize", "2g"),
    ("spark.memory.fraction", "0.7"),
    ("spark.memory.offHeap.enabled", "true"),
    ("spark.shuffle.compress", "true"),
    ("spark.io.compression.codec", "zstd"),
    ("spark.network.timeout", "300s"),
    ("spark.hadoop.fs.s3a.endpoint", "http://minio:9000"),
    ("spark.hadoop.fs.s3a.bucket.my-lake.secret.key", "abc"),
    ("spark.kubernetes.node.selector.node.kubernetes.io/instance-type", "i4i.xlarge"),
    ("spark.kubernetes.executor.node.selector.pool", "spot"),
    ("spark.kubernetes.driver.request.cores", "100m"),
    ("spark.kubernetes.executor.limit.cores", "2"),
    ("spark.kubernetes.container.image.pullPolicy", "Always"),
    ("spark.kubernetes.executor.terminationGracePeriodSeconds", "60s"),
    ("spark.kubernetes.driver.label.team", "retail"),
    ("spark.kubernetes.executor.annotation.sidecar.istio.io/inject", "false"),
    ("spark.dynamicAllocation.executorIdleTimeout", "60s"),
    ("spark.eventLog.enabled", "true"),
    ("spark.eventLog.dir", "s3a://logs/spark-events"),
    ("spark.ui.retainedTasks", "1000"),
    ("spark.ui.prometheus.enabled", "false"),
    ("spark.metrics.namespace", "${spark.app.name}"),
    ("spark.metrics.conf.*.sink.graphite.class", "org.apache.spark.metrics.sink.GraphiteSink"),
    ("spark.default.parallelism", "8"),
    ("spark.files.maxPartitionBytes", "128m"),
    ("spark.executor.extraJavaOptions", ""),
    ("spark.executor.extraJavaOptions", "-XX:+UseG1GC -XX:MaxGCPauseMillis=200 -Xss4m"),
    ("spark.driver.extraJavaOptions", " -Xlog:gc*:file=/tmp/gc.log:time,uptime:filecount=5 "),
    ("spark.driver.extraJavaOptions", "-XX:+HeapDumpOnOutOfMemoryError -XX:HeapDumpPath=/tmp/x"),
    ("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"),
    ("spark.executor.extraJavaOptions", "--add-opens=java.base/java.nio=ALL-UNNAMED"),
    ("spark.executor.extraJavaOptions", "-Djava.net.preferIPv4Stack=true -Dio.netty.tryUnsafe=0"),
]


@pytest.mark.parametrize(("key", "value"), USEFUL)
def test_what_tunes_a_run_is_allowed_everywhere(key: str, value: str) -> None:
    assert (find_problem(key, value), find_risk(key, value)) == (None, None)


RISKY = [
    ("spark.jars", "s3a://lib/a.jar, local:///opt/b.jar", Risk.FETCHES),
    ("spark.jars.packages", "a:b:1", Risk.FETCHES),
    ("spark.jars.repositories", "https://repo.example/maven", Risk.FETCHES),
    ("spark.files", "https://a.example/x", Risk.FETCHES),
    ("spark.archives", "hdfs://a/x.zip#x", Risk.FETCHES),
    ("spark.driver.extraClassPath", "/opt/x.jar", Risk.LOADS),
    ("spark.executor.userClassPathFirst", "true", Risk.LOADS),
    ("spark.kubernetes.driver.pod.featureSteps", "a.B", Risk.LOADS),
    ("spark.sql.queryExecutionListeners", "a.B", Risk.LOADS),
    ("spark.kerberos.keytab", "/x.keytab", Risk.LOGIN),
    ("spark.kerberos.principal", "me", Risk.LOGIN),
    ("spark.ui.filters", "a.LoginFilter", Risk.LOGIN),
    ("spark.ssl.rpc.enabled", "true", Risk.LOGIN),
    *(
        ("spark.driver.extraJavaOptions", options, Risk.JVM)
        for options in (
            "-javaagent:/x.jar",
            "-agentpath:/x.so",
            "-agentlib:jdwp=transport=dt_socket",
            "-XX:OnError=/bin/sh",
            "-XX:+UseG1GC -XX:OnOutOfMemoryError=reboot",
            "-XX:Flags=/tmp/flags",
            "-XX:VMOptionsFile=/tmp/flags",
            "-XX:SharedArchiveFile=/tmp/x.jsa",
            "-XX:HeapDumpPath=/tmp/x;reboot",
            "@/tmp/arguments",
            "-Dspark.jars=s3a://x/y.jar",
            "-Dlog4j2.configurationFile=https://a.example/x",
            '"-XX:OnError=a b"',
            "-Xlog:gc\\",
            "-cp /x.jar",
        )
    ),
]


@pytest.mark.parametrize(("key", "value", "risk"), RISKY)
def test_what_could_act_with_the_rights_of_others_takes_trust(
    key: str, value: str, risk: Risk
) -> None:
    assert (find_problem(key, value), find_risk(key, value)) == (None, risk)


REFUSED = [
    ("spark.sql.extensions", Refusal.OURS),
    ("spark.redaction.regex", Refusal.OURS),
    ("spark.sql.redaction.options.regex", Refusal.OURS),
    ("spark.ui.killEnabled", Refusal.OURS),
    ("spark.submit.deployMode", Refusal.OURS),
    ("spark.kubernetes.namespace", Refusal.OURS),
    ("spark.python.worker.module", Refusal.OURS),
    ("spark.kubernetes.container.image", Refusal.FIELD),
    ("spark.kubernetes.executor.podTemplateFile", Refusal.FIELD),
    ("spark.authenticate", Refusal.FIELD),
    ("spark.authenticate.secret", Refusal.FIELD),
    ("spark.network.crypto.enabled", Refusal.FIELD),
    ("spark.io.encryption.enabled", Refusal.FIELD),
    ("spark.kubernetes.authenticate.driver.oauthToken", Refusal.DENIED),
    ("spark.sql.catalog.lake", Refusal.CATALOG),
    ("spark.sql.session.timeZone", Refusal.DOCUMENTS),
    ("spark.sql.legacy.timeParserPolicy", Refusal.DOCUMENTS),
    ("spark.sql.parser.quotedRegexColumnNames", Refusal.DOCUMENTS),
    ("spark.sql.ansi.doubleQuotedIdentifiers", Refusal.DOCUMENTS),
    ("spark.sql.mapKeyDedupPolicy", Refusal.DOCUMENTS),
    ("spark.sql.decimalOperations.allowPrecisionLoss", Refusal.DOCUMENTS),
    ("spark.sql.timestampType", Refusal.DOCUMENTS),
    ("spark.sql.function.concatBinaryAsString", Refusal.DOCUMENTS),
    ("spark.sql.icu.caseMappings.enabled", Refusal.DOCUMENTS),
    ("spark.sql.json.enablePartialResults", Refusal.DOCUMENTS),
    ("spark.sql.columnNameOfCorruptRecord", Refusal.DOCUMENTS),
    ("spark.sql.variant.allowDuplicateKeys", Refusal.DOCUMENTS),
    ("spark.speculation", Refusal.SPECULATION),
    ("spark.speculation.multiplier", Refusal.SPECULATION),
    ("spark.kubernetes.driver.label.icebergcdc.dev/run", Refusal.NAMES),
    ("spark.kubernetes.executor.annotation.icebergcdc.dev/epoch", Refusal.NAMES),
    ("spark.kubernetes.driver.label.app.kubernetes.io/managed-by", Refusal.NAMES),
    ("spark.kubernetes.executor.label.sparkoperator.k8s.io/app-name", Refusal.NAMES),
    ("spark.kubernetes.driver.service.label.icebergcdc.dev/pipeline", Refusal.NAMES),
    ("spark.kubernetes.driverEnv.POD_NAME", Refusal.TEMPLATE),
    ("spark.kubernetes.driver.volumes.hostPath.x.mount.path", Refusal.TEMPLATE),
    ("spark.kubernetes.file.upload.path", Refusal.OPERATOR),
    ("spark.jars.ivySettings", Refusal.OPERATOR),
    ("spark.ui.store.path", Refusal.ABSENT),
]


@pytest.mark.parametrize(("key", "why"), REFUSED)
def test_what_would_break_a_run_is_refused_with_what_to_do_instead(key: str, why: Refusal) -> None:
    assert find_problem(key, "x") == f"the property is refused: {why}"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("spark.deploy.recoveryMode", "spark.sql.*"),
        ("spark.driver.host", "spark.driver.memoryOverhead, "),
        ("spark.hadoop.mapreduce.x", "spark.hadoop.fs.*, "),
        ("spark.driverx", "spark.sql.*"),
        ("spark.kubernetes.context", "spark.kubernetes.driver.label.*"),
    ],
)
def test_what_is_not_listed_is_refused_with_the_names_near_it(key: str, near: str) -> None:
    result = find_problem(key, "x") or ""
    start = "the property is refused: it is not in docs/spark-properties.md; allowed are "
    assert result.startswith(start)
    assert near in result
    assert key not in result


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.x=1 --conf spark.jars",
        " spark.sql.x",
        "spark.sql.x\n",
        "spark.sql.",
        "spark",
        "hive.x",
        "",
    ],
)
def test_what_is_no_name_of_a_property_is_refused(key: str) -> None:
    assert (find_problem(key, "x") or "").startswith("the key is not allowed")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("spark.files", "file:///var/run/secrets/kubernetes.io/serviceaccount/token", "file: URI"),
        ("spark.jars", "s3a://a/b.jar, FILE:/x.jar", "file: URI"),
        ("spark.eventLog.dir", "file:/tmp", "file: URI"),
        ("spark.hadoop.fs.defaultFS", "file:///", "file: URI"),
        ("spark.sql.warehouse.dir", "file:/x", "file: URI"),
        ("spark.jars", "x.jar", "whole URI"),
        ("spark.jars", "/opt/x.jar", "whole URI"),
        ("spark.jars", "local:///a.jar,,local:///b.jar", "whole URI"),
        ("spark.jars", "", "whole URI"),
        ("spark.files", "http://a.example/x", "whole URI"),
        ("spark.archives", "../x.zip", "whole URI"),
        ("spark.jars.repositories", "http://repo.example/maven", "whole URI"),
        ("spark.eventLog.dir", "/tmp/spark-events", "an object store"),
        ("spark.eventLog.dir", "https://a.example/x", "an object store"),
        ("spark.eventLog.dir", "local:///x", "an object store"),
        ("spark.kubernetes.driver.request.cores", "${env:AWS_SECRET_ACCESS_KEY}", "variable"),
        ("spark.sql.x", "a${system:user.home}", "variable"),
    ],
)
def test_a_value_that_names_what_is_elsewhere_is_refused_and_not_repeated(
    key: str, value: str, why: str
) -> None:
    result = find_problem(key, value) or ""
    assert result.startswith("the value is not allowed: ")
    assert why in result
    assert value == "" or value not in result


NAMES = sorted(
    {*ALLOWED_TABLE.keys, *TRUSTED_TABLE.keys, *REFUSED_TABLE.keys}
    | {
        f"{beginning}{end}"
        for table in (ALLOWED_TABLE, TRUSTED_TABLE, REFUSED_TABLE)
        for beginning in table.beginnings
        for end in ("", "x", "a.b/c")
    }
)
ALLOWING, REFUSING = (
    re.findall(r"matches\('([^']+)'\)", rule.rule)[0]
    for rule in RULES
    if rule.path == "spec.spark.conf"
)


@given(key=st.sampled_from(NAMES) | st.from_regex(r"spark(\.[a-z]{1,9}){1,3}", fullmatch=True))
def test_the_server_refuses_the_keys_that_we_refuse(key: str) -> None:
    for name in (key, key[:-1], f"{key}s", key.rsplit(".", 1)[0]):
        listed = TRUSTED_TABLE.find_reason(name) or ALLOWED_TABLE.find_reason(name)
        ours = listed is not None and REFUSED_TABLE.find_reason(name) is None
        assert ours == bool(re.search(ALLOWING, name) and not re.search(REFUSING, name)), name


def test_no_entry_is_without_effect() -> None:
    """None is hidden by an entry that is looked at before it, or by a beginning beside it."""
    tables: tuple[PropertyTable[Any], ...] = (REFUSED_TABLE, TRUSTED_TABLE, ALLOWED_TABLE)
    for position, table in enumerate(tables):
        for name in (*table.keys, *table.beginnings):
            assert all(before.find_reason(name) is None for before in tables[:position]), name
            why = table.find_reason(name)
            beside = [
                other
                for other, reason in table.beginnings.items()
                if other != name and (reason is why or name in table.beginnings)
            ]
            assert not any(name.startswith(start) for start in beside), name


def test_every_reason_is_used() -> None:
    assert set(spark_conf.REFUSED) == set(Refusal)
    assert set(spark_conf.TRUSTED) | {Risk.JVM} == set(Risk)
    assert set(spark_conf.ALLOWED) == set(spark_conf.Use)
