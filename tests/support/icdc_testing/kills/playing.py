"""Plays a story once as it should go, then again and again with something else going wrong.

Many at a time, each in a thread and with a clock of its own: what they wait for is the API server.
"""

import itertools
import os
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from icdc_testing.kills.cuts import KILLS, Cut, Journal, client
from icdc_testing.kills.endings import Ending, check
from icdc_testing.kills.seeds import Seed
from icdc_testing.kills.stories import Story
from icdc_testing.kills.trial import Site, Trial
from icdc_testing.waiting import leaping_clock
from icdc_testing.waiting.leaping_clock import Clock

SIDE_BY_SIDE = 16

SOAK_VARIABLE = "ICDC_SOAK"
"""Environment variable: all that can go wrong, and not only a share of it."""
SHARE = 40
"""So manieth part of all is tried where that is not set: another one by each seed."""

Each = TypeVar("Each")


@dataclass(frozen=True)
class Place:
    """Where a story plays, and as whom its people come to the API server."""

    story: Story
    namespace: str
    admin: Path
    operator: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Of the pipelines that play it, so that no two have the same name."""


@dataclass(frozen=True)
class Undisturbed:
    """The story as it should go: what those that are disturbed are held against."""

    seed: Seed | None
    calls: list[str]
    told: int
    """Events of watches."""
    ending: Ending


def share(rng: random.Random, everything: Sequence[Each]) -> list[Each]:
    """Those to be tried now, evenly spread; all of them in a soak."""
    if os.environ.get(SOAK_VARIABLE):
        return list(everything)
    return list(everything[rng.randrange(min(SHARE, len(everything))) :: SHARE])


async def lived(trial: Trial, what: object) -> Ending:
    """How the trial ended; AssertionError, with the story and what went wrong in it."""
    try:
        await trial.run()
        return await check(trial)
    except (AssertionError, ExceptionGroup, TimeoutError) as error:
        raise AssertionError(f"{trial.story}; {what}: {error}") from error


def undisturbed(place: Place) -> Undisturbed:
    """The whole story, and what of it is played again."""

    async def played(clock: Clock) -> Undisturbed:
        async with client(place.admin) as admin, client(place.operator) as operator:
            site = Site(clock, place.namespace, admin, operator)
            whole = Trial(site, place.story, Cut(), "killnone")
            wanted = await lived(whole, "undisturbed")
            planted = Trial(site, place.story, Cut(), "killseed", whole.seed)
            assert await lived(planted, "planted") == wanted, f"{place.story}: planted"
        calls = planted.calls[: planted.positions]
        return Undisturbed(whole.seed, calls, planted.told, wanted)

    return leaping_clock.run(played)


Play = Callable[[Site, str, Each], Coroutine[Any, Any, None]]
"""Plays the story with that going wrong, under that name."""


def play_all(place: Place, everything: Sequence[Each], play: Play[Each]) -> None:
    """Plays the story with each; raises what the first of them raises."""
    left = list(everything)

    async def one_by_one(clock: Clock) -> None:
        async with client(place.admin) as admin, client(place.operator) as operator:
            site = Site(clock, place.namespace, admin, operator)
            while left:
                await play(site, f"kill{next(place.numbers)}y", left.pop())

    def work() -> None:
        try:
            leaping_clock.run(one_by_one)
        finally:
            left.clear()  # without this, the others would go on after a failure

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for each in [pool.submit(work) for _ in range(SIDE_BY_SIDE)]:
            each.result()


def play_cuts(place: Place, model: Undisturbed, cuts: Sequence[Cut]) -> list[Journal]:
    """Plays the story with each cut: it must go as undisturbed until then, and end so too."""
    journals: list[Journal] = []

    async def play(site: Site, name: str, cut: Cut) -> None:
        trial = Trial(site, place.story, cut, name, model.seed)
        found = await lived(trial, cut)
        assert trial.calls[: cut.at] == model.calls[: cut.at], f"{place.story}; {cut}"
        assert trial.restarts == (cut.fault in KILLS), f"{place.story}; {cut}"
        assert found == model.ending, f"{place.story}; {cut}"
        journals.append(trial.journal)

    play_all(place, cuts, play)
    return journals
