"""Play a story once undisturbed, then once for each disturbance, and compare the endings.

Many at a time, each in a thread with a clock of its own: they wait for the API server alone.
"""

import itertools
import os
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from icdc_testing.operator.kills.cuts import KILLS, Cut, Journal, open_client
from icdc_testing.operator.kills.endings import Ending, check
from icdc_testing.operator.kills.seeds import Seed
from icdc_testing.operator.kills.stories import Story
from icdc_testing.operator.kills.trial import Trial, TrialSite
from icdc_testing.waiting import leaping_clock
from icdc_testing.waiting.leaping_clock import LeapingClock

SIDE_BY_SIDE = 16

SOAK_VARIABLE = "ICDC_SOAK"
"""Environment variable: try all disturbances and not a share of them."""
SHARE = 40
"""Without it, every 40th disturbance is tried, beginning at a random one."""

Each = TypeVar("Each")


@dataclass(frozen=True)
class StoryScope:
    """The namespace of a story, and the kubeconfigs of its user and of its operators."""

    story: Story
    namespace: str
    admin: Path
    operator: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)
    """Numbers for the names of pipelines, so that no two are the same."""


@dataclass(frozen=True)
class Undisturbed:
    """The undisturbed story, which disturbed ones are compared with."""

    seed: Seed | None
    """The middle of the story, to begin others from; None to begin at its start."""
    calls: list[str]
    """Calls of the operator that can be cut."""
    watch_events: int
    """Number of watch events, each of which can be lost."""
    ending: Ending


def choose_share(rng: random.Random, everything: Sequence[Each]) -> list[Each]:
    """Return the disturbances to try now, evenly spread; all of them with ICDC_SOAK."""
    if os.environ.get(SOAK_VARIABLE):
        return list(everything)
    return list(everything[rng.randrange(min(SHARE, len(everything))) :: SHARE])


async def run_to_end(trial: Trial, what: object) -> Ending:
    """Run a trial and return its ending; AssertionError names the story and what went wrong."""
    try:
        await trial.run()
        return await check(trial)
    except (AssertionError, ExceptionGroup, TimeoutError) as error:
        raise AssertionError(f"{trial.story}; {what}: {error}") from error


def play_undisturbed(scope: StoryScope) -> Undisturbed:
    """Play the whole story, and again from its seed: both must end the same."""

    async def play_planted(clock: LeapingClock) -> Undisturbed:
        async with open_client(scope.admin) as admin, open_client(scope.operator) as operator:
            site = TrialSite(clock, scope.namespace, admin, operator)
            whole = Trial(site, scope.story, Cut(), "killnone")
            wanted = await run_to_end(whole, "undisturbed")
            planted = Trial(site, scope.story, Cut(), "killseed", whole.seed)
            assert await run_to_end(planted, "planted") == wanted, f"{scope.story}: planted"
        calls = planted.calls[: planted.positions]
        return Undisturbed(whole.seed, calls, planted.watch_events, wanted)

    return leaping_clock.run(play_planted)


Play = Callable[[TrialSite, str, Each], Coroutine[Any, Any, None]]
"""Plays the story with one disturbance, by a pipeline of that name."""


def play_all(scope: StoryScope, everything: Sequence[Each], play: Play[Each]) -> None:
    """Play the story with each disturbance; raises the first failure."""
    left = list(everything)

    async def play_one_by_one(clock: LeapingClock) -> None:
        async with open_client(scope.admin) as admin, open_client(scope.operator) as operator:
            site = TrialSite(clock, scope.namespace, admin, operator)
            while left:
                await play(site, f"kill{next(scope.numbers)}y", left.pop())

    def work() -> None:
        try:
            leaping_clock.run(play_one_by_one)
        finally:
            left.clear()  # without this, the others would go on after a failure

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for task in [pool.submit(work) for _ in range(SIDE_BY_SIDE)]:
            task.result()


def play_cuts(scope: StoryScope, model: Undisturbed, cuts: Sequence[Cut]) -> list[Journal]:
    """Play the story with each cut: until it, calls are those of `model`, and so is the ending."""
    journals: list[Journal] = []

    async def play(site: TrialSite, name: str, cut: Cut) -> None:
        trial = Trial(site, scope.story, cut, name, model.seed)
        ending = await run_to_end(trial, cut)
        assert trial.calls[: cut.at] == model.calls[: cut.at], f"{scope.story}; {cut}"
        assert trial.restarts == (cut.fault in KILLS), f"{scope.story}; {cut}"
        assert ending == model.ending, f"{scope.story}; {cut}"
        journals.append(trial.journal)

    play_all(scope, cuts, play)
    return journals
