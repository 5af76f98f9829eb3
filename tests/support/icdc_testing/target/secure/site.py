"""A pipeline on a node with plugins of OpenSearch; with security, its user has one role."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import Reexport, RunReport
from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing import ROOT
from icdc_testing.lake.lake import Lake
from icdc_testing.runs.harness import Harness
from icdc_testing.tables.long_values import UNLIMITED
from icdc_testing.target.secure.node import SecureNode
from icdc_testing.target.secure.plugin_node import PluginNode
from icdc_testing.waiting.wait import WAIT_SECONDS, wait_until

ROLE: dict[str, Any] = json.loads(
    (ROOT / "docs" / "opensearch-role.json").read_text(encoding="utf-8")
)
SECRET, AUTHORITY = "search", "search-ca"
TOO_LONG = "repeat('x', 33000)"
"""A term that OpenSearch refuses to index: its row becomes a dead letter."""
_USERS = itertools.count(1)


@dataclass
class PluginSite:
    """A pipeline on a node with plugins, and its table."""

    harness: Harness
    lake: Lake
    table: str
    node: PluginNode
    reports: list[RunReport] = field(default_factory=list, kw_only=True)

    def sql(self, statement: str) -> None:
        """Run SQL in which {} stands for the table."""
        self.lake.sql(statement.format(f"lake.{self.table}"))

    def run(self, mode: RunMode = RunMode.RUN, **changes: Any) -> RunReport:
        """Do one run with the user's Secrets."""
        secrets = str(self.harness.folder / "secrets")
        report = self.harness.run(mode, secrets_dir=secrets, **changes)
        self.reports.append(report)
        return report

    def run_ok(self, mode: RunMode = RunMode.RUN, **changes: Any) -> dict[str, Any]:
        """Do one run that must come through; return its result for the table, where the mode has
        one."""
        report = self.run(mode, **changes)
        assert report.outcome is None, report.outcome
        assert not [table for table in report.tables if table.reason], report.tables
        table: dict[str, Any] = report.result["tables"][0] if report.result else {}
        assert table.get("reason") is None, table
        return table

    def count_dead_letters(self) -> int:
        """Count the rows of the last run that were refused."""
        return sum(table.dead_letters for table in self.reports[-1].tables)

    def spoil(self) -> None:
        """Remove a document, which somebody else may have removed already."""
        (index,) = self.node.call("GET", "/_alias/orders").json
        answer = self.node.call("DELETE", f"/{index}/_doc/2?refresh=true")
        assert answer.status in (200, 404), answer.body

    def repair(self) -> None:
        """Mend what differs."""
        self.spoil()
        self.run_ok(RunMode.REPAIR)
        assert "2" not in self.run_ok(RunMode.VERIFY)["missing"]["samples"]

    def replay(self) -> None:
        """Send a refused row again, which the index takes now."""
        (index,) = self.node.call("GET", "/_alias/orders").json
        field = {"name": {"type": "keyword", "ignore_above": 8191}}
        assert self.node.call("PUT", f"/{index}/_mapping", {"properties": field}).status == 200
        assert self.run_ok(RunMode.REPLAY)["left"] == 0


