"""The role of docs/opensearch-role.json is enough for what a pipeline does, and not too much."""

import itertools
import json
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icdc_api.errors import Gap
from icdc_api.job.run_files import RunMode, RunReport
from icdc_spark.opensearch.client.connection import Connection, client
from icdc_spark.opensearch.client.http import BulkEndpoint
from icdc_spark.opensearch.stores import dead_letters
from icdc_spark.opensearch.wire import responses
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.target.secure_node import SecureNode

pytestmark = pytest.mark.spark

ROLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "docs" / "opensearch-role.json").read_text(encoding="utf-8")
)
SECRET, AUTHORITY = "search", "search-ca"
TOO_LONG = "repeat('x', 33000)"
"""A term that OpenSearch refuses to index: its row becomes a dead letter."""
NO_REASON = "compare their role with docs/opensearch-role.json"
"""Where the answer has no body, and so names no permission."""
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
    "*": {"indices:admin/aliases/get": "export"},
}
"""The first thing that does not come through without a permission, by patterns of indices."""
BEFORE = frozenset({"follow", "extend", "verify", "reexport", "delete"})
"""Which of them need an index that was exported before."""
_USERS = itertools.count(1)


@dataclass
class Site:
    """A pipeline whose user has one role, and its table."""

    harness: Harness
    lake: Lake
    table: str
    node: SecureNode
    role: str
    reports: list[RunReport] = field(default_factory=list)

    def sql(self, statement: str) -> None:
        """Run SQL in which {} stands for the table."""
        self.lake.sql(statement.format(f"lake.{self.table}"))

    def run(self, mode: RunMode = RunMode.RUN) -> RunReport:
        """One run with the user's Secrets."""
        report = self.harness.run(mode, secrets_dir=str(self.harness.folder / "secrets"))
        self.reports.append(report)
        return report

    def ok(self, mode: RunMode = RunMode.RUN) -> dict[str, Any]:
        """One run that must come through; its result for the table, where the mode has one."""
        report = self.run(mode)
        assert report.outcome is None, report.outcome
        assert not [table for table in report.tables if table.reason], report.tables
        table: dict[str, Any] = report.result["tables"][0] if report.result else {}
        assert table.get("reason") is None, table
        return table

    def letters(self) -> int:
        """How many rows of the last run were refused."""
        return sum(table.dead_letters for table in self.reports[-1].tables)

    def export(self) -> None:
        """The first export, with a dead letter."""
        self.sql(f"insert into {{}} values (1, 'one'), (2, 'two'), (3, {TOO_LONG})")
        self.ok()
        assert self.letters() == 1, self.reports[-1].tables

    def follow(self) -> None:
        """A change of each kind, with a dead letter."""
        self.sql("delete from {} where id = 1")
        self.sql(f"insert into {{}} values (4, 'four'), (5, {TOO_LONG})")
        self.ok()

    def extend(self) -> None:
        """A new column."""
        self.sql("alter table {} add column note string")
        self.sql("insert into {} values (6, 'six', 'new')")
        self.ok()

    def spoil(self) -> None:
        """Remove a document, which somebody else may have removed already."""
        (index,) = self.node.call("GET", "/_alias/orders").json
        answer = self.node.call("DELETE", f"/{index}/_doc/2?refresh=true")
        assert answer.status in (200, 404), answer.body

    def verify(self) -> None:
        """Compare with the table."""
        self.spoil()
        assert "2" in self.ok(RunMode.VERIFY)["missing"]["samples"]

    def repair(self) -> None:
        """Mend what differs."""
        self.spoil()
        self.ok(RunMode.REPAIR)
        assert "2" not in self.ok(RunMode.VERIFY)["missing"]["samples"]

    def reexport(self) -> None:
        """A change after which the old index does not serve; a refused row has gone."""
        self.sql("delete from {} where id = 3")
        self.harness.resource["spec"]["tables"][0]["mapping"] = {}
        self.ok()
        assert list(self.node.call("GET", "/_alias/orders").json) == ["orders-000002"]

    def searches(self) -> bytes:
        """Searches that the node still holds open."""
        path = "/_nodes/stats/indices/search?filter_path=**.open_contexts"
        return self.node.call("GET", path).body

    def delete(self) -> None:
        """The last run of a pipeline that is deleted."""
        report = self.run(RunMode.DELETE)
        assert report.outcome is None, report.outcome


