"""The role of docs/opensearch-role.json is enough for what a pipeline does, and not too much."""

import json
import os
import secrets
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from icdc_api.crd import loading
from icdc_api.errors import Gap
from icdc_cli.doctor.findings import Finding, Result
from icdc_cli.doctor.host import target_checks, target_facts
from icdc_spark.opensearch.client.connection import Connection, open_client
from icdc_spark.opensearch.client.http import BulkEndpoint
from icdc_spark.opensearch.stores import dead_letters
from icdc_spark.opensearch.wire import responses
from icdc_testing import ROOT
from icdc_testing.target.secure.node import SecureNode
from icdc_testing.target.secure.site import ROLE, SECRET, SecureSite
from icdc_testing.user_programs import pages
from icdc_testing.waiting.wait import wait_until

pytestmark = pytest.mark.spark

NO_REASON = "compare their role with docs/opensearch-role.json"
"""Where the answer has no body, and so names no permission."""
LISTS_NODES = "cluster:monitor/nodes/info"
NEEDED: dict[str, dict[str, str]] = {
    "cluster": {
        "cluster:monitor/health": "export",
        "cluster:monitor/tasks/lists": "follow",
        "indices:data/read/scroll": "reexport",
        "indices:data/write/bulk": "export",
    },
    "icdc-state": {
        "indices:admin/create": "export",
        "indices:admin/get": "export",
        "indices:data/read/get": "export",
        "indices:data/write/bulk[s]": "export",
        "indices:data/write/delete": "delete",
        "indices:data/write/index": "export",
        "indices:monitor/settings/get": "export",
        "indices:monitor/stats": "export",
    },
    "orders": {
        "indices:admin/aliases": "export",
        "indices:admin/aliases/get": "export",
        "indices:admin/create": "export",
        "indices:admin/delete": "delete",
        "indices:admin/get": "export",
        "indices:admin/mapping/put": "extend",
        "indices:admin/mappings/get": "export",
        "indices:admin/refresh": "export",
        "indices:admin/refresh[s]": "export",
        "indices:admin/settings/update": "export",
        "indices:data/read/point_in_time/create": "verify",
        "indices:data/read/point_in_time/delete": "verify",
        "indices:data/read/search": "export",
        "indices:data/write/bulk[s]": "export",
        "indices:data/write/delete": "export",
        "indices:data/write/delete/byquery": "export",
        "indices:data/write/index": "export",
        "indices:monitor/settings/get": "verify",
        "indices:monitor/stats": "export",
    },
}
"""The first thing that does not come through without a permission, by patterns of indices."""
BEFORE = frozenset({"follow", "extend", "verify", "reexport", "delete"})
"""Which of them need an index that was exported before."""


def test_the_documented_role_is_enough_for_the_whole_life_of_a_pipeline(site: SecureSite) -> None:
    site.export()
    site.follow()
    site.extend()
    site.verify()
    site.repair()
    site.replay()
    site.reexport()
    site.roll_back()
    wait_until(lambda: b'"open_contexts":0' in site.read_searches(), "every search is closed")
    site.delete()
    left = site.node.call("GET", "/_cat/indices/orders*?format=json&expand_wildcards=all").json
    assert left == {"list": []}


def list_permissions(role: dict[str, Any]) -> dict[str, list[str]]:
    """Return the lists of actions in a role, by the first pattern of their indices."""
    by_pattern = {
        permission["index_patterns"][0]: permission for permission in role["index_permissions"]
    }
    actions = {pattern: permission["allowed_actions"] for pattern, permission in by_pattern.items()}
    return {"cluster": role["cluster_permissions"], **actions}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("pattern", "action", "step"),
    [(pattern, *needed) for pattern, all_of in NEEDED.items() for needed in all_of.items()],
)
def test_a_missing_permission_is_named(
    site: SecureSite, pattern: str, action: str, step: str
) -> None:
    if step in BEFORE:
        site.export()
    role = deepcopy(ROLE)
    list_permissions(role)[pattern].remove(action)
    site.node.give_role(site.role, role)
    with pytest.raises(AssertionError):
        getattr(site, step)()
    report = site.reports[-1]
    said = [report.outcome, *report.tables, report.result]
    report_text = json.dumps(report.model_dump(mode="json"))
    assert "Unauthorized" in report_text, said
    said_of_head = action == "indices:admin/get" and NO_REASON in report_text
    assert said_of_head or f"give their role the permission {action}." in report_text, said


def test_without_the_permission_to_list_nodes_all_else_works_and_the_log_asks_for_it_once(
    site: SecureSite, caplog: pytest.LogCaptureFixture
) -> None:
    """As with the role of an earlier version, which did not have it."""
    role = deepcopy(ROLE)
    list_permissions(role)["cluster"].remove(LISTS_NODES)
    site.node.give_role(site.role, role)
    site.export()
    assert caplog.text.count(f"give their role the permission {LISTS_NODES}.") == 1
    site.follow()
    site.repair()


