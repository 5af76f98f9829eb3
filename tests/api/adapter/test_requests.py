"""What `ClusterApi` relies on, shown by a real API server."""

import json
from typing import Any

import pytest

from icdc_api import naming
from icdc_operator.cluster.kube import api as cluster_api
from icdc_operator.cluster.kube import api_errors, kinds
from icdc_testing.kube.api_server import KubeApi
from icdc_testing.kube.stored_pipelines import Resource, make_minimal
from icdc_testing.operator.adapter.stepping import SteppedCluster

pytestmark = pytest.mark.api


def _make_config_map(admin: SteppedCluster, name: str = "one", **more: Any) -> Resource:
    metadata = {"name": name, "namespace": admin.pipelines.namespace, **more}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


def test_a_status_is_replaced_whole_and_nothing_else_is(admin: SteppedCluster) -> None:
    before = admin.pipelines.apply(make_minimal())
    first = admin.ask(
        lambda api: api.replace_status(before, {"phase": "Pending", "mode": "Export"})
    )
    second = admin.ask(lambda api: api.replace_status(first, {"phase": "Streaming"}))
    assert "mode" in first["status"]
    assert "mode" not in second["status"]
    assert second["status"]["phase"] == "Streaming"
    assert second["spec"] == before["spec"]
    assert second["metadata"]["generation"] == before["metadata"]["generation"]


def test_a_stale_writer_of_a_status_gets_a_conflict(admin: SteppedCluster) -> None:
    before = admin.pipelines.apply(make_minimal())
    admin.ask(lambda api: api.replace_status(before, {"phase": "Streaming"}))
    with pytest.raises(api_errors.Conflict):
        admin.ask(lambda api: api.replace_status(before, {"phase": "Pending"}))
    assert admin.pipelines.get()["status"]["phase"] == "Streaming"


def test_the_status_of_a_pipeline_that_was_made_anew_is_not_written(admin: SteppedCluster) -> None:
    before = admin.pipelines.apply(make_minimal())
    admin.pipelines.run_ok("delete", "icdc", "shop")
    with pytest.raises(api_errors.NotFound):
        admin.ask(lambda api: api.replace_status(before, {"phase": "Streaming"}))
    admin.pipelines.apply(make_minimal())
    with pytest.raises(api_errors.Conflict):
        admin.ask(lambda api: api.replace_status(before, {"phase": "Streaming"}))
    assert admin.pipelines.get()["status"] == {"observedGeneration": -1}


def test_what_the_schema_refuses_is_invalid(admin: SteppedCluster) -> None:
    before = admin.pipelines.apply(make_minimal())
    with pytest.raises(api_errors.Invalid, match="phase"):
        admin.ask(lambda api: api.replace_status(before, {"phase": "Nonsense"}))


def test_an_object_is_created_once(admin: SteppedCluster) -> None:
    wanted = _make_config_map(admin)
    made = admin.ask(lambda api: api.create(wanted))
    with pytest.raises(api_errors.Conflict, match="already exists"):
        admin.ask(lambda api: api.create(wanted))
    namespace = admin.pipelines.namespace
    assert admin.ask(lambda api: api.get(kinds.CONFIG_MAP, namespace, "one")) == made
    assert admin.ask(lambda api: api.get(kinds.CONFIG_MAP, namespace, "two")) is None


def test_only_the_object_of_that_uid_is_deleted_and_one_that_is_gone_is_fine(
    admin: SteppedCluster,
) -> None:
    made = admin.ask(lambda api: api.create(_make_config_map(admin)))
    namespace, uid = admin.pipelines.namespace, made["metadata"]["uid"]

    def delete(uid: str) -> None:
        admin.ask(lambda api: api.delete(kinds.CONFIG_MAP, namespace, "one", uid=uid))

    delete("another")
    assert admin.ask(lambda api: api.get(kinds.CONFIG_MAP, namespace, "one")) is not None
    delete(uid)
    delete(uid)
    assert admin.ask(lambda api: api.get(kinds.CONFIG_MAP, namespace, "one")) is None


