"""Leader election by a Lease, on a store of the test and a clock of the test."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from icdc_operator.cluster.kube.api_errors import Conflict, NotFound, Unavailable
from icdc_operator.cluster.kube.kinds import Kind, Resource
from icdc_operator.cluster.leader import Leader, LeadershipLostError, Timing

pytestmark = pytest.mark.unit

TIMING = Timing(lease=15.0, renew=10.0, retry=2.0)


class LeaseStore:
    """An API server that knows one Lease."""

    def __init__(self) -> None:
        self.lease: Resource | None = None
        self.version = 0
        self.fault: Exception | None = None
        self.lost_answers = 0

    async def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        self._fail()
        return copy.deepcopy(self.lease)

    async def create(self, resource: Resource) -> Resource:
        self._fail()
        if self.lease is not None:
            raise Conflict("it exists")
        return self._store(resource)

    async def replace(self, resource: Resource) -> Resource:
        self._fail()
        if self.lease is None:
            raise NotFound("it is gone")
        if resource["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("it was written since")
        return self._store(resource)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault

    def _store(self, resource: Resource) -> Resource:
        self.version += 1
        self.lease = copy.deepcopy(resource)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        if self.lost_answers:
            self.lost_answers -= 1
            raise Unavailable("the answer was lost")
        return copy.deepcopy(self.lease)


class LeaderWorld:
    """A store, and time that passes when a candidate sleeps; `at` runs something at a time."""

    def __init__(self) -> None:
        self.store = LeaseStore()
        self.now = 0.0
        self.plan: list[tuple[float, Callable[[], None]]] = []

    def schedule(self, moment: float, action: Callable[[], None]) -> None:
        self.plan.append((moment, action))

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        due = [moment for moment in self.plan if moment[0] <= self.now]
        self.plan = [moment for moment in self.plan if moment[0] > self.now]
        for _, action in due:
            action()
        await asyncio.sleep(0)

    def make_candidate(self, identity: str) -> Leader:
        return Leader(
            self.store,
            name="operator",
            namespace="default",
            identity=identity,
            timing=TIMING,
            clock=lambda: self.now,
            sleep=self.sleep,
        )


@pytest.fixture
def world() -> LeaderWorld:
    return LeaderWorld()


def test_the_first_candidate_makes_the_lease_and_leads(world: LeaderWorld) -> None:
    asyncio.run(world.make_candidate("a").acquire())
    assert world.now == 0.0
    assert world.store.spec["holderIdentity"] == "a"
    assert world.store.spec["leaseDurationSeconds"] == 15


def test_a_candidate_waits_until_a_dead_leaders_lease_has_run_out(world: LeaderWorld) -> None:
    async def play() -> None:
        await world.make_candidate("a").acquire()
        await world.make_candidate("b").acquire()

    asyncio.run(play())
    assert 15.0 < world.now <= 15.0 + 2 * TIMING.retry
    assert (world.store.spec["holderIdentity"], world.store.spec["leaseTransitions"]) == ("b", 1)


def test_a_lease_that_is_given_back_is_taken_at_the_next_try(world: LeaderWorld) -> None:
    async def play() -> None:
        first = world.make_candidate("a")
        await first.acquire()
        await first.release()
        await world.make_candidate("b").acquire()

    asyncio.run(play())
    assert world.now == 0.0
    assert world.store.spec["holderIdentity"] == "b"


def test_a_live_leader_is_not_replaced(world: LeaderWorld) -> None:
    async def play() -> None:
        leader = world.make_candidate("a")
        await leader.acquire()
        other = world.make_candidate("b")
        for _ in range(20):
            await world.sleep(TIMING.retry)
            assert await leader._try()
            assert not await other._try()

    asyncio.run(play())
    assert world.store.spec["holderIdentity"] == "a"
    assert world.store.spec["leaseTransitions"] == 0


def test_a_leader_that_cannot_renew_ends_before_its_lease_does(world: LeaderWorld) -> None:
    async def play() -> None:
        leader = world.make_candidate("a")
        await leader.acquire()
        world.store.fault = Unavailable("no answer")
        await leader.hold()

    with pytest.raises(LeadershipLostError, match="not renewed"):
        asyncio.run(play())
    assert TIMING.renew <= world.now < TIMING.lease


def test_a_leader_gets_over_a_short_outage(world: LeaderWorld) -> None:
    def prepare_outage(fault: Exception | None) -> Callable[[], None]:
        return lambda: setattr(world.store, "fault", fault)

    def usurp() -> None:
        world.store.spec["holderIdentity"] = "b"

    async def play() -> None:
        leader = world.make_candidate("a")
        await leader.acquire()
        world.schedule(4.0, prepare_outage(Unavailable("no answer")))
        world.schedule(10.0, prepare_outage(None))
        world.schedule(40.0, usurp)
        await leader.hold()

    with pytest.raises(LeadershipLostError, match="another operator"):
        asyncio.run(play())
    assert world.now == 40.0


def test_a_renewal_whose_answer_was_lost_is_still_a_renewal(world: LeaderWorld) -> None:
    def usurp() -> None:
        world.store.spec["holderIdentity"] = "b"

    async def play() -> None:
        leader = world.make_candidate("a")
        await leader.acquire()
        world.store.lost_answers = 3
        world.schedule(30.0, usurp)
        await leader.hold()

    with pytest.raises(LeadershipLostError, match="another operator"):
        asyncio.run(play())
    assert world.now == 30.0


def test_of_two_candidates_that_write_at_once_one_leads(world: LeaderWorld) -> None:
    async def play() -> list[bool]:
        candidates = [world.make_candidate(name) for name in "ab"]
        return list(await asyncio.gather(*(candidate._try() for candidate in candidates)))

    assert sorted(asyncio.run(play())) == [False, True]


def test_errors_of_the_server_do_not_end_a_candidate(world: LeaderWorld) -> None:
    world.store.fault = Unavailable("no answer")
    world.schedule(30.0, lambda: setattr(world.store, "fault", None))
    asyncio.run(world.make_candidate("a").acquire())
    assert world.now == 30.0


def test_giving_back_does_not_touch_the_lease_of_another(world: LeaderWorld) -> None:
    async def play() -> None:
        leader = world.make_candidate("a")
        await leader.acquire()
        world.store.spec["holderIdentity"] = "b"
        await leader.release()

    asyncio.run(play())
    assert world.store.spec["holderIdentity"] == "b"


def test_a_candidate_that_never_led_gives_nothing_back(world: LeaderWorld) -> None:
    asyncio.run(world.make_candidate("a").release())
    assert world.store.lease is None