@dataclass
class SecureSite(PluginSite):
    """A pipeline whose user has one role, and its table."""

    node: SecureNode
    role: str

    @contextmanager
    def follow_continuously(self) -> Iterator[Callable[[], TableStatus]]:
        """Let a continuous run follow in the block, which has to end without a failure; yield its
        table's status."""
        secrets = str(self.harness.folder / "secrets")
        request = self.harness.make_request(continuous=True, secrets_dir=secrets)
        report, stop = Path(request.report_path), threading.Event()

        def read_status() -> TableStatus:
            return RunReport.read(report).tables[0]

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(PipelineRun(request, self.harness.spark, stop).run)
            try:
                streaming = TableState.STREAMING
                wait_until(
                    lambda: report.exists() and read_status().state is streaming, "it is followed"
                )
                yield read_status
            finally:
                stop.set()
            assert running.result(WAIT_SECONDS).outcome is None

    def renew_secret(self, name: str, key: str, value: str) -> None:
        """Replace a file of a mounted Secret, in one step as the kubelet does."""
        folder = self.harness.folder / "secrets"
        fresh = folder / f"{key}.fresh"
        fresh.write_text(value, encoding="utf-8")
        fresh.replace(folder / name / key)

    def count_documents(self) -> object:
        """Count the documents of the index, those of a moment ago included."""
        self.node.call("POST", "/orders/_refresh")
        return self.node.call("GET", "/orders/_count").json.get("count")

    def export(self) -> None:
        """Export for the first time, with a dead letter."""
        self.sql(f"insert into {{}} values (1, 'one'), (2, 'two'), (3, {TOO_LONG})")
        self.run_ok()
        assert self.count_dead_letters() == 1, self.reports[-1].tables

    def follow(self) -> None:
        """Make a change of each kind, with a dead letter."""
        self.sql("delete from {} where id = 1")
        self.sql(f"insert into {{}} values (4, 'four'), (5, {TOO_LONG})")
        self.run_ok()

    def extend(self) -> None:
        """Add a column."""
        self.sql("alter table {} add column note string")
        self.sql("insert into {} values (6, 'six', 'new')")
        self.run_ok()

    def verify(self) -> None:
        """Compare with the table."""
        self.spoil()
        assert "2" in self.run_ok(RunMode.VERIFY)["missing"]["samples"]

    def reexport(self) -> None:
        """Make a change after which the old index does not serve; a refused row has gone."""
        self.sql("delete from {} where id = 3")
        self.harness.resource["spec"]["tables"][0]["mapping"] = {}
        self.run_ok()
        assert list(self.node.call("GET", "/_alias/orders").json) == ["orders-000002"]

    def roll_back(self) -> None:
        """Switch readers back to the index before, which needs the spec of then."""
        self.harness.resource["spec"]["tables"][0]["mapping"] = {"name": UNLIMITED}
        self.run_ok(reexport=Reexport(nonce=1, tables=(), id=1, rollback=True))
        assert list(self.node.call("GET", "/_alias/orders").json) == ["orders-000001"]

    def read_searches(self) -> bytes:
        """Return searches that the node still holds open."""
        path = "/_nodes/stats/indices/search?filter_path=**.open_contexts"
        return self.node.call("GET", path).body

    def delete(self) -> None:
        """Do the last run of a pipeline that is deleted."""
        report = self.run(RunMode.DELETE)
        assert report.outcome is None, report.outcome


def make_open_site(spark: SparkSession, lake: Lake, node: PluginNode, folder: Path) -> PluginSite:
    """Return a pipeline on a node that asks nobody who he is; its index is orders."""
    lake.sql("create namespace if not exists lake.db")
    table = lake.create("id int, name string")
    entry = {
        "name": table,
        "identifierColumns": ["id"],
        "index": "orders",
        "mapping": {"name": UNLIMITED},
    }
    node.call("DELETE", "/orders-*,icdc-state?expand_wildcards=all")
    return PluginSite(Harness(spark, node.url, folder, [entry]), lake, table, node)


def make_site(spark: SparkSession, lake: Lake, node: SecureNode, folder: Path) -> SecureSite:
    """Return a pipeline whose user has the documented role and no other; its index is orders."""
    role = f"pipeline-{next(_USERS)}"
    node.give_role(role, ROLE)
    username, password = node.create_user(role, role)
    keys_of = {
        SECRET: {"username": username, "password": password},
        AUTHORITY: {"ca.crt": node.ca},
    }
    for secret, keys in keys_of.items():
        secret_folder = folder / "secrets" / secret
        secret_folder.mkdir(parents=True)
        for key, value in keys.items():
            (secret_folder / key).write_text(value, encoding="utf-8")
    plain = make_open_site(spark, lake, node, folder)
    sink = plain.harness.resource["spec"]["sink"]["opensearch"]
    sink["credentialsFrom"] = {"secretRef": {"name": SECRET}}
    sink["tls"] = {"caFrom": {"secretRef": {"name": AUTHORITY}}}
    return SecureSite(plain.harness, lake, plain.table, node, role)
