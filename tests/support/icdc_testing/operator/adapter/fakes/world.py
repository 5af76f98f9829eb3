"""A pipeline on a fake API server and the adapter that works on it, for unit tests."""

import asyncio

from icdc_api.status.pipeline_status import PipelineStatus
from icdc_api.status.runs import RunState, RunStatus
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.runs.adapter import ClusterAdapter
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.core import decide
from icdc_operator.core.observed import CreateRun, Decision, RunSeen, StopRun
from icdc_operator.manifests.launch import InstallSettings
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.fakes.api import FakeServer
from icdc_testing.operator.adapter.objects import NOW, OWNER, RUN
from icdc_testing.operator.deciding.pipelines import run_record

APPLICATION = kinds.APPLICATION.build_path("default", RUN)
POD = kinds.POD.build_path("default", f"{RUN}-driver")
CONFIG_MAP = kinds.CONFIG_MAP.build_path("default", RUN)
PIPELINE = kinds.PIPELINE.build_path("default", "shop")
PLANNED = run_record(state=RunState.PLANNED, started_at=None)
CREATE = CreateRun(PLANNED, continuous=False)


class FakeWorld:
    """A pipeline on a fake server, and an adapter that stays."""

    def __init__(
        self, *, run: RunStatus | None = PLANNED, server: FakeServer | None = None
    ) -> None:
        self.server = server or FakeServer()
        self.now = NOW
        status = PipelineStatus(observed_generation=1, current_run=run)
        self.put_pipeline(status=status.to_resource())
        self.adapter = ClusterAdapter(
            self.server.make_api(), InstallSettings(image="spark"), now=lambda: self.now
        )

    def put_pipeline(self, **more: object) -> None:
        resource = {**make_minimal(), **more}
        resource["metadata"] = {
            "name": "shop",
            "namespace": "default",
            "uid": OWNER["uid"],
            "generation": 1,
        }
        self.server.add(PIPELINE, resource)

    def observe(self) -> Observation:
        observation = asyncio.run(self.adapter.observe("default", "shop"))
        assert observation is not None
        return observation

    def run(self) -> RunSeen:
        (only,) = self.observe().observed.runs
        return only

    def act(self, action: CreateRun | StopRun) -> None:
        asyncio.run(self.adapter.act(self.observe(), action))

    def step(self) -> Decision:
        async def take_steps() -> Decision:
            observation = await self.adapter.observe("default", "shop")
            assert observation is not None
            decision = decide.decide(observation.observed, self.now)
            if decision.status != observation.observed.status:
                observation = await self.adapter.save(observation, decision.status)
            for action in decision.actions:
                await self.adapter.act(observation, action)
            return decision

        return asyncio.run(take_steps())
