"""Each thing that can be wrong with OpenSearch is named with its cure, one at a time."""

import json
from dataclasses import replace
from typing import Any

import pytest

from icdc_api.errors import TargetUnavailable, Unauthorized
from icdc_cli.doctor.findings import Finding, Result
from icdc_cli.doctor.host import target_checks
from icdc_cli.doctor.host.probes import list_probes
from icdc_cli.doctor.host.target_checks import RawReply, Right, TargetFacts, list_blocks
from icdc_cli.doctor.host.target_facts import read_target
from icdc_testing import ROOT
from icdc_testing.operator.deciding.pipelines import make_spec

pytestmark = pytest.mark.unit

HOST = "https://search:9200"
DELETE = Right("indices:admin/delete", "orders-*")
REFUSED = {"error": {"type": "security_exception", "reason": "no permissions for [...]"}}


def make_root_reply(number: str, distribution: str | None = "opensearch") -> RawReply:
    named = {} if distribution is None else {"distribution": distribution}
    return RawReply(200, {"version": {"number": number, **named}})


GOOD = TargetFacts(
    hosts=(HOST,),
    secret="search",
    root=make_root_reply("3.8.0"),
    login=RawReply(200, {"user_name": "icdc", "roles": ["iceberg-cdc"]}),
    rights={DELETE: RawReply(404, {"error": {"type": "index_not_found_exception"}})},
    health=RawReply(200, {"status": "green"}),
    disks=RawReply(200, [{"node": "n1", "disk.percent": "41"}, {"node": "UNASSIGNED"}]),
    settings=RawReply(200, {"orders-000001": {"settings": {}}}),
)


def fill_disk(percent: int) -> TargetFacts:
    return replace(GOOD, disks=RawReply(200, [{"node": "n1", "disk.percent": str(percent)}]))


def block_index(name: str) -> TargetFacts:
    return replace(GOOD, settings=RawReply(200, {"orders-000001": {"settings": {name: "true"}}}))


def list_bad(facts: TargetFacts) -> list[Finding]:
    return [one for one in target_checks.list_findings(facts) if one.result is not Result.OK]


def test_an_opensearch_in_which_all_is_well_has_no_finding_but_ok() -> None:
    assert list_bad(GOOD) == []
    assert list_bad(TargetFacts(hosts=("embedded",))) == []


@pytest.mark.parametrize(
    ("broken", "result", "check", "observation", "cure"),
    [
        (TargetFacts((HOST,), root=TargetUnavailable("cannot be reached")), "Problem",
         f"OpenSearch at {HOST}", "cannot be reached", f"curl -v {HOST}"),
        (TargetFacts((HOST,), root=Unauthorized("The TLS certificate is not trusted")), "Problem",
         f"OpenSearch at {HOST}", "TLS certificate", "certificate"),
        (TargetFacts((HOST,), secret="search", root=RawReply(401)), "Problem",
         f"OpenSearch at {HOST}", "does not accept the credentials", "the Secret search"),
        (TargetFacts((HOST,), root=RawReply(401)), "Problem",
         f"OpenSearch at {HOST}", "does not accept the credentials", "credentialsFrom"),
        (TargetFacts((HOST,), root=RawReply(502)), "Problem",
         f"OpenSearch at {HOST}", "answered 502", f"curl {HOST}"),
        (TargetFacts((HOST,)), "NotChecked",
         f"OpenSearch at {HOST}", "see the problems above", ""),
        (replace(GOOD, root=RawReply(403)), "NotChecked",
         f"OpenSearch at {HOST}", "may not be read", "cluster:monitor/main"),
        (replace(GOOD, root=make_root_reply("8.15.0", None)), "Problem",
         f"OpenSearch at {HOST}", "Elasticsearch", "OpenSearch 2.19 or newer"),
        (replace(GOOD, root=make_root_reply("2.11.1")), "Warning",
         f"OpenSearch at {HOST}", "older than what is tested", "upgrade"),
        (replace(GOOD, root=make_root_reply("7.10.2")), "Warning",
         f"OpenSearch at {HOST}", "disguises itself", "override_main_response_version"),
        (TargetFacts(("https://x.eu-west-1.aoss.amazonaws.com",), root=RawReply(404)), "Problem",
         "OpenSearch at https://x.eu-west-1.aoss.amazonaws.com", "Serverless", "a domain of"),
        (TargetFacts((HOST,), aws_service="aoss", root=RawReply(404)), "Problem",
         f"OpenSearch at {HOST}", "Serverless", "a domain of"),
        (replace(GOOD, login=RawReply(404)), "NotChecked", "OpenSearch user",
         "no security plugin", ""),
        (replace(GOOD, login=RawReply(500)), "NotChecked", "OpenSearch user",
         "the security plugin answered 500", ""),
        (replace(GOOD, settings=RawReply(403, REFUSED)), "NotChecked", "blocks of indices",
         "the settings may not be read (403)", ""),
        (replace(GOOD, rights={DELETE: RawReply(403, REFUSED)}), "Problem",
         "permission indices:admin/delete", "for the indices orders-*",
         "add indices:admin/delete to a role of icdc"),
        (replace(GOOD, rights={DELETE: None}), "NotChecked", "permissions in OpenSearch",
         "no harmless request needs indices:admin/delete", "docs/opensearch-role.md"),
        (replace(GOOD, health=RawReply(200, {"status": "red"})), "Problem", "OpenSearch health",
         "red", "allocation/explain"),
        (replace(GOOD, health=RawReply(200, {"status": "yellow"})), "Warning", "OpenSearch health",
         "yellow", "allocation/explain"),
        (replace(GOOD, health=RawReply(403)), "NotChecked", "OpenSearch health", "may not", ""),
        (fill_disk(97), "Problem", "disk of the node n1", "97 % are used",
         "free or add disk space"),
        (fill_disk(88), "Warning", "disk of the node n1", "88 % are used",
         "free or add disk space"),
        (replace(GOOD, disks=RawReply(403, REFUSED)), "NotChecked", "OpenSearch disks", "403",
         "_cat/allocation"),
        (block_index("index.blocks.read_only_allow_delete"), "Problem",
         "blocks of the index orders-000001", "index.blocks.read_only_allow_delete",
         '{"index.blocks.read_only_allow_delete": null}'),
    ],
)  # fmt: skip
def test_one_broken_thing_is_one_finding_with_its_cure(
    broken: TargetFacts, result: str, check: str, observation: str, cure: str
) -> None:
    (finding,) = list_bad(broken)
    assert (finding.result, finding.check) == (result, check)
    assert observation in finding.observation
    assert cure in finding.cure


