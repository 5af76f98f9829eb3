"""Many pipelines that want runs, in place of an operator: the border at which turns are tested."""

import functools
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunKind, RunState, RunStatus
from icdc_operator.cluster.loop.admission import Admission
from icdc_operator.cluster.loop.slots import Limits
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.core.observed import Action, Decision, Queued, StopRun
from icdc_testing.operator.deciding.pipelines import NOW, make_observed, make_spec, run_record

HOST = "https://search:9200"


@functools.cache
def _make_spec(host: str) -> PipelineSpec:
    return make_spec(sink={"opensearch": {"hosts": [host]}})


@dataclass
class ClusterPipeline:
    """What a cluster knows of one."""

    host: str = HOST
    kind: RunKind = RunKind.EXPORT
    wants: bool = False
    run: RunStatus | None = None
    since: datetime | None = None
    turns: int = 0


@dataclass
class Site:
    """Pipelines and the operator that looks at them; `restarted` forgets what it remembers."""

    limits: Limits
    counted: bool = True
    pipelines: dict[PipelineKey, ClusterPipeline] = field(default_factory=dict)
    woken: list[PipelineKey] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.restart()
        if self.counted:
            self.admission.note_listed(())

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    @property
    def running(self) -> set[PipelineKey]:
        return {key for key, pipeline in self.pipelines.items() if pipeline.run is not None}

    def restart(self) -> None:
        self.woken.clear()
        self.admission = Admission(
            self.limits, self.woken.append, lambda: self.seconds, waited=self.waited.append
        )

    def want(
        self, *keys: PipelineKey, host: str = HOST, kind: RunKind = RunKind.EXPORT
    ) -> list[Queued | None]:
        """Make a run due for each, one second after the other; return the answers to their first
        reconciles."""
        answers = []
        for key in keys:
            self.seconds += 1
            self.pipelines.setdefault(key, ClusterPipeline(host, kind)).wants = True
            answers.append(self.reconcile(key))
        return answers

    def ask_to_end(self, key: PipelineKey) -> None:
        """Reconcile it by a decision that stops its run."""
        self.reconcile(key, actions=(StopRun("a-run", graceful=True),))

    def reconcile(
        self, key: PipelineKey, *, saved: bool = True, actions: tuple[Action, ...] = ()
    ) -> Queued | None:
        """Reconcile as the operator does; not `saved`: nobody knows if the status was written.

        `actions` are those of the decision.
        """
        pipeline = self.pipelines[key]
        spec = _make_spec(pipeline.host)
        before = PipelineStatus(current_run=pipeline.run, next_attempt_time=pipeline.since)
        after = before
        if pipeline.wants and pipeline.run is None:
            epoch = 1000 + pipeline.turns
            record = run_record(kind=pipeline.kind, epoch=epoch, state=RunState.PLANNED)
            after = PipelineStatus(current_run=record)
        seen = replace(make_observed(spec, before), namespace=key.namespace, name=key.name)
        queued = self.admission.admit(key, seen, Decision(after, actions), self.now)
        if queued is not None:
            pipeline.since = pipeline.since or self.now
        elif after is not before and saved:
            pipeline.run, pipeline.wants, pipeline.since = after.current_run, False, None
            pipeline.turns += 1
            self.admission.note_planned(key)
        self.admission.note_reconciled(key)
        return queued

    def end(self, key: PipelineKey) -> None:
        """End its run, which a reconcile finds a second later."""
        self.seconds += 1
        self.pipelines[key].run = None
        self.reconcile(key)

    def wake(self) -> set[PipelineKey]:
        """Do the reconciles that were asked for so far; return who got their turn by them."""
        before = self.running
        while self.woken:
            self.reconcile(self.woken.pop(0))
        return self.running - before

    def locate(self, key: PipelineKey) -> str | None:
        """Return the queue position that a reconcile gives now."""
        queued = self.reconcile(key)
        return None if queued is None else queued.text
