"""`icdc preview NAME` of a pipeline on a real API server, by a Spark on this host."""

import json
from pathlib import Path

import pytest

from icdc_cli import main
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.lake.catalogs.head_lake import HeadLake
from icdc_testing.operator.adapter.stepping import SteppedCluster
from icdc_testing.tables.fields import derive, take

pytestmark = pytest.mark.api


@pytest.mark.usefixtures("person")
def test_a_stored_pipeline_is_previewed_by_whoever_may_read_the_secrets_of_its_catalog(
    cluster: SteppedCluster, lake: HeadLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, pipelines = lake.commit(), cluster.pipelines
    uri = lake.properties["uri"]
    pipelines.run_ok("create", "secret", "generic", "lake", f"--from-literal=uri={uri}")
    catalog = {
        "properties": {"type": "jdbc", "warehouse": f"file://{tmp_path}/warehouse"},
        "propertiesFrom": [{"secretRef": {"name": "lake"}}],
    }
    entry = {
        "name": "shop.orders",
        "identifierColumns": ["id"],
        "routing": ["id"],
        "fields": [take("key.id", "id"), derive("twice", "id * 2")],
    }
    stored = pipelines.apply(make_minimal(catalog=catalog, tables=[entry]))

    assert main.main(["preview", "shop"]) == 2
    assert "spec.catalog.propertiesFrom[0]: " in capsys.readouterr().err
    pipelines.run_ok("create", "role", "lake", "--verb=get", "--resource=secrets")
    account = f"--serviceaccount={pipelines.namespace}:jane"
    pipelines.run_ok("create", "rolebinding", "lake", "--role=lake", account)

    assert main.main(["preview", "shop", "-o", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    document = {"_id": "1", "_routing": "1", "_source": {"key": {"id": 1}, "twice": 2}}
    assert (table["snapshotId"], table["documents"]) == (head, [document])
    assert table["mapping"]["properties"]["twice"] == {"type": "long"}
    # Nothing of it is left in the cluster.
    assert pipelines.get("shop")["metadata"] == stored["metadata"]
    assert cluster.list_names("pod") == []