def test_a_stale_replacement_is_a_conflict_and_a_merge_is_not(admin: SteppedCluster) -> None:
    made = admin.ask(lambda api: api.create(_make_config_map(admin)))
    namespace = admin.pipelines.namespace
    merged = admin.ask(
        lambda api: api.merge_patch(kinds.CONFIG_MAP, namespace, "one", {"data": {"c": "d"}})
    )
    assert merged["data"] == {"a": "b", "c": "d"}
    with pytest.raises(api_errors.Conflict):
        admin.ask(lambda api: api.replace(made))


def test_a_list_of_several_pages_is_whole(
    admin: SteppedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"shop-{letter}" for letter in "abcde"]
    for name in names:
        admin.pipelines.apply(make_minimal(name))
    monkeypatch.setattr(cluster_api, "PAGE_SIZE", 2)
    namespace = admin.pipelines.namespace
    listed = admin.ask(lambda api: api.list_objects(kinds.PIPELINE, namespace))
    assert [item["metadata"]["name"] for item in listed] == names
    assert {item["kind"] for item in listed} == {naming.KIND}
    assert [call for call in admin.counted if call[0] == "list"] == [
        ("list", naming.PLURAL, 200)
    ] * 3
    bare = admin.ask(
        lambda api: api.list_objects(kinds.PIPELINE, namespace, accept=cluster_api.METADATA_ONLY)
    )
    assert [item["metadata"]["resourceVersion"] for item in bare] == [
        item["metadata"]["resourceVersion"] for item in listed
    ]
    assert not any("spec" in item for item in bare)
    everywhere = admin.ask(lambda api: api.list_objects(kinds.PIPELINE, None))
    assert set(names) <= {item["metadata"]["name"] for item in everywhere}


def test_an_event_is_shown_with_its_pipeline_and_told_once(admin: SteppedCluster) -> None:
    pipeline = admin.pipelines.apply(make_minimal())

    def post() -> None:
        admin.ask(
            lambda api: api.create_event(
                pipeline, name="shop.1", reason="RunPlanned", message="é" * 2000, warning=False
            )
        )

    post()
    with pytest.raises(api_errors.Conflict):
        post()
    shown = json.loads(
        admin.pipelines.run_ok("events", "--for", "icebergcdcpipeline/shop", "-o", "json")
    )
    (event,) = shown["items"]
    assert (event["reason"], event["type"]) == ("RunPlanned", "Normal")
    assert event["involvedObject"]["uid"] == pipeline["metadata"]["uid"]
    assert "RunPlanned" in admin.pipelines.run_ok("describe", "icdc", "shop")


def test_who_may_not_is_told_so(admin: SteppedCluster, kube: KubeApi) -> None:
    path = kube.write_kubeconfig_for(admin.pipelines.namespace, "default")
    nobody = SteppedCluster(path, admin.pipelines)
    with pytest.raises(api_errors.Denied, match="cannot list"):
        nobody.ask(lambda api: api.list_objects(kinds.PIPELINE, admin.pipelines.namespace))
    assert nobody.counted == [("list", naming.PLURAL, 403)]
    nobody.kubeconfig = path.with_name("wrong-token")
    nobody.kubeconfig.write_text(
        json.dumps(
            {**json.loads(path.read_text()), "users": [{"name": "tests", "user": {"token": "x"}}]}
        )
    )
    with pytest.raises(api_errors.Denied):
        nobody.ask(lambda api: api.list_objects(kinds.PIPELINE, admin.pipelines.namespace))


def test_the_log_of_a_pod_that_is_not_there_is_not_found(admin: SteppedCluster) -> None:
    with pytest.raises(api_errors.NotFound):
        admin.ask(lambda api: api.read_log(admin.pipelines.namespace, "none", 10))


def test_the_api_server_says_where_it_is(admin: SteppedCluster) -> None:
    hosts = admin.ask(lambda api: api.list_server_hosts())
    assert hosts
    assert all(host and ":6443" not in host for host in hosts)
