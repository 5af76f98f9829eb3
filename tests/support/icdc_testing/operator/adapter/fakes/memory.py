"""A pipeline in memory in place of a cluster: the border at which the reconciler is tested."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from icdc_api.status.pipeline_status import PipelineStatus, parse_status
from icdc_operator.cluster.kube.api_errors import Conflict
from icdc_operator.cluster.loop.admission import Admission
from icdc_operator.cluster.loop.reconciler import Reconciler
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.core.events import Event
from icdc_operator.core.observed import Action, CreateRun, ForgetRun, Observed, RunPhase, RunSeen
from icdc_testing.operator.deciding.pipelines import NOW

SHOP = PipelineKey("default", "shop")


@dataclass
class ClusterCall:
    """One thing that was asked of the cluster."""

    what: str
    detail: object = None


class MemoryCluster:
    """One pipeline and its runs. `before` is called ahead of each request and may raise."""

    def __init__(self, observed: Observed) -> None:
        self.observed: Observed | None = observed
        self.version = 1
        self.now = NOW
        self.steps: list[ClusterCall] = []
        self.before: Callable[[str], None] = lambda _: None
        self.after: Callable[[str], None] = lambda _: None
        self.forgotten: list[PipelineKey] = []

    def forget(self, key: PipelineKey) -> None:
        self.forgotten.append(key)

    async def observe(self, namespace: str, name: str) -> Observation | None:
        self._request("observe")
        assert (namespace, name) == SHOP
        if self.observed is None:
            return None
        metadata = {
            "namespace": namespace,
            "name": name,
            "uid": "uid-1",
            "resourceVersion": str(self.version),
        }
        return Observation({"metadata": metadata}, self.observed)

    async def save(self, observation: Observation, status: PipelineStatus) -> Observation:
        self._request("save")
        version = observation.pipeline["metadata"]["resourceVersion"]
        if self.observed is None or version != str(self.version):
            raise Conflict("it was written since")
        self.steps.append(ClusterCall("save", status))
        self.touch()
        # As it is when it comes back from the API server.
        self.observed = replace(self.observed, status=parse_status(status.to_resource()))
        self.after("save")
        saved = await self.observe(*SHOP)
        assert saved is not None
        return saved

    async def confirm(self, observation: Observation) -> None:
        self._request("confirm")
        if observation.pipeline["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict("it was written since")

    async def act(self, observation: Observation, action: Action) -> None:
        self._request("act")
        assert self.observed is not None
        self.steps.append(ClusterCall("act", action))
        if isinstance(action, CreateRun):
            run = action.run
            seen = RunSeen(run.name, run.epoch, RunPhase.PENDING, writer_alive=True)
            others = [other for other in self.observed.runs if other.name != run.name]
            self.observed = replace(self.observed, runs=(*others, seen))
        if isinstance(action, ForgetRun):
            left = tuple(other for other in self.observed.runs if other.name != action.name)
            self.observed = replace(self.observed, runs=left)
        self.after("act")

    async def post(self, observation: Observation, events: Sequence[Event]) -> None:
        self.steps.append(ClusterCall("events", tuple(event.reason for event in events)))

    def touch(self) -> None:
        """Write the pipeline as somebody else would."""
        self.version += 1

    def see(self, **changes: object) -> None:
        """Change the one run that is seen."""
        assert self.observed is not None
        (run,) = self.observed.runs
        self.observed = replace(self.observed, runs=(replace(run, **changes),))  # type: ignore[arg-type]

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def read_clock(self) -> datetime:
        return self.now

    def make_reconciler(
        self, metrics: Metrics | None = None, admission: Admission | None = None
    ) -> Reconciler:
        """Return a new operator, as after a crash."""
        return Reconciler(
            self,
            now=self.read_clock,
            post_events=self.post,
            metrics=metrics or Metrics(),
            admission=admission,
        )

    def take_steps(self, *what: str) -> list[ClusterCall]:
        """Return the steps of these kinds so far, and forget them with all others."""
        steps, self.steps = self.steps, []
        return [step for step in steps if step.what in (what or ("save", "events", "act"))]

    def _request(self, what: str) -> None:
        self.before(what)
