"""A pipeline whose spec somebody edits in any phase of its life, played for `decide`.

`PHASES` are the moments at which an edit may come, each made by playing what leads to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from icdc_api import errors
from icdc_api.crd.loading import parse_pipeline
from icdc_api.job.run_files import RunReport
from icdc_api.spec.pipeline import PipelineSpec
from icdc_api.status.conditions import ConditionType
from icdc_api.status.pipeline_status import TableState, TableStatus
from icdc_api.status.runs import Failure, RunKind, RunState
from icdc_api.status.triggers import Ask
from icdc_operator.core.observed import CreateRun, Decision, Observed, Queued, RunSeen
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.deciding.pipelines import NOW
from icdc_testing.operator.deciding.world import QUEUED, DecideWorld, compares

MAX_STEPS = 40
"""Reconciles within which all comes to rest."""

Spec = Mapping[str, Any]


class EditedWorld(DecideWorld):
    """A world whose spec is what users write, also where it is refused."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.launched: list[tuple[int, PipelineSpec, CreateRun]] = []
        """Each run that was created, with the generation and the spec that it was created for."""
        self.problem: str | None = None
        self._read(spec)

    def declare(self, spec: Spec) -> None:
        """Store another spec, which raises the generation."""
        self.generation += 1
        self._read(spec)

    def _read(self, spec: Spec) -> None:
        self.document = spec
        try:
            self.valid: PipelineSpec | None = parse_pipeline(
                {**make_minimal(), "spec": spec}, source="pipeline"
            ).spec
        except errors.BadSpec as error:
            self.valid, self.problem = None, error.message
        else:
            self.spec, self.problem = self.valid, None

    @property
    def indices(self) -> dict[str, str]:
        """Alias by table, of the last valid spec."""
        return {table.name: table.index_name for table in self.spec.tables}

    def observe(self, queued: Queued | None = None) -> Observed:
        heads = {name: str(self._read_head(name)) for name in self.indices}
        seen = replace(super().observe(queued), heads=heads)
        return replace(seen, spec=self.valid, problem=self.problem)

    def step(self, *, crash: str = "", queued: Queued | None = None) -> Decision:
        decision = super().step(crash=crash, queued=queued)
        for action in decision.actions if not crash else ():
            if isinstance(action, CreateRun):
                assert self.valid is not None, "a run of a spec that is refused"
                self.launched.append((self.generation, self.valid, action))
        return decision

    def make_report(
        self, run: RunSeen, *, finished: bool, error: errors.IcdcError | None = None
    ) -> RunReport:
        return RunReport(
            run_id=run.name,
            started_at=NOW,
            updated_at=self.now,
            finished=finished,
            tables=tuple(self.make_table(name, run) for name in self.indices),
            outcome=None if error is None else Failure.of(error),
            result=self.make_verdicts()
            if finished and error is None and compares(run.name)
            else None,
        )

    def make_verdicts(self) -> dict[str, list[dict[str, object]]]:
        return {"tables": [{"name": name, "equal": True} for name in self.indices]}

    def make_table(self, name: str, run: RunSeen) -> TableStatus:
        index = self.indices[name]
        if compares(run.name):
            return TableStatus(name=name, index=index)
        applied, head = self.applied.get(index, 0), self._read_head(name)
        return TableStatus(
            name=name,
            index=index,
            state=TableState.STREAMING if applied else TableState.EXPORTING,
            applied_snapshot_id=str(applied) if applied else None,
            applied_sequence_number=applied or None,
            applied_at=NOW if applied else None,
            current_snapshot_id=str(head),
            snapshots_behind=head - applied,
            lag_seconds=head - applied,
        )

    def work(self, name: str) -> None:
        if not compares(name):
            self.applied |= {index: self._read_head(table) for table, index in self.indices.items()}
        super().work(name)

    def settle(self) -> None:
        """Return once a reconcile changes nothing more; runs do what they are for meanwhile."""
        for _ in range(MAX_STEPS):
            before = self.status
            decision = self.step()
            for run in self.live:
                self.work(run.name)
                if not self._stays(run):
                    self.end(run.name, finished=True)
            ended = self.status.current_run is None or self._runs_on
            waits = self.status.next_attempt_time is not None
            rests = self.status == before and not decision.actions
            if (rests or self._is_renewed()) and ended and not waits:
                return
            self.now += timedelta(seconds=min(decision.requeue_after or 1.0, 700.0))
        raise AssertionError(f"not at rest after {MAX_STEPS} reconciles: {self.status}")

    @property
    def _runs_on(self) -> bool:
        return all(self._stays(run) for run in self.live) and bool(self.live)

    def _is_renewed(self) -> bool:
        """Return whether the last spec has its run, which `timeouts.runSeconds` ends for ever."""
        spec, current = self.valid, self.status.current_run
        if spec is None or current is None or not spec.timeouts.run_seconds:
            return False
        return current.generation == self.generation and current.state == RunState.RUNNING

    def _stays(self, run: RunSeen) -> bool:
        made = [create for _, _, create in self.launched if create.run.epoch == run.epoch]
        return any(create.continuous and not create.run.kind.inspects for create in made)

    def describe_ending(self) -> dict[str, Any]:
        """Return the end of the world, without what depends on the way to it.

        That is times, names and the number of runs.
        """
        status = self.status
        launched = [launch for launch in self.launched if not launch[2].run.kind.inspects]
        current, asked = status.current_run, status.observed_ask
        return {
            "conditions": {c.type: (c.status, c.reason) for c in status.conditions},
            "phase": status.phase,
            "tables": [(t.name, t.index, t.state, t.applied_snapshot_id) for t in status.tables],
            "failures": status.consecutive_failures,
            "next attempt": status.next_attempt_time is not None,
            "run": None if current is None else current.state,
            "launched": [(spec, create.continuous) for _, spec, create in launched[-1:]],
            "re-export": [create.reexport is not None for _, _, create in launched[-1:]],
            "asked": asked is not None and asked.finished,
        }

    def heeds(self) -> bool:
        """Return whether the last spec had an effect: a run with it, a pause, or a complaint about
        it."""
        assert self.status.observed_generation == self.generation
        if self.valid is None:
            valid = self.status.find_condition(ConditionType.SPEC_VALID)
            return valid is not None and self.problem is not None and valid.message != ""
        if self.status.holds(ConditionType.SUSPENDED):
            return True
        return (self.generation, self.valid) in [(of, spec) for of, spec, _ in self.launched]

    def _read_head(self, name: str) -> int:
        return self.heads.setdefault(name, 1)