def test_the_role_has_no_permission_that_nothing_needs() -> None:
    needed = {pattern: sorted(all_of) for pattern, all_of in NEEDED.items()}
    # Without the first a search stays open for minutes, without the other nodes that leave are
    # not noticed (above).
    more = ["indices:data/read/scroll/clear", LISTS_NODES]
    needed["cluster"] = sorted([*needed["cluster"], *more])
    # It tells an index that is gone from one whose shards do not answer.
    needed["orders"] = sorted([*needed["orders"], "indices:data/read/get"])
    assert {
        pattern: sorted(actions) for pattern, actions in list_permissions(ROLE).items()
    } == needed


def connect(site: SecureSite) -> Connection:
    """As a run connects, with the documented role."""
    folder = site.harness.folder / "secrets" / SECRET
    return Connection(
        hosts=(site.node.url,),
        username=(folder / "username").read_text(encoding="utf-8"),
        password=(folder / "password").read_text(encoding="utf-8"),
        ca_pem=site.node.ca,
    )


def test_with_the_role_a_dead_letter_that_conflicts_is_read(site: SecureSite) -> None:
    site.export()
    through = open_client(connect(site))
    letter_rows = dead_letters.read_stored(through, "orders", ["3", "9"])
    through.close()
    assert letter_rows["3"] is not None
    assert letter_rows["9"] is None


def test_with_the_role_a_bulk_request_finds_out_that_its_index_is_an_alias_now(
    site: SecureSite,
) -> None:
    connection = connect(site)
    made = site.node.call("PUT", "/orders-000007", {"aliases": {"orders-000001": {}}})
    assert made.status == 200, made.body
    endpoint = BulkEndpoint(connection, opaque_id="tests", pool=1)
    answer = endpoint.send("orders-000001", b'{"index":{"_id":"1"}}\n{}\n')
    endpoint.close()
    with pytest.raises(Gap, match="is an alias now"):
        responses.read(answer.text, 1)


def examine(site: SecureSite) -> dict[str, Finding]:
    """Return what `icdc doctor -f` says of OpenSearch, by what was checked."""
    spec = loading.parse_pipeline(site.harness.resource, source="shop").spec
    facts = target_facts.read_target(spec, site.harness.folder / "secrets")
    return {one.check: one for one in target_checks.list_findings(facts)}


def test_the_doctor_names_each_missing_permission_and_changes_nothing(site: SecureSite) -> None:
    indices = "/_cat/indices/orders*,icdc-state*?format=json&h=index,uuid&s=index"
    before = site.node.call("GET", indices).json
    examined = examine(site)
    assert not [one for one in examined.values() if one.result is Result.PROBLEM]
    assert examined["permissions in OpenSearch"].result is Result.NOT_CHECKED  # three of shards
    assert site.node.call("GET", indices).json == before
    site.node.give_role(site.role, {"cluster_permissions": []})
    problems = {name for name, one in examine(site).items() if one.result is Result.PROBLEM}
    documented = {action for actions in list_permissions(ROLE).values() for action in actions}
    unasked = {
        *("indices:admin/refresh[s]", "indices:data/write/bulk[s]"),
        "indices:data/read/point_in_time/delete",
    }
    assert problems == {f"permission {action}" for action in documented - unasked}


def test_the_commands_of_the_page_make_the_user_and_its_role(
    secure_node: SecureNode, tmp_path: Path
) -> None:
    page = ROOT / "docs" / "opensearch-role.md"
    (commands,) = (block for block in pages.list_blocks(page, "sh") if "curl" in block)
    (tmp_path / "ca.crt").write_text(secure_node.ca, encoding="utf-8")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    typed = commands.replace("https://search:9200", secure_node.url)
    # Else curl asks for it, and does not notice an answer that is an error.
    administrator = ":".join(secure_node.administrator or ())
    typed = typed.replace("-u admin", f"-u {administrator} --silent --fail-with-body")
    password = secrets.token_urlsafe(24)
    environment = {**os.environ, "PASSWORD": password}
    pages.type_commands(typed, environment, folder=tmp_path, seconds=60)
    user = ("iceberg-cdc", password)
    known: Any = secure_node.call("GET", "/_plugins/_security/authinfo", user=user).json
    assert user[0] in known["roles"]
    stored: Any = secure_node.call("GET", f"/_plugins/_security/api/roles/{user[0]}").json
    assert stored[user[0]]["cluster_permissions"] == ROLE["cluster_permissions"]
