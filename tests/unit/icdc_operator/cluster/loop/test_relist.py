"""The net below lost events: what is listed, and what becomes due by it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from icdc_operator.cluster.kube.api_errors import Denied, Unavailable
from icdc_operator.cluster.kube.kinds import PIPELINE, Kind, Resource
from icdc_operator.cluster.kube.transport import JSON
from icdc_operator.cluster.loop.relist import ROUNDS, Relist
from icdc_operator.cluster.loop.watch_age import WatchAge
from icdc_operator.cluster.queue import PipelineKey, WorkQueue

pytestmark = pytest.mark.unit


class ListingCluster:
    """Lists the pipelines of the test, and the parts that a Relist needs."""

    def __init__(self, *namespaces: str) -> None:
        self.now = 0.0
        self.versions: dict[PipelineKey, str] = {}
        self.reconciled: dict[PipelineKey, str] = {}
        self.faults: list[Exception] = []
        self.denied: set[str | None] = set()
        self.lists = 0
        self.when_listed: Callable[[int], None] = lambda _: None
        self.listings: list[tuple[set[PipelineKey], int]] = []
        self.queue = WorkQueue(lambda: self.now)
        self.watch_age = WatchAge(lambda: self.now)
        self.relist = Relist(
            self,
            namespaces or (None,),
            queue=self.queue,
            watch_age=self.watch_age,
            last_versions=lambda: dict(self.reconciled),
            listed=lambda keys: self.listings.append((set(keys), self.queue.depth)),
            retry_seconds=0.0,
        )

    async def list_objects(
        self, kind: Kind, namespace: str | None, *, selector: str = "", accept: str = JSON
    ) -> list[Resource]:
        assert kind is PIPELINE
        self.lists += 1
        self.when_listed(self.lists)
        if self.faults:
            raise self.faults.pop()
        if namespace in self.denied:
            raise Denied(f"list of {namespace}: forbidden")
        return [
            {"metadata": {"namespace": key.namespace, "name": key.name, "resourceVersion": at}}
            for key, at in self.versions.items()
            if namespace in (None, key.namespace)
        ]

    def take_due(self) -> set[PipelineKey]:
        keys: set[PipelineKey] = set()
        while (key := self.queue.take()) is not None:
            keys.add(key)
            self.queue.finish(key)
        return keys


def make_keys(count: int, namespace: str = "default") -> list[PipelineKey]:
    return [PipelineKey(namespace, f"pipeline-{number}") for number in range(count)]


def test_all_pipelines_are_due_when_none_was_looked_at() -> None:
    cluster = ListingCluster()
    cluster.versions = dict.fromkeys(make_keys(50), "1")
    asyncio.run(cluster.relist.list_once())
    assert cluster.listings == [(set(make_keys(50)), 0)]
    assert cluster.take_due() == set(make_keys(50))
    assert cluster.relist.done.is_set()


def test_only_the_namespaces_of_the_scope_are_listed() -> None:
    cluster = ListingCluster("a", "b")
    for namespace in "abc":
        cluster.versions[PipelineKey(namespace, "shop")] = "1"
    asyncio.run(cluster.relist.list_once())
    assert cluster.take_due() == {PipelineKey("a", "shop"), PipelineKey("b", "shop")}


def test_what_changed_or_went_unseen_is_due_at_once() -> None:
    cluster = ListingCluster()
    same, changed, missing, new = make_keys(4)
    cluster.reconciled = {same: "1", changed: "2", missing: "3"}
    cluster.versions = {same: "1", changed: "9", new: "4"}
    asyncio.run(cluster.relist.list_once())
    assert cluster.take_due() - {same} == {changed, missing, new}


def test_within_a_number_of_lists_each_unchanged_pipeline_is_looked_at_once() -> None:
    cluster = ListingCluster()
    cluster.versions = dict.fromkeys(make_keys(200), "1")
    cluster.reconciled = dict(cluster.versions)
    rounds: list[set[PipelineKey]] = []
    for _ in range(ROUNDS):
        asyncio.run(cluster.relist.list_once())
        cluster.now += 1e6
        rounds.append(cluster.take_due())
    assert set().union(*rounds) == set(make_keys(200))
    assert sum(map(len, rounds)) == 200
    assert max(map(len, rounds)) < 200 / ROUNDS * 3


def test_a_list_that_fails_changes_nothing_and_is_no_end() -> None:
    cluster = ListingCluster()
    cluster.faults = [Unavailable("no answer")]
    with pytest.raises(Unavailable):
        asyncio.run(cluster.relist.list_once())
    assert not cluster.relist.done.is_set()


SHOP_A, SHOP_B = PipelineKey("a", "shop"), PipelineKey("b", "shop")


def test_a_namespace_that_is_denied_holds_up_no_other() -> None:
    cluster = ListingCluster("b", "a")
    cluster.versions = {SHOP_A: "1", SHOP_B: "1"}
    cluster.denied = {"b"}
    asyncio.run(cluster.relist.list_once())
    assert cluster.relist.done.is_set()
    assert cluster.listings == [({SHOP_A}, 0)]
    assert cluster.take_due() == {SHOP_A}
    cluster.denied.clear()
    asyncio.run(cluster.relist.list_once())
    assert SHOP_B in cluster.take_due()


def test_pipelines_of_a_namespace_that_is_denied_are_not_taken_for_deleted() -> None:
    cluster = ListingCluster("a", "b")
    cluster.versions = cluster.reconciled = {SHOP_A: "1", SHOP_B: "1"}
    for key, version in cluster.versions.items():
        cluster.watch_age.note_event(key, version, deleted=False)
    cluster.denied = {"b"}
    for _ in range(ROUNDS):
        asyncio.run(cluster.relist.list_once())
        cluster.now += 1e6
        assert SHOP_B not in cluster.take_due()
    # Else the watch, which still goes on, would seem to have missed it later on.
    assert cluster.watch_age.get_versions() == cluster.versions


def test_what_a_watch_missed_is_not_judged_while_its_namespace_is_denied() -> None:
    cluster = ListingCluster("a", "b")
    cluster.watch_age.note_event(SHOP_A, "1", deleted=False)
    cluster.versions = {SHOP_A: "1", SHOP_B: "1"}
    asyncio.run(cluster.relist.list_once())
    cluster.denied = {"b"}
    asyncio.run(cluster.relist.list_once())
    cluster.now = 400.0
    assert cluster.watch_age.missed_seconds == 0.0


@pytest.mark.parametrize("namespaces", [(), ("a",), ("a", "b")])
def test_an_installation_without_any_right_is_not_ready_and_says_so_once(
    namespaces: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ListingCluster(*namespaces)
    cluster.versions = {SHOP_A: "1"}
    cluster.denied = {None, "a", "b"}

    def allow(lists: int) -> None:
        if lists == 20:
            assert not cluster.relist.done.is_set()
            cluster.denied.clear()

    cluster.when_listed = allow

    async def play() -> None:
        task = asyncio.create_task(cluster.relist.run())
        await asyncio.wait_for(cluster.relist.done.wait(), timeout=60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())
    assert [record.message for record in caplog.records] == [
        f"pipelines cannot be listed: list of {(namespaces or (None,))[0]}: forbidden"
    ]


def test_a_dead_watch_is_found_by_a_list() -> None:
    cluster = ListingCluster()
    (shop,) = make_keys(1)
    cluster.watch_age.note_event(shop, "1", deleted=False)
    cluster.versions = {shop: "2"}
    asyncio.run(cluster.relist.list_once())
    cluster.now = 400.0
    assert cluster.watch_age.missed_seconds == 400.0


def test_lists_are_repeated_after_a_fault() -> None:
    cluster = ListingCluster()
    cluster.faults = [Unavailable("no answer"), Unavailable("no answer")]

    async def play() -> Any:
        lists = asyncio.create_task(cluster.relist.run())
        await asyncio.wait_for(cluster.relist.done.wait(), timeout=60)
        lists.cancel()
        return await asyncio.gather(lists, return_exceptions=True)

    assert isinstance(asyncio.run(play())[0], asyncio.CancelledError)
