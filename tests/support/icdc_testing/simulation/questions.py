"""What stands for the file of a question: the ConfigMap that the kubelet brings into a pod.

It is brought late, as kubelets do, and read by the one process of the driver whenever its table
asks whether there is a question: there is no thread beside it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from icdc_api.job.run_files import RunQuestion
from icdc_spark.process.question_file import RunQuestions
from icdc_spark.replication.context import TableContext
from icdc_testing.simulation import border

FAILING = 0.2
"""The share of comparisons that meet a passing fault."""


class BroughtQuestions(RunQuestions):
    """Stands for RunQuestions: the name of the run is the path of its question."""

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Start no thread."""
        yield

    def find(self, table: str) -> RunQuestion | None:
        """Read what has been brought, and return it if the table has to answer it."""
        self.poll()
        return super().find(table)

    def _read(self) -> tuple[RunQuestion | None, str | None]:
        if self._path is None:
            return None, None
        run = border.get_world().cluster.applications.get(self._path.name)
        return None if run is None else run.question, None


def verify(context: TableContext) -> dict[str, Any]:
    """Stand for `inspection.verify`: equal, unless a fault that passes is in the way."""
    entry = {"name": context.table.name, "index": context.alias}
    border.get_world().log(f"run {context.request.run_id} compares")
    if border.get_world().random.random() < FAILING:
        return entry | {"reason": "TargetUnavailable", "message": "one node is busy"}
    return entry | {"equal": True}
