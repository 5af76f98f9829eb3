"""One run in the model of Kubernetes, and its driver."""

from dataclasses import dataclass

from icdc_api.job.run_files import RunQuestion, RunReport
from icdc_testing.simulation.schedule import Flag, PlayedProcess


@dataclass
class PlayedApplication:
    """One run: its objects, its driver, and what that reported."""

    name: str
    epoch: int
    run_id: str | None
    began_with: int | None
    """The head of the table when the run was created."""
    process: PlayedProcess | None = None
    stop: Flag | None = None
    report: RunReport | None = None
    asked: RunQuestion | None = None
    """The question in the ConfigMap of the run."""
    question: RunQuestion | None = None
    """The question that the kubelet has brought into the driver's pod."""
    started: float | None = None
    lost: bool = False
    """Its node does not answer: its driver may go on, and nobody knows."""
    frozen: bool = False
    """Its driver hangs for long, while its node answers."""
    removed: bool = False
    """Its pod was deleted by force: nothing of it is left that the API server knows."""

    def offer(self, report: RunReport, *, urgent: bool) -> None:
        """Take a report, as the driver's pod does."""
        self.deliver(report)

    def deliver(self, report: RunReport) -> None:
        """Take a report, unless the driver cannot reach the API server."""
        if not self.lost and self.process is not None and self.process.alive:
            self.report = report
