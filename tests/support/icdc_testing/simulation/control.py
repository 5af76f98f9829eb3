"""The model of Kubernetes: the pipeline, its runs and their drivers; and the operator's loop.

What is decided is the product's `decide`. What is modelled: what the API server stores, what the
operator reads of it, when a driver starts and ends, and what a lost node hides.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from icdc_api.errors import NodeLost
from icdc_api.job.modes import RunMode
from icdc_api.job.run_files import RunRequest
from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import Failure
from icdc_operator.cluster.loop.reconciler import WATCHED_SECONDS
from icdc_operator.cluster.runs import resource as resources
from icdc_operator.cluster.runs.renewals import ReportRenewals
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import (
    Action,
    AskRun,
    CreateRun,
    ForgetRun,
    Observed,
    RunPhase,
    RunSeen,
    StopRun,
)
from icdc_spark.process.pipeline_run import PipelineRun
from icdc_testing.simulation.applications import PlayedApplication
from icdc_testing.simulation.model.lake import TABLE
from icdc_testing.simulation.resources import parse_pipeline
from icdc_testing.simulation.schedule import BEGIN, Flag, PlayedProcess
from icdc_testing.simulation.spark import Session

if TYPE_CHECKING:
    from icdc_testing.simulation.world import World

OWNER = "default/shop"


class SimulatedCluster:
    """The API server's objects of one pipeline."""

    def __init__(self, world: "World", resource: dict[str, Any]) -> None:
        self._world = world
        self.resource = resource
        self._read_spec()
        self.generation = 1
        self.status = PipelineStatus()
        self.version = 1
        """The resourceVersion of the pipeline."""
        self.applications: dict[str, PlayedApplication] = {}
        self._renewals = ReportRenewals()
        self.head_at_start: int | None = None

    def edit(self, **spec: Any) -> None:
        """Change fields of the spec, as a person does."""
        # Runs have the resource of before.
        self.resource = {**self.resource, "spec": {**self.resource["spec"], **spec}}
        self._read_spec()
        self.generation += 1
        self.version += 1
        self.notify()

    def _read_spec(self) -> None:
        self.spec = parse_pipeline(self.resource).spec
        self._spec_hash = resources.hash_spec(self.resource)

    def notify(self) -> None:
        """Let the operator's watch see a change, in a second or two."""
        self._world.schedule.call_later(
            0.5 + self._world.random.random(), self._world.operator.wake
        )

    def patch(self, status: PipelineStatus, version: int) -> bool:
        """Store a status; False where the pipeline was changed since it was read."""
        if version != self.version:
            return False
        self.status = status
        self.version += 1
        return True

    def read(self) -> tuple[Observed, int]:
        """Return what the operator observes, and the resourceVersion of the pipeline."""
        lake = self._world.lake
        head = None if lake.head is None else str(lake.head)
        unchanged = lake.head == self.head_at_start
        observed = Observed(
            namespace="default",
            name="shop",
            generation=self.generation,
            spec=self.spec,
            status=self.status,
            spec_hash=self._spec_hash,
            runs=self._see_all(),
            heads={TABLE: head},
            old_heads=frozenset({TABLE}) if unchanged else frozenset(),
        )
        return observed, self.version

    def _see_all(self) -> tuple[RunSeen, ...]:
        now = BEGIN + timedelta(seconds=self._world.schedule.now)
        runs = tuple(self._see(run, now) for run in self.applications.values())
        return self._renewals.judge_current(("default", "shop"), self.status.current_run, runs, now)

    def _see(self, run: PlayedApplication, now: datetime) -> RunSeen:
        process = run.process
        report = run.report
        started = None if run.started is None else BEGIN + timedelta(seconds=run.started)
        if run.removed:
            lost = Failure.of(NodeLost("its node does not answer"))
            return RunSeen(run.name, run.epoch, RunPhase.FAILED, False, started, report, lost)
        if process is None:
            return RunSeen(run.name, run.epoch, RunPhase.PENDING, True)
        if run.lost:
            lost = Failure.of(NodeLost("its node does not answer"))
            return RunSeen(
                run.name, run.epoch, RunPhase.RUNNING, True, started, report, lost, given_up=True
            )
        if process.alive:
            if report is not None and process.paused_until <= self._world.schedule.now:
                # Of the renewals that no one sees, the last one is enough.
                report = report.model_copy(update={"updated_at": now})
            return RunSeen(run.name, run.epoch, RunPhase.RUNNING, True, started, report)
        good = report is not None and report.finished and report.outcome is None
        phase = RunPhase.SUCCEEDED if good else RunPhase.FAILED
        return RunSeen(run.name, run.epoch, phase, False, started, report)

    def lose(self, process: PlayedProcess, *, hangs_for: float = 0.0) -> None:
        """Cut the node of a driver from the API server, and let it hang for so many seconds."""
        for run in self.applications.values():
            if run.process is process:
                run.lost = True
        process.paused_until = max(process.paused_until, self._world.schedule.now + hangs_for)
        self.notify()

    def freeze(self, process: PlayedProcess, *, seconds: float) -> None:
        """Let a driver hang for so many seconds; its node answers, and says that it runs."""
        for run in self.applications.values():
            if run.process is process:
                run.frozen = True
        process.paused_until = self._world.schedule.now + seconds
        self.notify()

    def is_frozen(self, run: PlayedApplication) -> bool:
        """Return whether the driver hangs at present."""
        process = run.process
        hangs = process is not None and process.paused_until > self._world.schedule.now
        return run.frozen and hangs

    def act(self, action: Action) -> None:
        """Carry out an action of the operator."""
        match action:
            case CreateRun():
                self.create(action)
            case AskRun():
                self.ask(action)
            case StopRun():
                self.stop(action)
            case ForgetRun(name):
                self.applications.pop(name, None)

    def create(self, action: CreateRun) -> None:
        """Create a run, unless there is one of that name; its driver starts seconds later."""
        record, world = action.run, self._world
        if record.name in self.applications:
            return
        run = PlayedApplication(record.name, record.epoch, record.run_id, world.lake.head)
        run.stop = Flag(lambda: world.schedule)
        self.applications[record.name] = run
        self.head_at_start = world.lake.head
        request = RunRequest(
            run_id=str(record.run_id),
            mode=RunMode.of(record.kind),
            tables=action.tables,
            reexport=action.reexport,
            pipeline=self.resource,
            owner=OWNER,
            epoch=record.epoch,
            continuous=action.continuous,
            poll_seconds=60,
            report_path="report.json",
        )
        world.log(f"run {record.name} epoch {record.epoch} {request.mode} {action.reexport}")

        def start() -> None:
            # It may have been stopped before it began.
            if self.applications.get(run.name) is run:
                run.started = world.schedule.now
                run.process = world.schedule.start(run.name, lambda: _drive(world, run, request))

        world.schedule.call_later(1.0 + world.random.random() * 4, start)

    def ask(self, action: AskRun) -> None:
        """Change the ConfigMap of a question, which the kubelet brings up to a minute later."""
        run, asked = self.applications.get(action.run.name), action.question
        if run is None or run.asked == asked:
            return
        run.asked = asked
        self._world.log(f"run {run.name} is asked {asked.id if asked else 'nothing more'}")

        def bring() -> None:
            run.question = run.asked

        self._world.schedule.call_later(1.0 + self._world.random.random() * 60, bring)

    def stop(self, action: StopRun) -> None:
        """Ask a run to end, or end it; one whose node is lost is removed by force.

        So is one that hangs in a disk that does not answer: it goes on when nobody knows of it.
        """
        run = self.applications.get(action.name)
        if run is None:
            return
        if run.lost or self.is_frozen(run):
            run.removed = True
        elif action.graceful and run.stop is not None:
            run.stop.set()
        elif run.process is not None:
            self._world.kill_driver(run.process)


