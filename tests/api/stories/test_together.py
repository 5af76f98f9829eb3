"""Two operators at once, without leader election: both see all, and both work on every story.

What keeps them from doing harm is what keeps one that was killed from it: versions of statuses,
names and epochs that the durable record fixes. How long each of their calls takes is by chance, so
that they meet in all ways. A few times, or often when ICDC_SOAK is set.
"""

import asyncio
import os
import random
from collections.abc import Callable

import pytest

from support_cuts import Cut, Journal
from support_kill_playing import SOAK_VARIABLE, Place, lived, play_all, undisturbed
from support_kill_stories import STORIES, Story
from support_kill_trial import Site, Trial

pytestmark = pytest.mark.api

TIMES, SOAK_TIMES = 2, 40
QUICK_SECONDS, SLOW_SECONDS = 0.001, 1.5
"""Between these each call takes: from far below to above a step of the world around."""


class TogetherTrial(Trial):
    """A story with two operators that begin together and live to its end."""

    calls_of: tuple[Journal, Journal]
    rng: random.Random

    async def _operators(self) -> None:
        self.calls_of = (Journal(Cut()), Journal(Cut()))
        await asyncio.gather(*(self.operators(each, self._seconds) for each in self.calls_of))

    def _seconds(self) -> float:
        # As many quick ones as slow ones, by their logarithm.
        return float(QUICK_SECONDS * (SLOW_SECONDS / QUICK_SECONDS) ** self.rng.random())


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_two_operators_at_once_make_the_same_of_it(
    story: Story,
    place: Callable[[Story], Place],
    rng: random.Random,
    record_property: Callable[[str, object], None],
) -> None:
    where = place(story)
    model = undisturbed(where)
    seeds = [rng.random() for _ in range(SOAK_TIMES if os.environ.get(SOAK_VARIABLE) else TIMES)]
    record_property("tried", f"{len(seeds)} times two operators at once: {story}")

    async def play(site: Site, name: str, seed: float) -> None:
        trial = TogetherTrial(site, story, Cut(), name, model.seed)
        trial.rng = random.Random(seed)
        found = await lived(trial, f"two operators, {seed}")
        assert found == model.ending, f"{story}; two operators, {seed}"
        assert all(journal.calls for journal in trial.calls_of), "both work"

    play_all(where, seeds, play)
