"""The samples on a real server: good ones mean there what they mean here, bad ones are refused."""

import pytest

from icdc_api.crd.cel import RULES
from icdc_api.crd.loading import parse_pipeline
from icdc_testing.kube.api_server import SHOWN_OBJECT, KubeApi
from icdc_testing.kube.kubectl import Ran
from icdc_testing.kube.stored_pipelines import (
    SAMPLES,
    Pipelines,
    load_pipeline,
    load_sample,
    make_minimal,
)

pytestmark = pytest.mark.api

GOOD = sorted(path.stem for path in SAMPLES.glob("*.yaml"))
BAD = sorted(path.stem for path in (SAMPLES / "bad").glob("*.yaml"))

# What the definition refuses by a rule: the message is ours.
BY_RULE = {
    "append-only-with-key": "spec.tables[].identifierColumns is excluded by appendOnly",
    "append-only-with-routing": "spec.tables[].routing is excluded by appendOnly",
    "catalog-without-type": "spec.catalog.properties: a catalog needs the property type or",
    "conf-catalog": "spec.spark.conf: properties are refused if they are set",
    "conf-denied": "spec.spark.conf: properties are refused if they are set",
    "conf-documents": "spec.spark.conf: properties are refused if they are set",
    "conf-encryption": "spec.spark.conf: properties are refused if they are set",
    "conf-label": "spec.spark.conf: properties are refused if they are set",
    "conf-not-listed": "spec.spark.conf: properties that are not in docs/spark-prop",
    "conf-of-every-run": "spec.spark.conf: properties are refused if they are set",
    "conf-speculation": "spec.spark.conf: properties are refused if they are set",
    "conf-upload": "spec.spark.conf: properties are refused if they are set",
    "conf-with-a-field": "spec.spark.conf: properties are refused if they are set",
    "executors-order": "spec.spark.dynamicAllocation: ",
    "export-only-continuous": "spec.changelog.trigger: Continuous is excluded by spec.mode",
    "export-window": "spec.sink.opensearch.limits.exportWindow: it must be HH:MM-HH:MM",
    "identifier-twice": "spec.tables[].identifierColumns: columns must be unique",
    "index-bytes": "spec.tables[].index: an index name is in lower case",
    "index-character": "spec.tables[].index: an index name is in lower case",
    "index-dots": "spec.tables[].index: an index name is in lower case",
    "index-first-character": "spec.tables[].index: an index name is in lower case",
    "index-of-the-state": "and icdc-state is reserved",
    "index-upper-case": "spec.tables[].index: an index name is in lower case",
    "local-volume": "spec.spark.localVolumes[]: a local volume must be either",
    "name-form": "metadata.name: at most 40 characters",
    "name-length": "metadata.name: at most 40 characters",
    "no-catalog": "spec.catalog: required unless every table has a catalog of its own",
    "pipeline-without-name": "spec.sink.opensearch.pipeline.name: name the pipeline that adds",
    "proof-too-often": "spec.verify.every: it must be a number with the unit m, h or d, from 10m",
    "resync-table": "spec.resync.tables: each must be the name of a table in spec.tables",
    "retry-order": "spec.retry.initialSeconds must be at most maxSeconds",
    "routing-by-another-column": "spec.tables[].routing: only columns of identifierColumns",
    "routing-twice": "spec.tables[].routing: columns must be unique",
    "start-from-mode": "spec.tables[].startFrom: allowed only with spec.mode StreamOnly",
    "start-from-two": "spec.tables[].startFrom: set exactly one of position, snapshotId",
    "table-name": "spec.tables[].name: it must be namespace.table",
}
# What the definition refuses by its schema: the words are those of the server.
BY_SCHEMA = {
    "column-twice": 'spec.tables[0].columns[2]: Duplicate value: "id"',
    "empty-tables": "spec.tables in body should have at least 1 items",
    "enum": 'spec.mode: Unsupported value: "Stream"',
    "host-form": "spec.sink.opensearch.hosts[0] in body should match",
    "host-with-password": "spec.sink.opensearch.hosts[0] in body should match",
    "list-instead-of-text": "spec.tables[0].index in body must be of type string",
    "memory": "spec.spark.executor.memory in body should match",
    "negative-nonce": "spec.restartNonce in body should be greater than or equal to 0",
    "no-hosts": "spec.sink.opensearch.hosts in body should have at least 1 items",
    "no-spec": "spec: Required value",
    "no-tables": "spec.tables: Required value",
    "number-in-quotes": "spec.restartNonce in body must be of type integer",
    "property-not-text": "spec.catalog.properties.cache-enabled in body must be of type string",
    "range": "spec.changelog.pollIntervalSeconds in body should be greater than or equal to 1",
    "secret-name": "spec.sink.opensearch.credentialsFrom.secretRef.name in body should match",
    "snake-case": 'unknown field "spec.tables[0].append_only"',
    "start-from-day": "spec.tables[0].startFrom.timestamp in body must be of type date-time",
    "start-from-number": "spec.tables[0].startFrom.timestamp in body must be of type date-time",
    "start-from-zone": "spec.tables[0].startFrom.timestamp in body must be of type date-time",
    "table-name-twice": f'spec.tables[1]: Duplicate value: {SHOWN_OBJECT}{{"name":"shop.orders"}}',
    "text-instead-of-list": "spec.tables[0].columns in body must be of type array",
    "unknown-field": 'unknown field "spec.tables[0].identiferColumns"',
    "unknown-field-elsewhere": 'unknown field "spec.sink.opensearch.bulk.size"',
    "wrong-type": "spec.retry.maxAttempts in body must be of type integer",
}
# What never comes as far as the definition: kubectl cannot read it, or the kind is another.
BY_KUBECTL = {
    "api-version": 'no matches for kind "IcebergCDCPipeline" in version "icebergcdc.dev/v1"',
    "empty": "no objects passed to create",
    "kind": 'no matches for kind "IcebergCdcPipeline"',
    "list": "invalid object to validate",
    "not-yaml": "error converting YAML to JSON",
}
# The rules that no bad sample shows; their tests are below and among those of updates.
ELSEWHERE = (
    "spec.tables[].catalog.properties: a catalog needs the property type or",
    "spec.restartNonce cannot be lowered",
    "spec.resync.nonce cannot be lowered",
)
# What a server takes, so that only our own check finds it, and why no rule can.
BY_US_ALONE = {
    "conf-file-uri": "a rule would look through every value of up to 4096 characters",
    "default-index-twice": "the default name of an index is not made by the server",
    "host-twice": "hosts are the same when only a closing slash differs",
    "index-of-another": "a rule would compare every index with names made from every other",
    "index-twice": "a rule would compare every index with every other",
    "index-setting-partitions": "settings may be nested or flat, and have no schema",
    "index-setting-pipeline": "settings may be nested or flat, and have no schema",
    "index-setting-translog": "settings may be nested or flat, and have no schema",
    "key-twice": "kubectl sends only the last of the values",
    "no-default-index": "the default name of an index is not made by the server",
    "two-documents": "to kubectl these are two pipelines",
    "variable-not-set": "variables are a matter of local runs",
}
# What a pipeline that gives only its catalog, a table and a host has besides.
DEFAULTS = {
    "suspend": False,
    "mode": "ExportAndStream",
    "tables": [{"name": "shop.orders", "branch": "main", "appendOnly": False}],
    "changelog": {
        "trigger": "OnCommit",
        "pollIntervalSeconds": 10,
        "maxBytesPerBatch": 17179869184,
        "onGap": "Reexport",
        "onIncompatibleSchema": "Reexport",
        "pinSnapshots": "Auto",
    },
    "sink": {
        "opensearch": {
            "hosts": ["https://search:9200"],
            "tls": {"insecureSkipVerify": False},
            "bulk": {"maxBytes": 8388608, "maxInFlight": 2},
            "deadLetters": {"policy": "Index", "maxRows": 10000},
        }
    },
    "spark": {
        "driver": {"cores": 1, "memory": "1g", "serviceAccount": "icdc-spark"},
        "executor": {"instances": 2, "cores": 2, "memory": "4g"},
        "encryption": True,
    },
    "retry": {"maxAttempts": 8, "initialSeconds": 10, "maxSeconds": 600},
    "timeouts": {"startSeconds": 600, "runSeconds": 0, "deleteSeconds": 3600},
    "resync": {"nonce": 0, "mode": "Export"},
    "restartNonce": 0,
    "deletionPolicy": "Retain",
    "history": {"successful": 3, "failed": 5},
}
REFUSED = BY_RULE | BY_SCHEMA | BY_KUBECTL


