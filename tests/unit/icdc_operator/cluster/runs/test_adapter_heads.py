"""The adapter and table heads: only idle pipelines are followed, and no look waits."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from icdc_api.status.pipeline_status import PipelineStatus, TableStatus
from icdc_api.status.runs import RunKind, RunState
from icdc_operator.cluster.heads.head_watch import HeadWatch
from icdc_operator.cluster.heads.table_heads import Head, TableBranch, Unseen
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey
from icdc_operator.cluster.runs.adapter import ClusterAdapter
from icdc_operator.core.decide import decide
from icdc_operator.core.observed import Observed
from icdc_operator.manifests.launch import InstallSettings
from icdc_testing.kube.stored_pipelines import make_minimal
from icdc_testing.operator.adapter.fakes.api import FakeServer
from icdc_testing.operator.adapter.objects import NOW, OWNER
from icdc_testing.operator.deciding.pipelines import make_caught_up, run_record
from icdc_testing.waiting.async_wait import wait_until

pytestmark = pytest.mark.unit

PIPELINE = kinds.PIPELINE.build_path("default", "shop")


class IdleWorld:
    """An idle pipeline on a fake server, whose one table is what `head` says."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.head: Head | Unseen = Head("7")
        self.reads = 0
        self.woken: list[PipelineKey] = []
        self.watch = HeadWatch(self, self.woken.append, Metrics())
        self.adapter = ClusterAdapter(
            self.server.make_api(),
            InstallSettings(image="spark"),
            heads=self.watch,
            now=lambda: NOW,
        )
        self.put()

    async def read(self, namespace: str, tables: Sequence[TableBranch]) -> dict[str, Head | Unseen]:
        self.reads += 1
        return {table.name: self.head for table in tables}

    def put(
        self, *tables: TableStatus, epoch: int = 1000, compared: bool = False, **spec: Any
    ) -> None:
        resource = make_minimal(**spec)
        name = resource["spec"]["tables"][0]["name"]
        index = resource["spec"]["tables"][0].get("index", name)
        table = make_caught_up(name).model_copy(update={"index": index})
        run = run_record(state=RunState.SUCCEEDED, epoch=epoch, finished_at=NOW)
        verify = run_record(
            kind=RunKind.VERIFY, state=RunState.SUCCEEDED, epoch=epoch + 1, finished_at=NOW
        )
        runs = (verify, run) if compared else (run,)
        status = PipelineStatus(
            observed_generation=1, last_run=runs[0], recent_runs=runs, tables=tables or (table,)
        )
        resource["status"] = status.to_resource()
        resource["metadata"] |= {"namespace": "default", "uid": OWNER["uid"], "generation": 1}
        self.server.add(PIPELINE, resource)

    async def poll(self) -> Observed:
        observation = await self.adapter.observe("default", "shop")
        assert observation is not None
        return observation.observed

    async def reconcile_when_woken(self) -> Observed:
        await self.poll()
        await wait_until(lambda: bool(self.woken), "a look is asked for")
        return await self.poll()


def test_an_idle_pipeline_is_told_its_heads_and_plans_a_run_only_for_news() -> None:
    async def play() -> None:
        world = IdleWorld()
        first = await world.poll()
        assert (first.heads, first.heads_watched, world.reads) == (None, True, 0)
        assert decide(first, NOW).status.current_run is None
        seen = await world.reconcile_when_woken()
        assert list((seen.heads or {}).values()) == ["7"]
        assert decide(seen, NOW).status.current_run is None
        # What was read before a run says nothing after it.
        world.put(epoch=2000)
        assert (await world.poll()).heads is None
        await world.watch.close()

    asyncio.run(play())


def test_news_make_a_run_and_show_in_the_status() -> None:
    async def play() -> None:
        world = IdleWorld()
        world.head = Head("8")
        seen = await world.reconcile_when_woken()
        decision = decide(seen, NOW)
        assert decision.status.current_run is not None
        (table,) = decision.status.tables
        assert (table.current_snapshot_id, table.snapshots_behind) == ("8", 1)
        await world.watch.close()

    asyncio.run(play())


def test_what_was_new_before_a_comparison_is_new_after_it() -> None:
    async def play() -> None:
        world = IdleWorld()
        world.head = Head("8")
        await world.reconcile_when_woken()
        world.put(compared=True)
        after = await world.poll()
        assert after.status.last_run is not None
        assert after.status.last_run.kind.inspects
        assert (list((after.heads or {}).values()), after.old_heads) == (["8"], frozenset())
        assert decide(after, NOW).status.current_run is not None
        await world.watch.close()

    asyncio.run(play())


def test_a_table_that_cannot_be_looked_at_is_left_out() -> None:
    async def play() -> None:
        world = IdleWorld()
        world.head = Unseen("away")
        assert (await world.reconcile_when_woken()).heads == {}
        await world.watch.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "spec",
    [{"suspend": True}, {"changelog": {"trigger": "Continuous"}}, {"mode": "Wrong"}],
)
def test_no_catalog_is_asked_for_a_pipeline_that_heads_do_not_matter_to(
    spec: dict[str, Any],
) -> None:
    async def play() -> None:
        world = IdleWorld()
        world.put(**spec)
        observed = await world.poll()
        assert (observed.heads, observed.heads_watched) == (None, False)
        assert len(asyncio.all_tasks()) == 1
        assert world.reads == 0

    asyncio.run(play())


def test_a_pipeline_that_is_gone_is_not_followed_any_more() -> None:
    async def play() -> None:
        world = IdleWorld()
        await world.reconcile_when_woken()
        del world.server.objects[PIPELINE]
        assert await world.adapter.observe("default", "shop") is None
        world.adapter.forget(PipelineKey("default", "shop"))
        await wait_until(lambda: len(asyncio.all_tasks()) == 1, "nothing follows it")

    asyncio.run(play())
