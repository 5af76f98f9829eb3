"""Events for people: posted once each, and never of any importance."""

import asyncio
from typing import Any

import pytest

from icdc_operator.cluster.kube.api_errors import Conflict, Denied
from icdc_operator.cluster.loop.posting import MAX_EVENTS, Poster
from icdc_operator.cluster.metrics import Metrics
from icdc_operator.cluster.runs.observation import Observation
from icdc_operator.core.events import Event
from icdc_testing.operator.deciding.pipelines import make_observed, make_spec

pytestmark = pytest.mark.unit

STARTED = Event("RunStarted", "shop-e1-1")
FAILED = Event("RunFailed", "shop-e1-1: NodeLost: gone", warning=True)


class EventStore:
    """Keeps events by name, as the API server does."""

    def __init__(self, fault: Exception | None = None, *, hangs: bool = False) -> None:
        self.events: dict[str, tuple[str, str, bool]] = {}
        self._fault = fault
        self._hangs = hangs

    async def create_event(
        self, pipeline: dict[str, Any], *, name: str, reason: str, message: str, warning: bool
    ) -> None:
        if self._hangs:
            await asyncio.Event().wait()
        if self._fault is not None:
            raise self._fault
        if name in self.events:
            raise Conflict("it exists")
        self.events[name] = (reason, message, warning)


def make_observation(version: str = "7") -> Observation:
    metadata = {"namespace": "default", "name": "shop", "uid": "u", "resourceVersion": version}
    return Observation({"metadata": metadata}, make_observed(make_spec()))


def count_events(metrics: Metrics, result: str) -> float:
    labels = {"result": result}
    return metrics.registry.get_sample_value("icdc_events_posted_total", labels) or 0.0


def test_events_are_posted_with_their_words() -> None:
    store, metrics = EventStore(), Metrics()
    asyncio.run(Poster(store, metrics).post(make_observation(), [STARTED, FAILED]))
    assert list(store.events.values()) == [
        ("RunStarted", "shop-e1-1", False),
        ("RunFailed", "shop-e1-1: NodeLost: gone", True),
    ]
    assert all(name.startswith("shop.") and len(name) < 63 for name in store.events)
    assert count_events(metrics, "posted") == 2


def test_the_same_change_told_twice_is_one_event_and_another_change_another() -> None:
    store, metrics = EventStore(), Metrics()
    for version in ("7", "7", "8"):
        asyncio.run(Poster(store, metrics).post(make_observation(version), [STARTED]))
    assert len(store.events) == 2
    assert count_events(metrics, "dropped") == 0


def test_equal_events_of_one_change_are_each_told() -> None:
    store = EventStore()
    asyncio.run(Poster(store, Metrics()).post(make_observation(), [STARTED, STARTED]))
    assert len(store.events) == 2


def test_a_refusal_is_counted_and_not_raised() -> None:
    metrics = Metrics()
    poster = Poster(EventStore(Denied("events is forbidden")), metrics)
    asyncio.run(poster.post(make_observation(), [STARTED, FAILED]))
    assert count_events(metrics, "dropped") == 2


def test_a_slow_server_holds_nothing_up_for_long() -> None:
    metrics = Metrics()
    poster = Poster(EventStore(hangs=True), metrics, limit_seconds=0.01)
    asyncio.run(poster.post(make_observation(), [STARTED]))
    assert count_events(metrics, "dropped") == 1


def test_a_flood_is_cut() -> None:
    store, metrics = EventStore(), Metrics()
    asyncio.run(Poster(store, metrics).post(make_observation(), [STARTED] * 100))
    assert len(store.events) == MAX_EVENTS
    assert count_events(metrics, "dropped") == 100 - MAX_EVENTS