Phase = Callable[[Spec], EditedWorld]


def _play(spec: Spec, *steps: str) -> EditedWorld:
    world = EditedWorld(spec)
    for step in steps:
        if step == "work":
            world.work(world.live[0].name)
        else:
            world.step()
    return world


def _settle(spec: Spec) -> EditedWorld:
    world = EditedWorld(spec)
    world.settle()
    return world


def _end(error: errors.IcdcError | None, *, seen: bool) -> Phase:
    def make(spec: Spec) -> EditedWorld:
        world = _play(spec, "reconcile", "reconcile", "work")
        world.end(world.live[0].name, finished=True, error=error)
        if seen:
            world.step()
        return world

    return make


def _commit(spec: Spec) -> EditedWorld:
    world = _settle(spec)
    world.heads |= {name: head + 1 for name, head in world.heads.items()}
    world.now += timedelta(seconds=60)
    world.step()
    world.step()
    return world


def _stop(spec: Spec) -> EditedWorld:
    world = _play(spec, "reconcile", "reconcile", "work", "reconcile")
    world.declare({**spec, "restartNonce": 1 + spec.get("restartNonce", 0)})
    world.step(crash="before actions")
    run = world.status.current_run
    assert run is not None
    assert run.state == RunState.STOPPING
    return world


def _ask(spec: Spec) -> EditedWorld:
    world = _settle(spec)
    world.ask = Ask(id="q1", mode=RunKind.VERIFY)
    world.step()
    world.step()
    return world


def _compare(spec: Spec) -> EditedWorld:
    world = _settle(spec)
    world.declare({**spec, "resync": {"nonce": 1, "mode": "Verify"}})
    for _ in range(8):
        world.step()
        run = world.status.current_run
        if run is not None and run.kind == RunKind.VERIFY and world.live:
            return world
        for live in world.live:
            world.work(live.name)
            world.end(live.name, finished=True)
    raise AssertionError("no comparison began")


def _queue(spec: Spec) -> EditedWorld:
    world = EditedWorld(spec)
    world.step(queued=QUEUED)
    return world


PHASES: Mapping[str, Phase] = {
    "not looked at yet": EditedWorld,
    "in the queue": _queue,
    "planned": lambda spec: _play(spec, "reconcile"),
    "created": lambda spec: _play(spec, "reconcile", "reconcile"),
    "exporting": lambda spec: _play(spec, "reconcile", "reconcile", "work", "reconcile"),
    "asked to stop": _stop,
    "ended well, unseen": _end(None, seen=False),
    "failed, unseen": _end(errors.TargetUnavailable("down"), seen=False),
    "waiting for the next attempt": _end(errors.TargetUnavailable("down"), seen=True),
    "given up": _end(errors.Bug("boom"), seen=True),
    "at rest": _settle,
    "following a commit": _commit,
    "asked a question": _ask,
    "comparing": _compare,
    "following all the time": lambda spec: _settle(
        {**spec, "changelog": {"trigger": "Continuous"}}
    ),
    "suspended": lambda spec: _settle({**spec, "suspend": True}),
}
