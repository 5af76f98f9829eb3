"""A table whose index is on three nodes, and what must hold of it after every fault."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from icdc_api.errors import FailureClass
from icdc_api.job.run_files import RunReport
from icdc_testing.network.faultproxy import FaultProxy
from icdc_testing.runs.harness import Harness
from icdc_testing.runs.kill_points import BULK_BYTES, BatchKind, Plot, create_plot
from icdc_testing.target.nodes.member import Member
from icdc_testing.target.nodes.three_nodes import ThreeNodes

RUNS = 3
"""Runs after a fault by which a table must be right again: as the operator starts them."""


@dataclass
class FollowedOnNodes:
    """The table, its pipeline, and the proxy that stands before the nodes as a load balancer."""

    nodes: ThreeNodes
    front: FaultProxy
    table: Plot
    pipeline: Harness

    @classmethod
    def make(
        cls,
        spark: SparkSession,
        nodes: ThreeNodes,
        front: FaultProxy,
        folder: Path,
        kind: BatchKind,
        *,
        replicas: int = 1,
        rows: int = 800,
        name: str = "nodes",
    ) -> "FollowedOnNodes":
        """Create the table, not yet exported; its batches are several bulk requests."""
        table = create_plot(spark, front.url, kind, name, rows=rows)
        pipeline = Harness(spark, front.url, folder, [table.entry], name=table.name)
        sink = pipeline.resource["spec"]["sink"]["opensearch"]
        sink["bulk"] = {"maxBytes": BULK_BYTES}
        sink["indexSettings"] = {"number_of_replicas": replicas}
        return cls(nodes, front, table, pipeline)

    @property
    def index(self) -> str:
        """The index that is written now: the one of an open batch, else the one that is served."""
        state = self.table.read_state()
        named = (state.get("intent") or state).get("index")
        return str(named or f"{self.table.alias}-000001")

    @property
    def asked(self) -> Member:
        """The node that every request is sent to."""
        (member,) = [one for one in self.nodes.members if one.url == self.front.upstream]
        return member

    def ask_through(self, member: Member) -> None:
        """Send every further request to this node."""
        self.front.upstream = member.url

    def settle(self, first: RunReport | None = None) -> list[FailureClass]:
        """Run until a run ends well, and require that the index equals the table.

        Returns the failures of the runs before, `first` included, each of which must be one that
        passes by itself: nobody has to act after a fault of the target.
        """
        failures: list[FailureClass] = []
        report = first or self.pipeline.run()
        while report.outcome is not None:
            outcome = report.outcome
            assert outcome.retryable, outcome
            failures.append(outcome.failure_class)
            assert len(failures) < RUNS, f"still not right: {outcome}"
            report = self.pipeline.run()
        (status,) = report.tables
        assert status.reason is None, f"{status.reason}: {status.message}"
        head = self.table.read_head()
        assert self.table.is_applied(head), self.table.read_state()
        self.table.check(head)
        return failures