def _try_to_create(kube: KubeApi, name: str) -> Ran:
    """As `kubectl create` and `kubectl apply` do it, except that nothing is kept."""
    path = SAMPLES / "bad" / f"{name}.yaml"
    return kube.kubectl.run("create", "--dry-run=server", "-n", "default", "-f", str(path))


def test_every_bad_sample_stands_in_one_table() -> None:
    assert sorted([*BY_RULE, *BY_SCHEMA, *BY_KUBECTL, *BY_US_ALONE]) == BAD


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_bad_sample_is_refused_with_a_message_that_names_the_field(
    kube: KubeApi, name: str
) -> None:
    ran = _try_to_create(kube, name)
    assert ran.code != 0
    assert REFUSED[name] in ran.err


@pytest.mark.parametrize("name", sorted(BY_US_ALONE))
def test_a_bad_sample_that_the_server_takes_is_one_of_those_we_know(
    kube: KubeApi, name: str
) -> None:
    ran = _try_to_create(kube, name)
    assert ran.code == 0, ran.err


def test_a_table_with_a_catalog_of_its_own_needs_its_type_too(pipelines: Pipelines) -> None:
    table = {"name": "shop.orders", "catalog": {"properties": {"uri": "http://catalog:8181"}}}
    ran = pipelines.try_to_apply(make_minimal(tables=[table]))
    assert ran.code != 0
    assert "spec.tables[].catalog.properties: a catalog needs the property type or" in ran.err


def test_as_many_properties_as_there_may_be_are_not_too_many_for_the_rules(
    pipelines: Pipelines,
) -> None:
    properties = {
        f"spark.sql.optimizer.some.very.long.name.of.a.property.{n}": "1" for n in range(256)
    }
    ran = pipelines.try_to_apply(make_minimal(spark={"conf": properties}))
    assert ran.code == 0, ran.err


def test_every_rule_is_seen_to_refuse() -> None:
    seen = [*BY_RULE.values(), *ELSEWHERE]
    unseen = [rule.message for rule in RULES if not any(word in rule.message for word in seen)]
    assert unseen == []


@pytest.mark.parametrize("name", GOOD)
def test_a_good_sample_means_on_the_server_what_it_means_in_a_file(
    pipelines: Pipelines, name: str
) -> None:
    path = SAMPLES / f"{name}.yaml"
    pipelines.run_ok("apply", "-f", str(path))
    wanted = load_pipeline(path, {})
    stored = pipelines.get(wanted.metadata.name)
    assert parse_pipeline(stored, source="the server").spec == wanted.spec


def test_what_is_left_out_is_stored_with_its_default(pipelines: Pipelines) -> None:
    given = load_sample("minimal")["spec"]
    stored = pipelines.apply(load_sample("minimal"))["spec"]
    assert stored.pop("catalog") == {"name": "lake", **given["catalog"]}
    assert stored == DEFAULTS
