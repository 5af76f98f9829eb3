"""The whole operator and real Iceberg tables: runs come when a table has something new."""

import json
from collections.abc import Callable

import pytest

from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_testing.kube import rights
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.operator_process import OperatorProcess
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.lake.catalogs import rest_catalog
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.operator.adapter.stepping import SteppedCluster, make_report
from icdc_testing.operator.deciding.pipelines import make_caught_up

pytestmark = pytest.mark.api

FIRST, SECOND = "shop-e1-1", "shop-c2-1"
POLLS = 5
"""Looks at the table's head that find nothing new."""

Start = Callable[..., OperatorProcess]


def read_status(cluster: SteppedCluster) -> PipelineStatus:
    return parse_status(cluster.pipelines.get("shop").get("status") or {})


def count_reads(operator: OperatorProcess, result: str = "read") -> float:
    return operator.read_metric(f'icdc_head_reads_total{{result="{result}"}}')


def count_unseen(operator: OperatorProcess, cluster: SteppedCluster) -> float:
    labels = f'name="shop",namespace="{cluster.pipelines.namespace}"'
    return operator.read_metric(f"icdc_tables_without_head{{{labels}}}")


def finish_first_run(cluster: SteppedCluster, operator: OperatorProcess, head: str) -> None:
    """Let the first run take in `head` and end well."""
    operator.wait_until(
        lambda: cluster.list_names("sparkapplication") == [FIRST], "the run is created"
    )
    cluster.start_driver(FIRST)
    run = read_status(cluster).current_run
    assert run is not None
    table = make_caught_up("shop.orders", applied_snapshot_id=head, current_snapshot_id=head)
    cluster.report(FIRST, make_report(run, table, finished=True))
    cluster.write_pod_state(FIRST, "Succeeded", {"terminated": {"exitCode": 0}})
    operator.wait_until(lambda: read_status(cluster).last_run is not None, "the run has ended")


def make_pipeline(properties: dict[str, str], **catalog: object) -> dict[str, object]:
    return make_minimal(
        catalog={"properties": properties, **catalog}, changelog={"pollIntervalSeconds": 1}
    )


def test_an_idle_pipeline_has_no_run_until_its_table_has_a_new_snapshot(
    cluster: SteppedCluster, start: Start, lake: HeadLake
) -> None:
    head = lake.commit()
    operator = start()
    cluster.pipelines.apply(make_pipeline(lake.properties))
    finish_first_run(cluster, operator, head)
    operator.wait_until(lambda: count_reads(operator) >= POLLS, "the head is read again and again")
    assert cluster.list_names("sparkapplication") == [FIRST]
    assert (read_status(cluster).current_run, count_unseen(operator, cluster)) == (None, 0)
    newest, before = lake.commit(), count_reads(operator)
    operator.wait_until(
        lambda: SECOND in cluster.list_names("sparkapplication"), "a run is created"
    )
    assert count_reads(operator) - before <= POLLS
    (table,) = read_status(cluster).tables
    assert (table.current_snapshot_id, table.snapshots_behind) == (newest, 1)


def test_secrets_are_read_only_with_the_flag_and_a_run_looks_without_it(
    cluster: SteppedCluster, start: Start, lake: HeadLake, kube: KubeApi
) -> None:
    head = lake.commit()
    granted = rights.read_rules(rights.OPERATOR, rights.CATALOG_SECRETS)
    rights.grant(cluster.pipelines, "operator", granted)
    uri = lake.properties["uri"]
    cluster.pipelines.run_ok("create", "secret", "generic", "lake", f"--from-literal=uri={uri}")
    source = {"propertiesFrom": [{"secretRef": {"name": "lake"}}]}
    without = start("without")
    cluster.pipelines.apply(make_pipeline({"type": "jdbc"}, **source))
    finish_first_run(cluster, without, head)
    without.wait_for_log("was not started with --read-catalog-secrets")
    assert count_unseen(without, cluster) == 1
    without.wait_until(
        lambda: SECOND in cluster.list_names("sparkapplication"), "a run looks instead"
    )
    cluster.pipelines.run_ok("delete", "icdc", "shop")
    assert without.end() == 0
    assert not kube.is_audited or not has_asked_for_secrets(kube, cluster)
    cluster.pipelines.run_ok("delete", "sparkapplications", "--all")
    cluster.pipelines.run_ok("delete", "pods", "--all", "--grace-period=0", "--force")
    with_flag = start("with", "--read-catalog-secrets")
    cluster.pipelines.apply(make_pipeline({"type": "jdbc"}, **source))
    finish_first_run(cluster, with_flag, head)
    with_flag.wait_until(lambda: count_reads(with_flag) >= POLLS, "the head is read")
    assert (count_unseen(with_flag, cluster), count_reads(with_flag, "unseen")) == (0, 0)
    assert uri not in json.dumps(with_flag.log)
    assert not kube.is_audited or has_asked_for_secrets(kube, cluster)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("http://169.254.169.254/latest", "heads.allowHosts"),
        ("{hostile}", "names another server"),
    ],
)
def test_a_catalog_that_leads_elsewhere_is_polled_by_runs(
    uri: str, words: str, cluster: SteppedCluster, start: Start
) -> None:
    with rest_catalog.serve() as hostile:
        impl = {"type": "custom", "impl": "subprocess.Popen", "custom": {"args": ["true"]}}
        overrides = {"auth": impl, "uri": "http://169.254.169.254"}
        hostile.answers["/v1/config"] = (200, {"defaults": {}, "overrides": overrides})
        operator = start()
        properties = {"type": "rest", "uri": uri.format(hostile=hostile.properties["uri"])}
        cluster.pipelines.apply(make_pipeline(properties))
        finish_first_run(cluster, operator, "7")
        operator.wait_for_log(words)
        assert count_unseen(operator, cluster) == 1
        operator.wait_until(
            lambda: SECOND in cluster.list_names("sparkapplication"), "a run looks instead"
        )


def has_asked_for_secrets(kube: KubeApi, cluster: SteppedCluster) -> bool:
    granted = rights.list_rights(rights.CATALOG_SECRETS)
    return granted <= set(kube.list_requests(cluster.pipelines.namespace, "operator"))