def _drive(world: "World", run: PlayedApplication, request: RunRequest) -> None:
    assert run.stop is not None
    stop: Any = run.stop
    spark: Any = Session()
    driver = PipelineRun(request, spark, stop, question_path=run.name)
    # The second receiver of reports is the driver's own pod.
    driver.reporter._sink = run
    result = driver.run()
    world.cluster.notify()
    outcome = type(result.outcome).__name__ if result.outcome else "well"
    world.log(f"{run.name} ended {outcome}: {result.outcome or ''}")


class SimulatedOperator:
    """The operator's loop around `decide`, with a status that is durable before it acts."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.stale: tuple[Observed, int] | None = None
        """An old view, which the next reconcile takes for the present one."""
        self.crash_at: str | None = None
        """Where the next reconcile dies: before the status, or before the actions."""
        self._turns = 0

    def wake(self) -> None:
        """Reconcile now, and again when that is due."""
        self._turns += 1
        turn = self._turns
        wait = self._reconcile()

        def wake_again() -> None:
            # Unless a change has woken it since.
            if turn == self._turns:
                self.wake()

        self._world.schedule.call_later(wait, wake_again)

    def _reconcile(self) -> float:
        world, cluster = self._world, self._world.cluster
        world.tick()
        (observed, version), self.stale = self.stale or cluster.read(), None
        now = BEGIN + timedelta(seconds=world.schedule.now)
        decision = decide(observed, now)
        crash, self.crash_at = self.crash_at, None
        if crash == "before status":
            return 1.0
        if decision.status != observed.status and not cluster.patch(decision.status, version):
            return 0.5
        if crash == "before actions":
            return 1.0
        for action in decision.actions:
            cluster.act(action)
        if decision.requeue_after == 0.0:
            return 0.1
        # A live run is read again where it ends; the rest is a safety net. Of one that hangs it is
        # the only way, so it is read as often as by the operator.
        live = any(seen.live for seen in observed.runs)
        least = 300.0 if live else 1.0
        if any(map(cluster.is_frozen, cluster.applications.values())):
            least = WATCHED_SECONDS
        return min(max(decision.requeue_after or 600.0, least), 600.0)