@pytest.fixture
def site(spark: SparkSession, lake: Lake, secure_node: SecureNode, tmp_path: Path) -> Site:
    """A pipeline whose user has the documented role and no other."""
    lake.sql("create namespace if not exists lake.db")
    table = lake.create("id int, name string")
    role = f"pipeline-{next(_USERS)}"
    secure_node.give_role(role, ROLE)
    username, password = secure_node.user(role, role)
    keys_of = {
        SECRET: {"username": username, "password": password},
        AUTHORITY: {"ca.crt": secure_node.ca},
    }
    for secret, keys in keys_of.items():
        folder = tmp_path / "secrets" / secret
        folder.mkdir(parents=True)
        for key, value in keys.items():
            (folder / key).write_text(value, encoding="utf-8")
    entry = {
        "name": table,
        "identifierColumns": ["id"],
        "index": "orders",
        "mapping": {"name": {"type": "keyword", "ignore_above": 100_000}},
    }
    harness = Harness(spark, secure_node.url, tmp_path, [entry])
    sink = harness.resource["spec"]["sink"]["opensearch"]
    sink["credentialsFrom"] = {"secretRef": {"name": SECRET}}
    sink["tls"] = {"caFrom": {"secretRef": {"name": AUTHORITY}}}
    secure_node.call("DELETE", "/orders-*,icdc-state?expand_wildcards=all")
    return Site(harness, lake, table, secure_node, role)


def test_the_documented_role_is_enough_for_the_whole_life_of_a_pipeline(site: Site) -> None:
    site.export()
    site.follow()
    site.extend()
    site.verify()
    site.repair()
    site.reexport()
    assert b'"open_contexts":0' in site.searches(), site.searches()
    site.delete()
    left = site.node.call("GET", "/_cat/indices/orders*?format=json&expand_wildcards=all").json
    assert left == {"list": []}


def permissions(role: dict[str, Any]) -> dict[str, list[str]]:
    """The lists of actions in a role, by the first pattern of the indices that they are for."""
    by_pattern = {
        permission["index_patterns"][0]: permission for permission in role["index_permissions"]
    }
    actions = {pattern: permission["allowed_actions"] for pattern, permission in by_pattern.items()}
    return {"cluster": role["cluster_permissions"], **actions}


@pytest.mark.parametrize(
    ("pattern", "action", "step"),
    [(pattern, *needed) for pattern, all_of in NEEDED.items() for needed in all_of.items()],
)
def test_a_missing_permission_is_named(site: Site, pattern: str, action: str, step: str) -> None:
    if step in BEFORE:
        site.export()
    role = deepcopy(ROLE)
    permissions(role)[pattern].remove(action)
    site.node.give_role(site.role, role)
    with pytest.raises(AssertionError):
        getattr(site, step)()
    report = site.reports[-1]
    said = [report.outcome, *report.tables, report.result]
    report_text = json.dumps(report.model_dump(mode="json"))
    assert "Unauthorized" in report_text, said
    said_of_head = action == "indices:admin/get" and NO_REASON in report_text
    assert said_of_head or f"give their role the permission {action}." in report_text, said


def test_the_role_has_no_permission_that_nothing_needs() -> None:
    needed = {pattern: sorted(all_of) for pattern, all_of in NEEDED.items()}
    # Without it a search stays open for minutes (above).
    needed["cluster"] = sorted([*needed["cluster"], "indices:data/read/scroll/clear"])
    # It tells an index that is gone from one whose shards do not answer.
    needed["orders"] = sorted([*needed["orders"], "indices:data/read/get"])
    assert {pattern: sorted(actions) for pattern, actions in permissions(ROLE).items()} == needed


def connect(site: Site) -> Connection:
    """As a run connects, with the documented role."""
    folder = site.harness.folder / "secrets" / SECRET
    return Connection(
        hosts=(site.node.url,),
        username=(folder / "username").read_text(encoding="utf-8"),
        password=(folder / "password").read_text(encoding="utf-8"),
        ca_pem=site.node.ca,
    )


def test_with_the_role_a_dead_letter_that_conflicts_is_read(site: Site) -> None:
    site.export()
    through = client(connect(site))
    letters = dead_letters.read_stored(through, "orders", ["3", "9"])
    through.close()
    assert letters["3"] is not None
    assert letters["9"] is None


def test_with_the_role_a_bulk_request_finds_out_that_its_index_is_an_alias_now(site: Site) -> None:
    connection = connect(site)
    made = site.node.call("PUT", "/orders-000007", {"aliases": {"orders-000001": {}}})
    assert made.status == 200, made.body
    endpoint = BulkEndpoint(connection, opaque_id="tests", pool=1)
    answer = endpoint.send("orders-000001", b'{"index":{"_id":"1"}}\n{}\n')
    endpoint.close()
    with pytest.raises(Gap, match="is an alias now"):
        responses.read(answer.text, 1)
