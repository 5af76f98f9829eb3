"""Play one story with one cut: operators that die and are built anew, a user, and the end.

The watch is played: each write becomes an event after WATCH_SECONDS for the operator that lives
then, and never for a later one. Nothing but the API server outlives an operator.
"""

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from kubernetes.aio.client import ApiClient

from icdc_operator.cluster import together
from icdc_operator.cluster.kube import kinds
from icdc_operator.cluster.kube.api import ClusterApi
from icdc_operator.cluster.kube.transport import Transport, ignore_request
from icdc_operator.cluster.queue import PipelineKey
from icdc_testing.kube.stored_pipelines import Resource, make_minimal
from icdc_testing.operator.deciding.pipelines import NOW
from icdc_testing.operator.kills.cuts import Cut, CutLine, Journal
from icdc_testing.operator.kills.operator import KilledOperator
from icdc_testing.operator.kills.player import Player
from icdc_testing.operator.kills.seeds import OWNED, Seed, plant
from icdc_testing.operator.kills.stale_views import STALE_SECONDS, StaleView
from icdc_testing.operator.kills.stories import Story, Turn, When
from icdc_testing.operator.kills.witness import Witness
from icdc_testing.waiting.leaping_clock import LeapingClock

RESTART_SECONDS = 1.0
WATCH_SECONDS = 0.0531
QUIET_SECONDS = 8.0
"""Longer than an operator waits between two reconciles of an active run."""
SETTLED_SECONDS = 2.0
"""Between two checks whether the story is over."""
LIMIT_SECONDS = 900.0
COLLECTED_SECONDS = 180.0
"""In real seconds, because the garbage collector uses the real clock."""


@dataclass(frozen=True)
class TrialSite:
    """A namespace, and the ways to its API server."""

    clock: LeapingClock
    namespace: str
    admin: ApiClient
    operator: ApiClient
    start: datetime = NOW
    """The time of operators and drivers when the clock starts; the server keeps its own."""


