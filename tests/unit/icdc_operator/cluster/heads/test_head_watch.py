"""Following the heads of idle pipelines: when a look is asked for, and how often catalogs are."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import pytest

from icdc_api.spec.pipeline import PipelineSpec
from icdc_operator.cluster.heads import head_watch
from icdc_operator.cluster.heads.head_watch import FAILING_SECONDS, HeadWatch, KnownHeads
from icdc_operator.cluster.heads.table_heads import Head, TableBranch, Unseen
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey
from icdc_testing.operator.deciding.pipelines import make_spec
from icdc_testing.waiting.async_wait import wait_until

pytestmark = pytest.mark.unit

SHOP = PipelineKey("default", "shop")
ORDERS = "shop.orders"
AWAY = Unseen("the catalog is away")


class WatchWorld:
    """A watch on tables that are what `tables` says; time passes by `turn` alone."""

    def __init__(self) -> None:
        self.tables: dict[str, Head | Unseen] = {ORDERS: Head("7")}
        self.error: Exception | None = None
        self.metrics = Metrics()
        self.woken: list[PipelineKey] = []
        self.reads = 0
        self.pauses: list[float] = []
        self.seconds = 0.0
        self._paused = 0
        self._turns = asyncio.Semaphore(0)
        self.watch = HeadWatch(
            self, self.woken.append, self.metrics, clock=lambda: self.seconds, sleep=self._pause
        )

    async def read(self, namespace: str, tables: Sequence[TableBranch]) -> dict[str, Head | Unseen]:
        assert namespace == "default"
        self.reads += 1
        if self.error is not None:
            raise self.error
        return {table.name: self.tables[table.name] for table in tables}

    def follow(self, *, after: int = 1, spec: PipelineSpec | None = None) -> KnownHeads:
        return self.watch.follow(SHOP, spec or build_spec(), after=after)

    async def begin(self, *, after: int = 1, spec: PipelineSpec | None = None) -> KnownHeads:
        """Follow until the first answer: what is known then."""
        reads = self.reads
        self.follow(after=after, spec=spec)
        await wait_until(lambda: self.reads > reads or self._paused > 0, "it reads or pauses")
        if self.reads == reads:
            self._turns.release()
        await wait_until(lambda: self.reads > reads and self._paused > 0, "it pauses after it read")
        return self.follow(after=after, spec=spec)

    async def turn(self) -> int:
        """Let the pause pass and the next one begin: how many looks were asked for."""
        before, pauses = len(self.woken), len(self.pauses)
        self._turns.release()
        await wait_until(lambda: len(self.pauses) > pauses, "it pauses again")
        return len(self.woken) - before

    def count_unseen(self) -> float | None:
        labels = {"namespace": "default", "name": "shop"}
        return self.metrics.registry.get_sample_value("icdc_tables_without_head", labels)

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._paused += 1
        try:
            await self._turns.acquire()
        finally:
            self._paused -= 1
        self.seconds += seconds


def build_spec(*tables: str, seconds: int = 10) -> PipelineSpec:
    return make_spec(*tables, changelog={"pollIntervalSeconds": seconds})


def run(story: Callable[[WatchWorld], Awaitable[None]]) -> None:
    async def play_and_close() -> None:
        world = WatchWorld()
        await story(world)
        await world.watch.close()
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(play_and_close())


def test_nothing_is_known_before_the_first_answer_which_asks_for_a_look() -> None:
    async def play(world: WatchWorld) -> None:
        assert world.follow() == KnownHeads(None)
        assert await world.begin() == KnownHeads({ORDERS: "7"})
        assert world.woken == [SHOP]

    run(play)


def test_a_look_is_asked_for_only_when_something_changed() -> None:
    async def play(world: WatchWorld) -> None:
        await world.begin()
        assert [await world.turn() for _ in range(3)] == [0, 0, 0]
        assert world.pauses == [10.0] * 4
        for change in (Head("8"), AWAY, Head("8"), Head(None)):
            world.tables[ORDERS] = change
            assert await world.turn() == 1
            assert await world.turn() == 0
        assert world.follow() == KnownHeads({ORDERS: None})

    run(play)


def test_a_look_at_a_pipeline_that_is_followed_reads_nothing() -> None:
    async def play(world: WatchWorld) -> None:
        await world.begin()
        for _ in range(5):
            world.follow()
        assert world.reads == 1

    run(play)


def test_what_was_read_before_a_run_says_nothing_after_it() -> None:
    async def play(world: WatchWorld) -> None:
        await world.begin(after=1)
        world.watch.leave(SHOP)
        assert world.follow(after=2) == KnownHeads(None)

    run(play)


def test_a_head_that_the_last_run_could_have_taken_in_is_old() -> None:
    async def play(world: WatchWorld) -> None:
        world.tables["shop.items"] = Head("1")
        spec = build_spec(ORDERS, "shop.items")
        assert (await world.begin(after=1, spec=spec)).old == set()
        world.watch.leave(SHOP)
        world.tables[ORDERS] = Head("8")
        observation = await world.begin(after=2, spec=spec)
        assert observation.old == {"shop.items"}
        # Gone and back: the run between could not see it.
        world.tables["shop.items"] = AWAY
        await world.turn()
        world.tables["shop.items"] = Head("1")
        await world.turn()
        assert world.follow(after=2, spec=spec).old == set()

    run(play)


def test_a_short_run_does_not_make_the_reads_more_frequent() -> None:
    async def play(world: WatchWorld) -> None:
        await world.begin(after=1)
        world.watch.leave(SHOP)
        world.seconds += 4.0
        world.follow(after=2)
        await wait_until(lambda: len(world.pauses) == 2, "it pauses before it reads")
        assert (world.pauses[-1], world.reads) == (6.0, 1)

    run(play)


def test_another_spec_is_read_anew() -> None:
    async def play(world: WatchWorld) -> None:
        world.tables["shop.items"] = Head("1")
        await world.begin()
        assert world.follow(spec=build_spec(ORDERS, "shop.items")) == KnownHeads(None)

    run(play)


def test_a_pipeline_of_which_nothing_can_be_read_is_read_less_often() -> None:
    async def play(world: WatchWorld) -> None:
        world.tables[ORDERS] = AWAY
        assert await world.begin() == KnownHeads({})
        for _ in range(6):
            await world.turn()
        assert world.pauses[:5] == [20.0, 40.0, 80.0, 160.0, FAILING_SECONDS]
        assert len(world.woken) == 1
        world.tables[ORDERS] = Head("7")
        assert await world.turn() == 1
        assert world.pauses[-1] == 10.0

    run(play)


def test_what_cannot_be_looked_at_is_said_once_and_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play(world: WatchWorld) -> None:
        names = [f"shop.t{number}" for number in range(5)]
        world.tables.update(dict.fromkeys(names, AWAY))
        spec = build_spec(ORDERS, *names)
        await world.begin(spec=spec)
        for _ in range(3):
            await world.turn()
        assert world.count_unseen() == 5
        world.tables.update(dict.fromkeys(names, Head("1")))
        await world.turn()
        assert world.count_unseen() == 0
        world.watch.forget(SHOP)
        assert world.count_unseen() is None

    with caplog.at_level(logging.INFO):
        run(play)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert "shop.t0, shop.t1, shop.t2 and 2 more cannot be read: the catalog" in warned[0]
    assert "can be read again" in caplog.records[-1].getMessage()


def test_a_watch_that_broke_asks_for_a_look_which_begins_it_anew(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_watch, "BROKEN_SECONDS", 0.0)

    async def play(world: WatchWorld) -> None:
        world.error = ZeroDivisionError()
        world.follow()
        broken = "icdc_unexpected_errors_total"
        await wait_until(lambda: world.metrics.registry.get_sample_value(broken) == 1, "it breaks")
        await wait_until(lambda: world.woken == [SHOP], "a look is asked for")
        world.error = None
        assert await world.begin() == KnownHeads({ORDERS: "7"})

    run(play)
    assert "please report it" in caplog.text
