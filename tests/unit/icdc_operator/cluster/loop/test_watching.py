"""The informer is kept watching, whatever ends it."""

import asyncio
from collections.abc import Callable

import pytest

from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api_errors import Denied, NotFound, Unavailable
from icdc_operator.cluster.kube.kinds import Kind, Resource
from icdc_operator.cluster.kube.transport import JSON
from icdc_operator.cluster.loop.informer import WatchError
from icdc_operator.cluster.loop.watch_age import WatchAge
from icdc_operator.cluster.loop.watching import WatchBackoff, Watching
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.queue import PipelineKey

pytestmark = pytest.mark.unit

PACE = WatchBackoff(first=0.001, cap=0.002, unknown=0.001)


class WatchedCluster:
    """Knows some kinds, and ends watches as the test says."""

    def __init__(self, *kind: Kind) -> None:
        self.known = set(kind)
        self.denied: set[Kind] = set()
        self.namespace: str | None = None
        self.watch_age = WatchAge(lambda: 0.0)
        self.ends: list[Exception] = []
        self.watches: list[bool] = []
        self.asked: list[Kind] = []
        self.when_asked: Callable[[int], None] = lambda _: None
        self.changed = asyncio.Event()

    async def list_objects(
        self, kind: Kind, namespace: str | None, *, selector: str = "", accept: str = JSON
    ) -> list[Resource]:
        assert namespace == self.namespace
        self.asked.append(kind)
        self.when_asked(len(self.asked))
        if kind not in self.known:
            raise NotFound("the server could not find the requested resource")
        if kind in self.denied:
            raise Denied(f"list {kind.plural}: forbidden")
        return []

    async def watch(
        self, *, applications: bool, started: Callable[[], None] = lambda: None
    ) -> None:
        self.watches.append(applications)
        started()
        self.changed.set()
        if self.ends:
            raise self.ends.pop()
        await asyncio.Event().wait()

    async def watch_until(
        self, holds: Callable[[], bool], metrics: Metrics, namespace: str | None = None
    ) -> None:
        """Watch until `holds`."""
        self.namespace = namespace
        watching = Watching(self, self, watch_age=self.watch_age, metrics=metrics, pace=PACE)
        task = asyncio.create_task(watching.run())
        async with asyncio.timeout(60):
            while not holds():
                await self.changed.wait()
                self.changed.clear()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def count_restarts(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("icdc_watch_restarts_total")


def test_a_watch_that_ends_is_started_anew_and_counted() -> None:
    async def play() -> None:
        cluster, metrics = WatchedCluster(kinds.PIPELINE, kinds.APPLICATION), Metrics()
        cluster.ends = [WatchError("410"), Unavailable("no answer")]
        await cluster.watch_until(lambda: len(cluster.watches) == 3, metrics)
        assert count_restarts(metrics) == 2
        assert cluster.watches == [True] * 3

    asyncio.run(play())


def test_pipelines_are_watched_even_without_spark_operator() -> None:
    async def play() -> None:
        cluster = WatchedCluster(kinds.PIPELINE)
        await cluster.watch_until(lambda: bool(cluster.watches), Metrics())
        assert cluster.watches == [False]

    asyncio.run(play())


def test_spark_applications_are_watched_once_the_cluster_knows_them() -> None:
    async def play() -> None:
        cluster, metrics = WatchedCluster(kinds.PIPELINE), Metrics()

        def install(asked: int) -> None:
            if asked == 8:
                cluster.known.add(kinds.APPLICATION)

        cluster.when_asked = install
        await cluster.watch_until(lambda: len(cluster.watches) == 2, metrics)
        assert cluster.watches == [False, True]
        assert count_restarts(metrics) == 0

    asyncio.run(play())


def test_nothing_is_watched_until_the_cluster_knows_pipelines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        cluster = WatchedCluster(kinds.APPLICATION)

        def install(asked: int) -> None:
            if asked == 5:
                assert cluster.watches == []
                cluster.known.add(kinds.PIPELINE)

        cluster.when_asked = install
        await cluster.watch_until(lambda: bool(cluster.watches), Metrics())

    asyncio.run(play())
    messages = [record.message for record in caplog.records]
    assert sum("install the CRD" in message for message in messages) == 1


@pytest.mark.parametrize(
    ("namespace", "named", "leave"),
    [
        ("team-b", "icebergcdcpipelines of namespace team-b", True),
        (None, "icebergcdcpipelines of all namespaces", False),
    ],
)
def test_a_namespace_that_is_denied_is_watched_once_it_can_be_read_and_named_once(
    namespace: str | None, named: str, leave: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        cluster, metrics = WatchedCluster(kinds.PIPELINE, kinds.APPLICATION), Metrics()
        cluster.denied = {kinds.PIPELINE}

        def allow(asked: int) -> None:
            if asked == 5:
                assert cluster.watches == []
                cluster.denied.clear()

        cluster.when_asked = allow
        await cluster.watch_until(lambda: bool(cluster.watches), metrics, namespace)
        assert cluster.watches == [True]
        assert count_restarts(metrics) == 0

    with caplog.at_level("INFO"):
        asyncio.run(play())
    refused, given = [record.message for record in caplog.records]
    assert refused.startswith(f"{named} cannot be watched: list icebergcdcpipelines: forbidden")
    assert "action required: the platform engineer must give the operator its role" in refused
    assert ("or remove it from watchNamespaces" in refused) == leave
    assert given == f"{named} can be watched now"


def test_pipelines_are_watched_even_where_spark_applications_are_denied(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        cluster, metrics = WatchedCluster(kinds.PIPELINE, kinds.APPLICATION), Metrics()
        cluster.denied = {kinds.APPLICATION}

        def allow(asked: int) -> None:
            if asked == 8:
                cluster.denied.clear()

        cluster.when_asked = allow
        await cluster.watch_until(lambda: len(cluster.watches) == 2, metrics, "team-b")
        assert cluster.watches == [False, True]

    asyncio.run(play())
    (refused,) = [record.message for record in caplog.records]
    assert refused.startswith("sparkapplications of namespace team-b cannot be watched")


def test_a_new_watch_of_one_namespace_forgets_no_other() -> None:
    here, there = PipelineKey("team-b", "shop"), PipelineKey("team-a", "shop")

    async def play() -> None:
        cluster = WatchedCluster(kinds.PIPELINE, kinds.APPLICATION)
        cluster.watch_age.note_event(here, "1", deleted=False)
        cluster.watch_age.note_event(there, "1", deleted=False)
        await cluster.watch_until(lambda: bool(cluster.watches), Metrics(), "team-b")
        assert cluster.watch_age.get_versions() == {there: "1"}

    asyncio.run(play())
