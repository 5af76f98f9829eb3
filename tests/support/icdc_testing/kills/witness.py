"""What must hold of one pipeline at every moment, whoever dies; told of every write, it complains.

A run is open from the creation of its SparkApplication until its driver has ended and none can
come any more. The statuses are those that the server has made durable, whether or not whoever
wrote them lived to know it.
"""

from dataclasses import dataclass, field
from typing import Any

from icdc_api.conditions import ConditionType
from icdc_api.job import RunRequest
from icdc_api.status import PipelineStatus, TableStatus, parse_status
from icdc_operator.manifests import application
from icdc_operator.manifests.metadata import ANNOTATION_EPOCH, ANNOTATION_RUN_ID
from icdc_testing.kills.verdicts import why_wrong
from icdc_testing.kube.kstatus import Verdict, verdict

Resource = dict[str, Any]


@dataclass
class Witness:
    """Follows one pipeline. `complaints` holds all that went wrong."""

    status: PipelineStatus = field(default_factory=PipelineStatus)
    """As it was last made durable."""
    created: list[str] = field(default_factory=list)
    """Names of the SparkApplications, each time one was created."""
    started: list[str] = field(default_factory=list)
    """Run ids of the drivers that were started."""
    complaints: list[str] = field(default_factory=list)
    applied: dict[str, int] = field(default_factory=dict)
    """What the target truly holds: sequence numbers by table."""
    verdicts: list[Verdict] = field(default_factory=list)
    """Those of kstatus on all that the server has stored, each when it changed."""
    _open: set[str] = field(default_factory=set)
    _submitted: set[str] = field(default_factory=set)
    _epochs: dict[str, int] = field(default_factory=dict)
    _planted: set[str] = field(default_factory=set)

    def begin(self, planted: list[Resource], applied: dict[str, int]) -> None:
        """What is there before anything happens: the pipeline, then what belongs to it."""
        self.applied |= applied
        self._planted = {identity(each)[0] for each in planted if each["kind"] == "Pod"}
        self.saw_stored(planted[0])
        run = self.status.current_run
        for each in planted:
            if each["kind"] != application.KIND:
                continue
            run_id, epoch = identity(each)
            self.created.append(name_of(run_id))
            self._epochs[run_id] = epoch
            if run is not None and run.run_id == run_id:
                self._open.add(run_id)
                self._submitted.add(run_id)

    def saw_stored(self, pipeline: Resource) -> None:
        """The server has stored the pipeline, with a new spec or a new status."""
        self._saw_status(pipeline.get("status") or {})
        found = verdict(pipeline)
        began = self._planted | set(self.started)
        wrong = why_wrong(found, pipeline, self.status, target=set(self.applied), began=began)
        if wrong is not None:
            self._complain(f"kstatus: {found.value}, but {wrong}")
        if self.verdicts[-1:] != [found]:
            self.verdicts.append(found)

    def _saw_status(self, document: Resource) -> None:
        before, after = self.status, parse_status(document)
        self.status = after
        run, known = after.current_run, [*before.recent_runs, before.current_run]
        epochs = [each.epoch for each in known if each is not None]
        if run is not None and run.epoch < max(epochs, default=0):
            self._complain(f"the epoch went back to {run.epoch} of {run.name}")
        log = [(each.name, each.epoch) for each in after.recent_runs]
        if len(set(log)) < len(log):
            self._complain(f"a run is logged twice: {log}")
        if (before.observed_generation or 0) > (after.observed_generation or 0):
            self._complain("observedGeneration went back")
        tables = {(table.name, table.index): table for table in before.tables}
        same = {(table.name, table.index) for table in after.tables} == set(tables)
        was, now = (each.holds(ConditionType.EXPORTED) for each in (before, after))
        if same and was and not now:
            self._complain("Exported was taken back")
        for table in after.tables:
            self._saw_table(tables.get((table.name, table.index)), table)

    def saw_creation(self, created: Resource) -> None:
        """A SparkApplication was created."""
        run_id, epoch = identity(created)
        run = self.status.current_run
        if run is None or (run.run_id, run.epoch) != (run_id, epoch):
            self._complain(f"{run_id} was created, which no durable record asked for")
        if epoch <= max((e for r, e in self._epochs.items() if r != run_id), default=0):
            self._complain(f"{run_id} has no higher epoch than the runs before it")
        self.created.append(name_of(run_id))
        self._epochs[run_id] = epoch
        self._opened(run_id)

    def saw_deletion(self, name: str) -> None:
        """A SparkApplication was deleted: without a driver by now, it gets none."""
        self._open -= {each for each in self._open - self._submitted if name_of(each) == name}

    def saw_submission(self, run_id: str) -> None:
        """A driver pod is made."""
        self._submitted.add(run_id)
        self._opened(run_id)

    def saw_driver(self, run_id: str, epoch: int, request: RunRequest) -> None:
        """A driver was started, and has read its request."""
        if (request.run_id, request.epoch) != (run_id, epoch):
            self._complain(f"{run_id} was given the request of {request.run_id}")
        if run_id in self.started:
            self._complain(f"{run_id} was started twice")
        self.started.append(run_id)
        self._opened(run_id)

    def saw_end(self, run_id: str) -> None:
        """Nothing of the run writes any more, or will."""
        self._open.discard(run_id)

    def saw_writers(self, run_ids: set[str]) -> None:
        """All driver pods that may write, as the server lists them."""
        if len(run_ids) > 1:
            self._complain(f"two drivers live: {sorted(run_ids)}")

    def _opened(self, run_id: str) -> None:
        others = self._open - {run_id}
        if others:
            self._complain(f"{run_id} began while {sorted(others)} was open")
        self._open.add(run_id)

    def _saw_table(self, before: TableStatus | None, after: TableStatus) -> None:
        had = before.applied_sequence_number if before is not None else None
        has = after.applied_sequence_number
        if had is not None and (has is None or has < had):
            self._complain(f"{after.name} went back from {had} to {has}")
        if has is not None and has > self.applied.get(after.name, 0):
            self._complain(f"{after.name} claims {has}, which is not in the target")

    def _complain(self, text: str) -> None:
        self.complaints.append(text)


def identity(resource: Resource) -> tuple[str, int]:
    """Run id and epoch of what belongs to an attempt."""
    notes = resource["metadata"]["annotations"]
    return notes[ANNOTATION_RUN_ID], int(notes[ANNOTATION_EPOCH])


def name_of(run_id: str) -> str:
    """The name of the run, which attempts of one name share."""
    return run_id.rpartition(".")[0]
