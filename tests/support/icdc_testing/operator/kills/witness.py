"""Check what must hold of one pipeline at every moment: it sees every write, and complains.

A run is open from the creation of its SparkApplication until its driver has ended and no other can
come. Statuses count as soon as the server has stored them, whether or not their writer lived to
learn it.

    complaint                                              because
    a run is opened while another is open, two drivers     two writers of one index
    a new run whose epoch is not above all before it       it would not fence the older ones
    appliedSequenceNumber falls, or is above the target's  the status lies
    a SparkApplication that no stored status asked for     a crash would lose it
"""

from dataclasses import dataclass, field
from typing import Any

from icdc_api.job.run_files import RunRequest
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import PipelineStatus, TableStatus, parse_status
from icdc_operator.manifests import application
from icdc_operator.manifests.metadata import ANNOTATION_EPOCH, ANNOTATION_RUN_ID
from icdc_testing.kube.kstatus import Verdict, judge
from icdc_testing.operator.kills.verdicts import explain_wrong

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
        """Take in the objects of a planted seed: the pipeline, then those that belong to it."""
        self.applied |= applied
        self._planted = {
            read_identity(object_)[0] for object_ in planted if object_["kind"] == "Pod"
        }
        self.note_stored(planted[0])
        run = self.status.current_run
        for object_ in planted:
            if object_["kind"] != application.KIND:
                continue
            run_id, epoch = read_identity(object_)
            self.created.append(get_name(run_id))
            self._epochs[run_id] = epoch
            if run is not None and run.run_id == run_id:
                self._open.add(run_id)
                self._submitted.add(run_id)

    def note_stored(self, pipeline: Resource) -> None:
        """Note that the server has stored the pipeline, with a new spec or a new status."""
        self._note_status(pipeline.get("status") or {})
        current = judge(pipeline)
        began = self._planted | set(self.started)
        wrong = explain_wrong(current, pipeline, self.status, target=set(self.applied), began=began)
        if wrong is not None:
            self._complain(f"kstatus: {current.value}, but {wrong}")
        if self.verdicts[-1:] != [current]:
            self.verdicts.append(current)

    def _note_status(self, document: Resource) -> None:
        before, after = self.status, parse_status(document)
        self.status = after
        run, earlier = after.current_run, [*before.recent_runs, before.current_run]
        epochs = [other.epoch for other in earlier if other is not None]
        if run is not None and run.epoch < max(epochs, default=0):
            self._complain(f"the epoch went back to {run.epoch} of {run.name}")
        log = [(other.name, other.epoch) for other in after.recent_runs]
        if len(set(log)) < len(log):
            self._complain(f"a run is logged twice: {log}")
        if (before.observed_generation or 0) > (after.observed_generation or 0):
            self._complain("observedGeneration went back")
        tables = {(table.name, table.index): table for table in before.tables}
        same = {(table.name, table.index) for table in after.tables} == set(tables)
        was, now = (status.holds(ConditionType.EXPORTED) for status in (before, after))
        if same and was and not now:
            self._complain("Exported was taken back")
        for table in after.tables:
            self._note_table(tables.get((table.name, table.index)), table)

    def note_creation(self, created: Resource) -> None:
        """Note that a SparkApplication was created."""
        run_id, epoch = read_identity(created)
        run = self.status.current_run
        if run is None or (run.run_id, run.epoch) != (run_id, epoch):
            self._complain(f"{run_id} was created, which no durable record asked for")
        if epoch <= max((e for r, e in self._epochs.items() if r != run_id), default=0):
            self._complain(f"{run_id} has no higher epoch than the runs before it")
        self.created.append(get_name(run_id))
        self._epochs[run_id] = epoch
        self._open_run(run_id)

    def note_deletion(self, name: str) -> None:
        """Note that a SparkApplication was deleted: without a driver by now, it gets none."""
        self._open -= {run for run in self._open - self._submitted if get_name(run) == name}

    def note_submission(self, run_id: str) -> None:
        """Note that a driver pod is made."""
        self._submitted.add(run_id)
        self._open_run(run_id)

    def note_driver(self, run_id: str, epoch: int, request: RunRequest) -> None:
        """Note that a driver was started, and has read its request."""
        if (request.run_id, request.epoch) != (run_id, epoch):
            self._complain(f"{run_id} was given the request of {request.run_id}")
        if run_id in self.started:
            self._complain(f"{run_id} was started twice")
        self.started.append(run_id)
        self._open_run(run_id)

    def note_end(self, run_id: str) -> None:
        """Note that nothing of the run writes any more, or will."""
        self._open.discard(run_id)

    def note_writers(self, run_ids: set[str]) -> None:
        """Note all driver pods that may write, as the server lists them."""
        if len(run_ids) > 1:
            self._complain(f"two drivers live: {sorted(run_ids)}")

    def _open_run(self, run_id: str) -> None:
        others = self._open - {run_id}
        if others:
            self._complain(f"{run_id} began while {sorted(others)} was open")
        self._open.add(run_id)

    def _note_table(self, before: TableStatus | None, after: TableStatus) -> None:
        had = before.applied_sequence_number if before is not None else None
        has = after.applied_sequence_number
        if had is not None and (has is None or has < had):
            self._complain(f"{after.name} went back from {had} to {has}")
        if has is not None and has > self.applied.get(after.name, 0):
            self._complain(f"{after.name} claims {has}, which is not in the target")

    def _complain(self, text: str) -> None:
        self.complaints.append(text)


def read_identity(resource: Resource) -> tuple[str, int]:
    """Run id and epoch of what belongs to an attempt."""
    notes = resource["metadata"]["annotations"]
    return notes[ANNOTATION_RUN_ID], int(notes[ANNOTATION_EPOCH])


def get_name(run_id: str) -> str:
    """Return the name of the run, which attempts of one name share."""
    return run_id.rpartition(".")[0]