def test_blocks_are_lifted_one_at_a_time_as_opensearch_wants_it() -> None:
    settings = {"index.blocks.write": "true", "index.blocks.read_only": "true"}
    blocked = replace(GOOD, settings=RawReply(200, {"orders-000001": {"settings": settings}}))
    (finding,) = list_bad(blocked)
    bodies = [part.partition("'")[0] for part in finding.cure.split(" -d '")[1:]]
    assert bodies == ['{"index.blocks.read_only": null}', '{"index.blocks.write": null}']


def test_a_block_of_an_index_is_no_missing_permission() -> None:
    blocked = RawReply(403, {"error": {"type": "cluster_block_exception"}})
    assert list_bad(replace(GOOD, rights={DELETE: blocked})) == []


def test_only_blocks_that_refuse_writes_count() -> None:
    settings = {"index.blocks.read": "true", "index.blocks.write": "false", "other": "true"}
    assert list_blocks(settings) == []


def test_an_address_that_is_no_proxy_is_named_and_nothing_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://ann:sword#fish@proxy:3128")
    monkeypatch.delenv("https_proxy", raising=False)
    spec = make_spec(sink={"opensearch": {"hosts": ["https://search.example"]}})
    (found, *_) = target_checks.check_kind(read_target(spec, None))
    assert found.result is Result.PROBLEM
    assert "HTTPS_PROXY is not http://HOST:PORT" in found.observation


def test_each_permission_of_the_documented_role_is_asked_for() -> None:
    role: dict[str, Any] = json.loads((ROOT / "docs" / "opensearch-role.json").read_text())
    documented = {("", action) for action in role["cluster_permissions"]}
    for entry in role["index_permissions"]:
        documented |= {(entry["index_patterns"][-1], action) for action in entry["allowed_actions"]}
    probes = list(list_probes(["orders"], "5f1c"))
    assert {(probe.right.pattern, probe.right.action) for probe in probes} == documented
    unasked = {probe.right.action for probe in probes if not probe.method}
    assert unasked == {
        *("indices:admin/refresh[s]", "indices:data/write/bulk[s]"),
        "indices:data/read/point_in_time/delete",
    }


def test_no_request_names_an_index_of_the_pipeline() -> None:
    for probe in list_probes(["orders"], "5f1c"):
        sent = f"{probe.path} {json.dumps(probe.body)}"
        assert "orders" not in sent.replace("orders-icdc-doctor-5f1c", "")