class Trial:
    """One pipeline through one story."""

    def __init__(
        self, site: TrialSite, story: Story, cut: Cut, name: str, seed: Seed | None = None
    ) -> None:
        self.site, self.story, self.name = site, story, name
        self.seed: Seed | None = seed
        """What it begins from; where it begins from nothing, what others can begin from."""
        self.whole = seed is None
        self._zero = 0.0
        self.journal = Journal(cut)
        self.witness = Witness()
        self.restarts = 0
        self.watch_events = 0
        """Events of watches; those in `swallowed`, counted from 1, reach no operator."""
        self.swallowed = range(0)
        self._living: list[KilledOperator] = []
        self._written = 0.0
        self._changed = asyncio.Event()
        self._last_call = 0
        self._acted = self._let_go = self._deleted = self._over = False
        line = CutLine(site.admin, site.clock, applied=self._note_other)
        client = cast(ApiClient, line)
        self.api = ClusterApi(client)
        self.transport = Transport(client, ignore_request, 30.0)
        self.player = Player(
            self.api,
            self.transport,
            site.namespace,
            name,
            self.read_time,
            self._notify,
            self.witness,
            story.courses,
        )

    def read_time(self) -> datetime:
        """Return the time of operators and drivers."""
        return self.site.start + timedelta(seconds=self.site.clock.seconds - self._zero)

    @property
    def calls(self) -> list[str]:
        """The operators' calls, with the name of the pipeline taken out."""
        return [call.replace(self.name, "shop") for call in self.journal.calls]

    @property
    def positions(self) -> int:
        """Return how many calls can be cut: after a deletion the order of calls varies."""
        return self._last_call if self.story.deletes else len(self.journal.calls)

    async def run(self) -> None:
        """Play to the end of the story."""
        clock = self.site.clock
        # On a full second: what is rounded to milliseconds is so in all trials alike.
        await asyncio.sleep(math.ceil(clock.seconds) - clock.seconds)
        self._zero = clock.seconds - (self.seed.seconds if self.seed is not None else 0.0)
        if self.seed is not None:
            planted = await plant(self.seed, self.api, self.transport, self.name)
            self.witness.begin(planted, self.seed.applied)
        else:
            resource = make_minimal(self.name, **self.story.spec)
            resource["metadata"]["namespace"] = self.site.namespace
            self.witness.note_stored(await self.api.create(resource))
        works = (self._wait_for_end(), self.player.run(), self._run_operators(), self._play_user())
        await together.run_until_first(*(self._run_until_over(work) for work in works))

    async def _run_until_over(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            self._over = True

    async def _run_operators(self) -> None:
        await self.run_operators(self.journal)

    async def run_operators(
        self, journal: Journal, seconds: Callable[[], float] | None = None
    ) -> None:
        """Run one operator after the other, until all is over; `seconds` is what a call takes."""
        # An operator that is cut at the moment at which all ends takes that for its death.
        while not self._over:
            site = self.site
            line = CutLine(
                site.operator,
                site.clock,
                journal=journal,
                take_view=self._take_view,
                seconds=seconds,
                applied=self.note_operator,
            )
            operator = KilledOperator(
                line, PipelineKey(site.namespace, self.name), site.clock, self.read_time
            )
            self._living.append(operator)
            try:
                await operator.run()
            finally:
                self._living.remove(operator)
            operator.check_errors()
            self.restarts += 1
            await asyncio.sleep(RESTART_SECONDS)

    async def _take_view(self) -> StaleView:
        """Return a view of the objects as they are now, to be answered for a while."""
        pipeline = await self.api.get_pipeline(self.site.namespace, self.name)
        objects = {kind.plural: await self.list_owned(kind) for kind in OWNED}
        objects[kinds.PIPELINE.plural] = [] if pipeline is None else [pipeline]
        return StaleView(self.site.clock.seconds + STALE_SECONDS, objects)

    async def _play_user(self) -> None:
        begins = self.story.begins
        if begins is not None and self.seed is None:
            await self._wait_until(begins)
            self.seed = await self._save_seed()
        for turn in self.story.turns:
            await self._wait_until(turn.when)
            await self._act(turn)
        self._acted = True
        await asyncio.Event().wait()

    async def _wait_until(self, when: When) -> None:
        while not when(self.witness.status):
            self._changed.clear()
            await self._changed.wait()

    async def _save_seed(self) -> Seed:
        pipeline = await self.api.get_pipeline(self.site.namespace, self.name)
        assert pipeline is not None
        objects = [item for kind in OWNED for item in await self.list_owned(kind)]
        seconds = (self.read_time() - self.site.start).total_seconds()
        return Seed(self.name, seconds, pipeline, tuple(objects), dict(self.witness.applied))

    async def _act(self, turn: Turn) -> None:
        where = (kinds.PIPELINE, self.site.namespace, self.name)
        if turn.patch is not None:
            changed = await self.api.merge_patch(*where, dict(turn.patch))
            self.witness.note_stored(changed)
            self._notify(kinds.PIPELINE.plural, changed, False)
            return
        target = await self.api.get(*where)
        assert target is not None
        await self.api.delete(*where, uid=target["metadata"]["uid"])
        self._last_call = len(self.journal.calls) + 1
        self._notify(kinds.PIPELINE.plural, target, not self.story.waits)
        await self._wait_until(lambda _: self._let_go or not self.story.waits)
        with self.site.clock.walk():
            async with asyncio.timeout(COLLECTED_SECONDS):
                while any([await self.list_owned(kind) for kind in OWNED]):
                    self.player.wake()
                    await asyncio.sleep(WATCH_SECONDS)
        self._deleted = True

    async def _wait_for_end(self) -> None:
        """Return once the story is over and all is quiet, or the witness complains."""
        clock = self.site.clock
        deadline = clock.seconds + LIMIT_SECONDS
        while not self.witness.complaints:
            await asyncio.sleep(SETTLED_SECONDS)
            assert clock.seconds < deadline, f"not done: {self.witness.status.to_resource()}"
            over = self._deleted or (self._acted and self.story.done(self.witness.status))
            if over and self._is_idle() and clock.seconds - self._written > QUIET_SECONDS:
                return

    async def list_owned(self, kind: kinds.Kind) -> list[Resource]:
        """Return all objects of a kind that belong to the pipeline."""
        selector = f"icebergcdc.dev/pipeline={self.name}"
        return await self.api.list_objects(kind, self.site.namespace, selector=selector)

    def _is_idle(self) -> bool:
        """Return whether an operator lives and none has anything to do now."""
        for operator in self._living:
            operator.check_errors()
        return bool(self._living) and not any(operator.is_active for operator in self._living)

    def note_operator(self, method: str, path: str, body: Any, answer: bytes) -> None:
        """Note that the server has done what an operator asked for."""
        if method == "GET":
            return
        self._written = self.site.clock.seconds
        state = json.loads(answer)
        parts = path.strip("/").split("/")
        match method, parts[-3:]:
            case "PATCH", [kinds.PIPELINE.plural, _, "status"]:
                self.witness.note_stored(state)
                self._changed.set()
                self._notify(kinds.PIPELINE.plural, state, False)
                return
            case "PATCH", [*_, kinds.PIPELINE.plural, _]:
                if not state["metadata"].get("finalizers"):
                    self._let_go, self._last_call = True, len(self.journal.calls)
                    self._changed.set()
                self._notify(kinds.PIPELINE.plural, state, self._let_go)
                return
            case "POST", [*_, kinds.APPLICATION.plural]:
                self.witness.note_creation(body)
                self._notify(kinds.APPLICATION.plural, state, False)
            case "DELETE", [*_, kinds.APPLICATION.plural, name]:
                self.witness.note_deletion(name)
                self._notify(kinds.APPLICATION.plural, {"metadata": {}}, True)
            case "DELETE", [*_, kinds.POD.plural, _]:
                # By the garbage collector, if it was faster: it goes by the clock on the wall.
                deleted = state["kind"] != "Pod"
                self._notify(kinds.POD.plural, {"metadata": {}} if deleted else state, deleted)
            case _:
                return
        self.player.wake()

    def _note_other(self, method: str, path: str, body: Any, answer: bytes) -> None:
        if method != "GET":
            self._written = self.site.clock.seconds

    def _notify(self, plural: str, pipeline: Resource, deleted: bool) -> None:
        self.watch_events += 1
        if self.watch_events not in self.swallowed:
            loop = asyncio.get_running_loop()
            loop.call_later(WATCH_SECONDS, self._arrive, plural, pipeline, deleted)

    def _arrive(self, plural: str, pipeline: Resource, deleted: bool) -> None:
        for operator in self._living:
            operator.notify(plural, pipeline, deleted)
